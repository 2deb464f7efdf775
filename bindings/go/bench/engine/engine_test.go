// Package engine compares the pure-Go engine with other caches that keep bytes. It links nothing
// but Go.
//
//	go test -bench . ./engine
package engine

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/allegro/bigcache/v3"
	"github.com/coocood/freecache"

	"larder.example/larder/internal/engine"
)

const draws = 1 << 21

type cache interface {
	get(dst []byte, key string) ([]byte, bool)
	set(key string, value []byte)
	close()
}

func bytesOf(key string) []byte { return unsafe.Slice(unsafe.StringData(key), len(key)) }

type larderCache struct{ *engine.Engine }

func (c larderCache) get(dst []byte, key string) ([]byte, bool) { return c.GetInto(dst, key) }
func (c larderCache) set(key string, value []byte)              { _, _ = c.Set(key, value, 0, 0) }
func (c larderCache) close()                                    { _ = c.Close() }

// viewed reads in place.
type viewed struct{ larderCache }

func (c viewed) get(dst []byte, key string) ([]byte, bool) {
	ok := c.View(key, func(value []byte) { dst = append(dst, value[0]) })
	return dst, ok
}

type fast struct{ *fastcache.Cache }

func (c fast) get(dst []byte, key string) ([]byte, bool) { return c.HasGet(dst, bytesOf(key)) }
func (c fast) set(key string, value []byte)              { c.Set(bytesOf(key), value) }
func (c fast) close()                                    { c.Reset() }

type free struct{ *freecache.Cache }

func (c free) get(dst []byte, key string) ([]byte, bool) {
	if dst == nil {
		value, err := c.Get(bytesOf(key))
		return value, err == nil
	}
	value, err := c.GetWithBuf(bytesOf(key), dst[:cap(dst)])
	return value, err == nil
}
func (c free) set(key string, value []byte) { _ = c.Set(bytesOf(key), value, 0) }
func (c free) close()                       { c.Clear() }

type big struct{ *bigcache.BigCache }

func (c big) get(_ []byte, key string) ([]byte, bool) {
	value, err := c.Get(key)
	return value, err == nil
}
func (c big) set(key string, value []byte) { _ = c.Set(key, value) }
func (c big) close()                       { _ = c.Close() }

var names = []string{"larder", "view", "fastcache", "freecache", "bigcache"}

func open(b *testing.B, name string, memory int) cache {
	switch name {
	case "larder", "view":
		opened, err := engine.New(engine.Config{MemoryBytes: int64(memory)})
		if err != nil {
			b.Fatal(err)
		}
		if name == "view" {
			return viewed{larderCache{opened}}
		}
		return larderCache{opened}
	case "fastcache":
		return fast{fastcache.New(memory)}
	case "freecache":
		return free{freecache.NewCache(memory)}
	}
	config := bigcache.DefaultConfig(24 * time.Hour)
	config.CleanWindow, config.Verbose, config.HardMaxCacheSize = 0, false, memory>>20
	opened, err := bigcache.New(context.Background(), config)
	if err != nil {
		b.Fatal(err)
	}
	return big{opened}
}

// keysOf draws keys of 16 bytes, each adjacent to the next one in memory.
func keysOf(items int, zipf bool) []string {
	random := rand.New(rand.NewSource(2))
	law := rand.NewZipf(random, 1.01, 1, uint64(items-1))
	mix := random.Perm(items)
	var text strings.Builder
	text.Grow(draws * 16)
	drawn := make([]string, draws)
	for at := range drawn {
		number := random.Intn(items)
		if zipf {
			number = mix[law.Uint64()]
		}
		fmt.Fprintf(&text, "key:%012d", number)
		drawn[at] = text.String()[at*16:]
	}
	return drawn
}

var drawn = struct {
	sync.Mutex
	keys map[string][]string
}{keys: map[string][]string{}}

func keys(items int, zipf bool) []string {
	drawn.Lock()
	defer drawn.Unlock()
	name := fmt.Sprint(items, zipf)
	if drawn.keys[name] == nil {
		drawn.keys[name] = keysOf(items, zipf)
	}
	return drawn.keys[name]
}

