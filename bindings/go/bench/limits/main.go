// Program limits measures what the pure-Go engine costs a program: memory per item, collections and
// pauses with many items, and the throughput of many threads.
//
//	go run ./limits -items 20000000
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"larder.example/larder/internal/engine"
)

var (
	items  = flag.Int("items", 20_000_000, "number of items with 16 bytes of key and 100 of value")
	rounds = flag.Int("rounds", 15, "rounds of the threads")
	one    = flag.String("one", "", "measure this in this process: engine, nothing or threads")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	switch *one {
	case "engine", "nothing":
		collections(*one)
	case "threads":
		threads()
	default:
		for _, name := range []string{"engine", "nothing", "threads"} {
			process := exec.Command(os.Args[0], "-one", name,
				"-items", fmt.Sprint(*items), "-rounds", fmt.Sprint(*rounds))
			process.Stdout, process.Stderr = os.Stdout, os.Stderr
			if err := process.Run(); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func open(memory int64) *engine.Engine {
	cache, err := engine.New(engine.Config{MemoryBytes: memory})
	if err != nil {
		log.Fatal(err)
	}
	return cache
}

// appendKey appends the key with a number, of 16 bytes.
func appendKey(key []byte, number int) []byte { return fmt.Appendf(key, "key:%012d", number) }

// resident returns the memory of this process.
func resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		log.Fatal(err)
	}
	var total, pages int
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		log.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// collections fills a cache, or only makes the keys, and then runs collections.
func collections(name string) {
	debug.FreeOSMemory()
	before := resident()
	var cache *engine.Engine
	if name == "engine" {
		cache = open(int64(*items) * 190)
	}
	value, key := make([]byte, 100), []byte(nil)
	for number := range *items {
		key = appendKey(key[:0], number)
		if cache != nil {
			if _, err := cache.Set(string(key), value, 0, 0); err != nil {
				log.Fatal(err)
			}
		}
	}
	debug.FreeOSMemory()
	used := resident() - before
	var times []time.Duration
	for range 50 {
		started := time.Now()
		runtime.GC()
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	fmt.Printf("%-8s %d items: collection %v (least %v), longest pause %v", name, *items,
		times[len(times)/2], times[0], longestPause())
	if cache != nil {
		stats := cache.Stats()
		fmt.Printf("; per item: RSS %.1f, used %.1f, live %.1f, index %.1f bytes; evicted %d",
			per(used), per(stats.UsedBytes), per(stats.LiveBytes), per(stats.IndexBytes), stats.Evictions)
		runtime.KeepAlive(cache)
	}
	fmt.Println()
}

func per(bytes int) float64 { return float64(bytes) / float64(*items) }

// longestPause returns the upper end of the last bucket with a pause for a collection.
func longestPause() (longest time.Duration) {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	pauses := sample[0].Value.Float64Histogram()
	for at, count := range pauses.Counts {
		if count > 0 {
			longest = time.Duration(pauses.Buckets[at+1] * float64(time.Second))
		}
	}
	return longest
}

// threads compares the throughput of 400 threads with that of two for each processor, on caches of
// 64 MiB. A tenth of the operations are sets. The two take turns.
func threads() {
	few, many := 2*runtime.GOMAXPROCS(0), 400
	caches := [2]*engine.Engine{open(64 << 20), open(64 << 20)}
	names := make([]string, 10_000)
	for at := range names {
		names[at] = string(appendKey(nil, at))
	}
	var best [2]float64
	var ratios []float64
	for range *rounds {
		var rates [2]float64
		for at, count := range []int{few, many} {
			rates[at] = throughput(caches[at], names, count)
			best[at] = max(best[at], rates[at])
		}
		ratios = append(ratios, rates[1]/rates[0])
	}
	slices.Sort(ratios)
	fmt.Printf("threads  %d: %.2f M/s, %d: %.2f M/s at best; ratio %.2f, median of rounds %.2f\n",
		few, best[0]/1e6, many, best[1]/1e6, best[1]/best[0], ratios[len(ratios)/2])
}

// counter is a counter on cache lines of its own.
type counter struct {
	atomic.Int64
	_ [120]byte
}

// throughput returns the operations per second of threads that each run one goroutine. The end of
// the threads is not part of the time.
func throughput(cache *engine.Engine, names []string, count int) float64 {
	const slice, batch = 600 * time.Millisecond, 64
	var ready, done sync.WaitGroup
	var isOver atomic.Bool
	counters := make([]counter, count)
	begin := make(chan struct{})
	for worker := range count {
		ready.Add(1)
		done.Add(1)
		go func() {
			// The thread ends with the goroutine, which does not unlock it.
			runtime.LockOSThread()
			defer done.Done()
			value, dst := make([]byte, 100), make([]byte, 0, 200)
			ready.Done()
			<-begin
			for at := worker * 7919; !isOver.Load(); at++ {
				name := names[at%len(names)]
				if at%10 == 0 {
					_, _ = cache.Set(name, value, 0, 0)
				} else {
					dst, _ = cache.GetInto(dst[:0], name)
				}
				if at%batch == 0 {
					counters[worker].Add(batch)
				}
			}
		}()
	}
	ready.Wait()
	close(begin)
	total := func() (sum int64) {
		for worker := range counters {
			sum += counters[worker].Load()
		}
		return sum
	}
	// The threads have begun before the time does.
	time.Sleep(slice / 6)
	started, before := time.Now(), total()
	time.Sleep(slice)
	rate := float64(total()-before) / time.Since(started).Seconds()
	isOver.Store(true)
	done.Wait()
	return rate
}
