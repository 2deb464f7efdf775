// Fills caches with many items, each cache in a process of its own, and tells what that does to the program around it:
// the pauses of the garbage collector, how long a collection takes, and the memory an item takes. The cache `nothing` keeps
// nothing: its pauses are those of the machine.
//
//	go run ./gcpause -items 20000000 -caches larder,bigcache,nothing
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"larder/bench"
)

func main() {
	log.SetFlags(0)
	items := flag.Int("items", 20_000_000, "how many items of 100 bytes")
	caches := flag.String("caches", "larder,bigcache,nothing", "which caches, of "+strings.Join(bench.Names, ",")+",nothing")
	one := flag.String("one", "", "measure this cache in this process")
	flag.Parse()
	if *items < 1 {
		log.Fatal("-items is how many items are stored: 1 at least")
	}
	if *one != "" {
		row, err := measure(*one, *items)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row)
		return
	}
	fmt.Printf("%-10s %10s %12s %12s %14s %16s %12s %10s %12s\n",
		"cache", "items", "half below", "99 % below", "longest pause", "one collection", "RSS an item", "hits", "a set")
	for _, name := range strings.Split(*caches, ",") {
		// A process of its own has neither the heap nor the pauses of others.
		process := exec.Command(os.Args[0], "-one", name, "-items", fmt.Sprint(*items))
		process.Stdout, process.Stderr = os.Stdout, os.Stderr
		if err := process.Run(); err != nil {
			log.Fatal(err)
		}
	}
}

func measure(name string, items int) (string, error) {
	before, err := residentBytes()
	if err != nil {
		return "", err
	}
	// Some 190 bytes an item, which is more than any of those with a limit in bytes takes.
	cache, err := bench.Open(name, items, max(int64(items)*190, 64<<20))
	if err != nil {
		return "", err
	}
	if cache == nil {
		return "", fmt.Errorf("there is no cache %q: expected one of %s", name, strings.Join(bench.Names, ", "))
	}
	defer cache.Close()
	started := time.Now()
	bench.Fill(cache, items, bench.Key)
	set := time.Since(started) / time.Duration(items)
	collection := collectWhileReading(cache, items)
	pauses := pausesSoFar()
	debug.FreeOSMemory()
	after, err := residentBytes()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%-10s %10d %12v %12v %14v %16v %10d B %9.2f%% %12v", name, items,
		below(pauses, 0.5), below(pauses, 0.99), below(pauses, 1), collection.Round(time.Microsecond),
		(after-before)/int64(items), hits(cache, items), set), nil
}

// collectWhileReading has the garbage collector run five times while somebody reads, and says how long it took at most.
func collectWhileReading(cache bench.Cache, items int) (longest time.Duration) {
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ended.Load() {
			cache.Get(bench.Key(rand.N(items)))
		}
	}()
	for range 5 {
		started := time.Now()
		runtime.GC()
		longest = max(longest, time.Since(started))
	}
	ended.Store(true)
	<-done
	return longest
}

// pausesSoFar is how often, and for how long, the garbage collector has stopped all goroutines from the start of the
// process on.
func pausesSoFar() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// below is how long such a part of the pauses was at most: the upper end of the histogram's bucket in which the last is.
func below(pauses *metrics.Float64Histogram, part float64) time.Duration {
	var all, seen uint64
	for _, count := range pauses.Counts {
		all += count
	}
	for at, count := range pauses.Counts {
		seen += count
		if all > 0 && float64(seen) >= part*float64(all) {
			end := pauses.Buckets[at+1]
			if math.IsInf(end, 1) {
				end = pauses.Buckets[at]
			}
			return time.Duration(end * float64(time.Second)).Round(time.Microsecond)
		}
	}
	return 0
}

// hits is how many of the items are there, in percent, by a sample.
func hits(cache bench.Cache, items int) float64 {
	const sample = 100_000
	found := 0
	for range sample {
		if _, ok := cache.Get(bench.Key(rand.N(items))); ok {
			found++
		}
	}
	return 100 * float64(found) / sample
}

// residentBytes is the memory of this process that is there.
func residentBytes() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte("VmRSS:"))
	var kib int64
	_, err = fmt.Sscan(string(rest), &kib)
	return kib << 10, err
}
