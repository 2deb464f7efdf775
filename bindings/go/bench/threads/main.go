// Command threads prints the throughput of a cache by the number of threads that use it, up to many
// more than the machine has processors, as after many blocking calls: Go's threads do not end.
//
// Each number of threads has a cache of its own, and its goroutines keep their threads until the
// end. Idle threads make one call and none after it. The numbers take turns, slice by slice, so
// that drift of the machine's speed affects all of them.
//
//	go run ./threads -rounds 9 -slice 60ms
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"larder.example/larder"
	"larder.example/larder/bench"
)

const (
	items  = 10_000
	memory = 64 << 20
	// The number of operations between two looks at the end of the slice.
	batch = 64
)

// The numbers of busy and of idle threads.
var counts = []struct{ busy, idle int }{
	{2, 0}, {8, 0}, {16, 0}, {62, 0}, {80, 0}, {200, 0}, {400, 0}, {1000, 0}, {2, 62}, {2, 1000}, {16, 1000},
}

// A load is the number of sets among ten operations.
var loads = []struct {
	name string
	sets int
}{{"gets", 0}, {"sets", 10}, {"mixed", 1}}

// scene is a cache with its threads.
type scene struct {
	busy, idle int
	cache      *larder.Cache
	begin      []chan int
	isOn       atomic.Bool
	done       []counter
	ended      sync.WaitGroup
	rates      [][]float64
}

// counter is a counter on cache lines of its own.
type counter struct {
	atomic.Int64
	_ [120]byte
}

var keys = bench.Keys(items)

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 9, "number of slices of each number of threads and load")
	slice := flag.Duration("slice", 60*time.Millisecond, "duration of a slice")
	flag.Parse()
	var scenes []*scene
	for _, count := range counts {
		scenes = append(scenes, newScene(count.busy, count.idle))
	}
	for range *rounds {
		for at, load := range loads {
			for _, scene := range scenes {
				rate := scene.measure(load.sets, *slice)
				scene.rates[at] = append(scene.rates[at], rate)
			}
		}
	}
	print(scenes)
}

func newScene(busy, idle int) *scene {
	cache, err := larder.Open(larder.Options{Memory: memory})
	if err != nil {
		log.Fatal(err)
	}
	value := make([]byte, bench.ValueBytes)
	for _, key := range keys {
		if err := cache.Set(key, value, 0); err != nil {
			log.Fatal(err)
		}
	}
	s := &scene{busy: busy, idle: idle, cache: cache, done: make([]counter, busy), rates: make([][]float64, len(loads))}
	s.ended.Add(busy + idle)
	for thread := range busy {
		begin := make(chan int)
		s.begin = append(s.begin, begin)
		go s.work(thread, begin)
	}
	for range idle {
		go func() {
			runtime.LockOSThread()
			cache.Contains(keys[0])
			s.ended.Done()
			select {}
		}()
	}
	s.ended.Wait()
	return s
}

func (s *scene) work(thread int, begin <-chan int) {
	// Never unlocked: the goroutine keeps its thread.
	runtime.LockOSThread()
	s.cache.Contains(keys[0])
	s.ended.Done()
	value, at := make([]byte, bench.ValueBytes), thread*items/7
	for sets := range begin {
		for s.isOn.Load() {
			for number := range batch {
				// A step that visits all keys.
				at = (at + 7919) % items
				if number%10 >= sets {
					if _, ok := s.cache.GetInto(value[:0], keys[at]); !ok {
						log.Fatalf("%s is not in the cache", keys[at])
					}
				} else if err := s.cache.Set(keys[at], value, 0); err != nil {
					log.Fatal(err)
				}
			}
			s.done[thread].Add(batch)
		}
		s.ended.Done()
	}
}

// measure returns the operations per second of a slice of time after all threads have begun.
func (s *scene) measure(sets int, slice time.Duration) float64 {
	// As many run at a time as in a program with calls that block.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(s.busy))
	s.isOn.Store(true)
	s.ended.Add(s.busy)
	for _, begin := range s.begin {
		begin <- sets
	}
	time.Sleep(slice / 4)
	began, before := time.Now(), s.total()
	time.Sleep(slice)
	took, done := time.Since(began), s.total()-before
	s.isOn.Store(false)
	s.ended.Wait()
	return float64(done) / took.Seconds()
}

func (s *scene) total() (total int64) {
	for at := range s.done {
		total += s.done[at].Load()
	}
	return total
}

// print prints millions of operations per second, and their ratio to those of the best number of
// threads.
func print(scenes []*scene) {
	fmt.Printf("many threads, %d items, %d MiB: million operations/s, and\n", items, memory>>20)
	fmt.Println("of best: throughput / that of the best number of threads")
	fmt.Print(" busy  idle")
	best := make([]float64, len(loads))
	for at, load := range loads {
		fmt.Printf("  %8s  of best", load.name)
		best[at] = slices.MaxFunc(scenes, func(a, b *scene) int { return cmp.Compare(a.rate(at), b.rate(at)) }).rate(at)
	}
	fmt.Println()
	for _, scene := range scenes {
		fmt.Printf("%5d %5d", scene.busy, scene.idle)
		for at := range loads {
			fmt.Printf("  %8.2f  %7.2f", scene.rate(at)/1e6, scene.rate(at)/best[at])
		}
		fmt.Println()
	}
}

// rate returns the median of the slices.
func (s *scene) rate(load int) float64 {
	rates := slices.Sorted(slices.Values(s.rates[load]))
	return rates[len(rates)/2]
}
