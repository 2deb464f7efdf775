// Command gcpause fills caches with many items, each cache in its own process, and prints the
// effects on the program: the pauses of the garbage collector, the duration of a collection, and
// the memory per item. The cache "nothing" stores nothing: its pauses are those of the machine.
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

	"larder.example/larder/bench"
)

func main() {
	log.SetFlags(0)
	items := flag.Int("items", 20_000_000, "number of items of 100 bytes")
	caches := flag.String("caches", "larder,bigcache,nothing", "caches to measure, of "+strings.Join(bench.Names, ",")+",nothing")
	one := flag.String("one", "", "measure this cache in this process")
	flag.Parse()
	if *items < 1 {
		log.Fatal("invalid -items: want at least 1")
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
		"cache", "items", "p50 pause", "p99 pause", "longest pause", "one collection", "RSS per item", "hits", "per set")
	for _, name := range strings.Split(*caches, ",") {
		// A separate process has neither the heap nor the pauses of other caches.
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
	// 190 bytes per item exceed the use of every cache with a limit in bytes.
	cache, err := bench.Open(name, items, max(int64(items)*190, 64<<20))
	if err != nil {
		return "", err
	}
	if cache == nil {
		return "", fmt.Errorf("unknown cache %q: want one of %s", name, strings.Join(bench.Names, ", "))
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

// collectWhileReading runs the garbage collector five times during reads, and returns the longest
// duration.
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

// pausesSoFar returns the histogram of the garbage collector's pauses since the start of the
// process.
func pausesSoFar() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// below returns a quantile of the pauses: the upper bound of its bucket in the histogram.
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

// hits returns the percentage of items found, by a sample.
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

// residentBytes returns the resident memory of this process.
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