// cpu returns the processor time of this process. On a busy machine it tells more than the time
// that has passed.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

type shape struct {
	name                string
	items, size, memory int
	zipf                bool
}

var shapes = []shape{
	{"100B-uniform", 1_000_000, 100, 512 << 20, false},
	{"100B-zipf", 1_000_000, 100, 512 << 20, true},
	{"10KiB-uniform", 20_000, 10 << 10, 512 << 20, false},
}

// selected returns the caches to measure: those of the variable CACHES, or all.
func selected() []string {
	if chosen := os.Getenv("CACHES"); chosen != "" {
		return strings.Fields(chosen)
	}
	return names
}

func each(b *testing.B, shapes []shape, fill bool, run func(*testing.B, cache, shape, []string)) {
	for _, shape := range shapes {
		for _, name := range selected() {
			b.Run(shape.name+"/"+name, func(b *testing.B) {
				cache := open(b, name, shape.memory)
				defer cache.close()
				value := make([]byte, shape.size)
				for number := 0; fill && number < shape.items; number++ {
					cache.set(fmt.Sprintf("key:%012d", number), value)
				}
				drawn := keys(shape.items, shape.zipf)
				b.SetParallelism(5)
				b.ReportAllocs()
				b.ResetTimer()
				before := cpu()
				run(b, cache, shape, drawn)
				b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func parallel(b *testing.B, drawn []string, run func(key string) bool) {
	var goroutines, hits atomic.Int64
	b.RunParallel(func(loop *testing.PB) {
		at, found := int(goroutines.Add(1))*draws/11, int64(0)
		for loop.Next() {
			if run(drawn[at%draws]) {
				found++
			}
			at++
		}
		hits.Add(found)
	})
	b.ReportMetric(float64(hits.Load())/float64(b.N), "hits")
}

func BenchmarkGet(b *testing.B) {
	each(b, shapes, true, func(b *testing.B, cache cache, _ shape, drawn []string) {
		parallel(b, drawn, func(key string) bool {
			_, ok := cache.get(nil, key)
			return ok
		})
	})
}

func BenchmarkGetInto(b *testing.B) {
	each(b, shapes, true, func(b *testing.B, cache cache, shape shape, drawn []string) {
		pool := sync.Pool{New: func() any { dst := make([]byte, 0, shape.size+64); return &dst }}
		var goroutines, hits atomic.Int64
		b.RunParallel(func(loop *testing.PB) {
			dst := pool.Get().(*[]byte)
			at, found := int(goroutines.Add(1))*draws/11, int64(0)
			for loop.Next() {
				if _, ok := cache.get((*dst)[:0], drawn[at%draws]); ok {
					found++
				}
				at++
			}
			hits.Add(found)
		})
		b.ReportMetric(float64(hits.Load())/float64(b.N), "hits")
	})
}

func BenchmarkSet(b *testing.B) {
	each(b, shapes, true, func(b *testing.B, cache cache, shape shape, drawn []string) {
		value := make([]byte, shape.size)
		parallel(b, drawn, func(key string) bool {
			cache.set(key, value)
			return true
		})
	})
}

// BenchmarkAside is cache-aside in a full memory: a miss stores the item.
func BenchmarkAside(b *testing.B) {
	full := []shape{
		{"1KB-uniform", 1_000_000, 1000, 256 << 20, false},
		{"1KB-zipf", 1_000_000, 1000, 256 << 20, true},
	}
	each(b, full, true, func(b *testing.B, cache cache, shape shape, drawn []string) {
		value := make([]byte, shape.size)
		var goroutines, hits atomic.Int64
		b.RunParallel(func(loop *testing.PB) {
			dst := make([]byte, 0, shape.size+64)
			at, found := int(goroutines.Add(1))*draws/11, int64(0)
			for loop.Next() {
				if _, ok := cache.get(dst, drawn[at%draws]); ok {
					found++
				} else {
					cache.set(drawn[at%draws], value)
				}
				at++
			}
			hits.Add(found)
		})
		b.ReportMetric(float64(hits.Load())/float64(b.N), "hits")
	})
}
