// Command limits measures the cost of a cache for its program: memory per item, and collections and
// pauses with many items, each cache in its own process. Then it measures the throughput of many
// threads on package larder. The cache "nothing" stores nothing: its pauses are the pauses of the
// machine.
//
//	go run ./limits -items 20000000 -caches larder,BigCache,nothing
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"larder.example/larder"
	"larder.example/larder/bench"
)

var (
	items  = flag.Int("items", 20_000_000, "number of items with 16 bytes of key and 100 of value")
	caches = flag.String("caches", "larder,BigCache,nothing", "caches to fill")
	rounds = flag.Int("rounds", 15, "rounds of the threads; 0 skips them")
	one    = flag.String("one", "", "measure only this in this process: a cache, or threads")
	counts = flag.String("threads", "", "numbers of threads, such as 1,2,4 (default two for each processor, and 400)")
)

func main() {
	log.SetFlags(0)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"Prints a table of memory per item, collections and pauses with many items, one process per cache,\n"+
				"and one of the throughput of many threads on package larder.")
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	switch *one {
	case "":
		err = all()
	case "threads":
		err = threads()
	default:
		err = collections(*one)
	}
	if err != nil {
		log.Fatal("limits: ", err)
	}
}

// all starts a process for each row.
func all() error {
	fmt.Printf("%s\n\n", bench.Versions("github.com/allegro/bigcache"))
	fmt.Printf("| %d items | RSS | used | records | index | collection | least | longest pause |\n", *items)
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	names := strings.Split(*caches, ",")
	if *rounds > 0 {
		names = append(names, "threads")
	}
	for _, name := range names {
		process := exec.Command(os.Args[0], "-one", name,
			"-items", fmt.Sprint(*items), "-rounds", fmt.Sprint(*rounds), "-threads", *counts)
		process.Stdout, process.Stderr = os.Stdout, os.Stderr
		if err := process.Run(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// collections fills a cache and then runs collections.
func collections(name string) error {
	kind, err := bench.KindOf(name)
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	before, err := bench.Resident()
	if err != nil {
		return err
	}
	// 190 bytes per item exceed the use of every cache with a limit in bytes.
	load := bench.Load{Items: *items, Size: 100, Limit: max(int64(*items)*190, 64<<20)}
	// A cache that stores nothing misses.
	load.IsFull = name == "nothing"
	cache, err := kind.Open(load.Items, load.Size, load.Limit)
	if err != nil {
		return err
	}
	defer cache.Close()
	if err := load.Fill(cache); err != nil {
		return err
	}
	debug.FreeOSMemory()
	after, err := bench.Resident()
	if err != nil {
		return err
	}
	var times []time.Duration
	for range 50 {
		started := time.Now()
		runtime.GC()
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	memory := fmt.Sprintf("%.1f B | | |", per(after-before))
	if own, ok := cache.(interface{ Stats() larder.Stats }); ok {
		stats := own.Stats()
		memory = fmt.Sprintf("%.1f B | %.1f | %.1f | %.1f", per(after-before), per(int64(stats.MemoryUsed)),
			per(int64(stats.ItemBytes)), per(int64(stats.IndexBytes)))
	}
	fmt.Printf("| %s | %s | %v | %v | %v |\n", name, memory,
		times[len(times)/2].Round(time.Microsecond), times[0].Round(time.Microsecond), longestPause().Round(time.Microsecond))
	return nil
}

// per returns the number of bytes per item.
func per(bytes int64) float64 { return float64(bytes) / float64(*items) }

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

// threads compares the throughput of several numbers of threads, by default of two threads for each
// processor and of 400, on caches of 64 MiB. A tenth of the operations are sets. The numbers take
// turns.
func threads() error {
	numbers := []int{2 * runtime.GOMAXPROCS(0), 400}
	if *counts != "" {
		numbers = nil
		for _, word := range strings.Split(*counts, ",") {
			number, err := strconv.Atoi(word)
			if err != nil || number < 1 {
				return fmt.Errorf("-threads: %q is not a number of threads", word)
			}
			numbers = append(numbers, number)
		}
	}
	caches := make([]*larder.Cache, len(numbers))
	for at := range caches {
		var err error
		if caches[at], err = larder.Open(larder.Options{Memory: 64 << 20}); err != nil {
			return err
		}
	}
	names := make([]string, 10_000)
	for at := range names {
		names[at] = fmt.Sprintf("key:%012d", at)
	}
	best := make([]float64, len(numbers))
	ratios := make([][]float64, len(numbers))
	for range *rounds {
		var first float64
		for at, count := range numbers {
			rate := throughput(caches[at], names, count)
			if at == 0 {
				first = rate
			}
			best[at] = max(best[at], rate)
			ratios[at] = append(ratios[at], rate/first)
		}
	}
	fmt.Printf("\n| threads on 64 MiB, a tenth sets | operations per second, at best | ratio |\n|---|--:|--:|\n")
	for at, count := range numbers {
		fmt.Printf("| %d | %.2f M |", count, best[at]/1e6)
		if at == 0 {
			fmt.Println(" |")
			continue
		}
		slices.Sort(ratios[at])
		fmt.Printf(" %.2f, median of %d rounds %.2f (%.2f–%.2f) |\n", best[at]/best[0], *rounds,
			ratios[at][*rounds/2], ratios[at][0], ratios[at][*rounds-1])
	}
	return nil
}

// counter is a counter that shares no cache line with other data.
type counter struct {
	atomic.Int64
	_ [120]byte
}

// throughput returns the operations per second of threads that each run one goroutine. The time
// does not include the end of the threads.
func throughput(cache *larder.Cache, names []string, count int) float64 {
	const slice, batch = 600 * time.Millisecond, 64
	var ready, done sync.WaitGroup
	var isOver atomic.Bool
	counters := make([]counter, count)
	begin := make(chan struct{})
	for worker := range count {
		ready.Add(1)
		done.Add(1)
		go func() {
			// The goroutine does not unlock the thread, so the thread ends with the goroutine.
			runtime.LockOSThread()
			defer done.Done()
			value, dst := make([]byte, 100), make([]byte, 0, 200)
			ready.Done()
			<-begin
			for at := worker * 7919; !isOver.Load(); at++ {
				name := names[at%len(names)]
				if at%10 == 0 {
					_ = cache.Set(name, value, 0)
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
	// Wait until the threads have begun before the time starts.
	time.Sleep(slice / 6)
	started, before := time.Now(), total()
	time.Sleep(slice)
	rate := float64(total()-before) / time.Since(started).Seconds()
	isOver.Store(true)
	done.Wait()
	return rate
}
