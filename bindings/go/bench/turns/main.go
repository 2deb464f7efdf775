// Program turns compares the pure-Go engine with fastcache and freecache on a busy machine: the
// caches take turns in one process, in short rounds, and the program prints the least time of each
// and its ratio to fastcache's.
//
//	go run ./turns -rounds 24
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/coocood/freecache"

	"larder.example/larder/internal/engine"
)

const (
	draws      = 1 << 20
	keyBytes   = 16
	goroutines = 10
	roundBytes = 64 << 20
	manyKeys   = 16
)

var (
	rounds = flag.Int("rounds", 24, "rounds of each cache")
	only   = flag.String("only", "", "rows that contain this")
)

// row is one comparison.
type row struct {
	name                string
	items, size, memory int
	isZipf, sets, gets  bool
}

var rows = []row{
	{"GetInto, 100 B, uniform", 1_000_000, 100, 512 << 20, false, false, true},
	{"GetInto, 100 B, zipf", 1_000_000, 100, 512 << 20, true, false, true},
	{"GetInto, 10 KiB", 20_000, 10 << 10, 512 << 20, false, false, true},
	{"Set, 100 B, uniform", 1_000_000, 100, 512 << 20, false, true, false},
	{"Set, 100 B, zipf", 1_000_000, 100, 512 << 20, true, true, false},
	{"Set, 10 KiB", 20_000, 10 << 10, 512 << 20, false, true, false},
	{"cache-aside, 1 KB, uniform", 1_000_000, 1000, 256 << 20, false, true, true},
	{"cache-aside, 1 KB, zipf", 1_000_000, 1000, 256 << 20, true, true, true},
}

// cache is a cache and the least times of its operations.
type cache struct {
	name string
	set  func(key string, value []byte)
	get  func(dst []byte, key string) bool
	// many reads manyKeys keys in one call.
	many      func(keys []string)
	wall, cpu float64
}

// reads returns true for another way to read from larder's cache.
func (c *cache) reads() bool { return c.name == "View" || c.name == "GetMany" }

// plays returns true if the cache takes part in a row.
func (c *cache) plays(r row) bool { return !c.reads() || r.gets && (c.many == nil || !r.sets) }

func bytesOf(key string) []byte { return unsafe.Slice(unsafe.StringData(key), len(key)) }

// open opens the caches. View and GetMany read from that of larder.
func open(memory int) []*cache {
	larder, err := engine.New(engine.Config{MemoryBytes: int64(memory)})
	if err != nil {
		log.Fatal(err)
	}
	fast, free := fastcache.New(memory), freecache.NewCache(memory)
	set := func(key string, value []byte) { _, _ = larder.Set(key, value, 0, 0) }
	return []*cache{
		{name: "fastcache",
			set: func(key string, value []byte) { fast.Set(bytesOf(key), value) },
			get: func(dst []byte, key string) bool {
				_, ok := fast.HasGet(dst, bytesOf(key))
				return ok
			}},
		{name: "larder", set: set,
			get: func(dst []byte, key string) bool {
				_, ok := larder.GetInto(dst, key)
				return ok
			}},
		{name: "View", set: set,
			get: func(_ []byte, key string) bool { return larder.View(key, func([]byte) {}) }},
		{name: "GetMany", set: set,
			many: func(keys []string) {
				larder.GetMany(keys, func(int, []byte, engine.Item) {})
			}},
		{name: "freecache",
			set: func(key string, value []byte) { _ = free.Set(bytesOf(key), value, 0) },
			get: func(dst []byte, key string) bool {
				_, err := free.GetWithBuf(bytesOf(key), dst[:cap(dst)])
				return err == nil
			}},
	}
}

// keysOf draws keys, each adjacent to the next one in memory.
func keysOf(r row) []string {
	random := rand.New(rand.NewSource(2))
	law := rand.NewZipf(random, 1.01, 1, uint64(r.items-1))
	mix := random.Perm(r.items)
	var text strings.Builder
	text.Grow(draws * keyBytes)
	drawn := make([]string, draws)
	for at := range drawn {
		number := random.Intn(r.items)
		if r.isZipf {
			number = mix[law.Uint64()]
		}
		fmt.Fprintf(&text, "key:%012d", number)
		drawn[at] = text.String()[at*keyBytes:]
	}
	return drawn
}

// processor returns the processor time of this process. On a busy machine it tells more than the
// time that has passed.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// play runs a round of operations on a cache.
func (c *cache) play(r row, drawn []string, round int) {
	each := min(roundBytes/r.size, 300_000) / goroutines
	// View and GetMany use the cache of larder: they must not find in the processor what that has
	// just read.
	offset := 0
	switch c.name {
	case "View":
		offset = draws / 23
	case "GetMany":
		offset = draws / 13
	}
	var all sync.WaitGroup
	started, before := time.Now(), processor()
	for number := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			value, dst := make([]byte, r.size), make([]byte, 0, r.size+64)
			from := offset + round*each*goroutines + number*draws/11
			if c.many != nil {
				for at := 0; at < each; at += manyKeys {
					first := (from + at) % (draws - manyKeys)
					c.many(drawn[first : first+manyKeys])
				}
				return
			}
			for at := range each {
				key := drawn[(from+at)%draws]
				if !r.gets || !c.get(dst, key) && r.sets {
					c.set(key, value)
				}
			}
		}()
	}
	all.Wait()
	count := float64(each * goroutines)
	c.wall = min(c.wall, float64(time.Since(started))/count)
	c.cpu = min(c.cpu, float64(processor()-before)/count)
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	fmt.Println("| least ns, and processor time / fastcache's | fastcache | larder | View | GetMany | freecache |")
	fmt.Println("|---|--:|--:|--:|--:|--:|")
	for _, r := range rows {
		if !strings.Contains(r.name, *only) {
			continue
		}
		drawn, caches := keysOf(r), open(r.memory)
		value := make([]byte, r.size)
		for _, c := range caches {
			c.wall, c.cpu = math.Inf(1), math.Inf(1)
			for number := 0; !c.reads() && number < r.items; number++ {
				c.set(fmt.Sprintf("key:%012d", number), value)
			}
		}
		for round := range *rounds {
			for _, c := range caches {
				if c.plays(r) {
					c.play(r, drawn, round)
				}
			}
		}
		fmt.Printf("| %s |", r.name)
		for _, c := range caches {
			if math.IsInf(c.cpu, 1) {
				fmt.Print(" |")
				continue
			}
			fmt.Printf(" %.0f / %.0f, %.2f |", c.wall, c.cpu, c.cpu/caches[0].cpu)
		}
		fmt.Println()
	}
}
