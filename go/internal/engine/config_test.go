package engine

import (
	"errors"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestTheBoundCoversSegmentsAndTables(t *testing.T) {
	for memory := int64(MemoryMin); memory <= min(1<<38, math.MaxInt); memory = memory*5/4 + 4096 {
		g, err := divide(memory, 0)
		if err != nil {
			t.Fatalf("%d: %v", memory, err)
		}
		if used := int64(g.shards) * int64(g.segments) * int64(g.segmentBytes); used > memory || used < memory*9/10 {
			t.Errorf("%d bytes: %+v use %d", memory, g, used)
		}
		if g.segments < 32 || g.segments >= 1<<14-1 {
			t.Errorf("%d bytes: %+v", memory, g)
		}
	}
	for _, memory := range []int64{-1, 0, MemoryMin - 1, MemoryMax + 1} {
		if _, err := New(Config{MemoryBytes: memory}); !errors.Is(err, ErrMemory) {
			t.Errorf("%d bytes: %v", memory, err)
		}
	}
}

// An item that one machine stores must fit on another machine.
func TestTheLargestItemDependsOnTheMemoryAlone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, memory := range []int64{MemoryMin, 16 << 20, 64 << 20, 256 << 20, 1 << 30} {
		limits := map[int]bool{}
		for _, processors := range []int{1, 2, 16, 64, 256} {
			runtime.GOMAXPROCS(processors)
			cache := openTest(t, Config{MemoryBytes: memory})
			limits[cache.ItemMax()] = true
			if _, err := cache.Set("k", make([]byte, cache.ItemMax()-1), 0, 0); err != nil {
				t.Errorf("%d bytes on %d processors: an item of %d bytes: %v", memory, processors, cache.ItemMax(), err)
			}
			_ = cache.Close()
		}
		if len(limits) != 1 {
			t.Errorf("%d bytes: the largest items are %v, want one limit", memory, limits)
		}
	}
	// A larger cache can store larger items.
	before := 0
	for memory := int64(MemoryMin); memory <= min(1<<38, math.MaxInt); memory *= 4 {
		g, err := divide(memory, 0)
		if err != nil {
			t.Fatalf("%d: %v", memory, err)
		}
		if g.itemMax() < before {
			t.Errorf("%d bytes take items of %d, and a quarter of them %d", memory, g.itemMax(), before)
		}
		before = g.itemMax()
	}
}

func TestACacheHasPartsThatTakeTheRequestedItem(t *testing.T) {
	for _, memory := range []int64{64 << 20, 256 << 20, 1 << 30} {
		for _, itemMax := range []int{1000, 1 << 20, int(memory) / 64, int(memory) / 16, int(memory) / 10} {
			cache := openTest(t, Config{MemoryBytes: memory, ItemMax: itemMax})
			if cache.ItemMax() != itemMax {
				t.Errorf("%d bytes: ItemMax is %d, want %d", memory, cache.ItemMax(), itemMax)
			}
			if _, err := cache.Set("k", make([]byte, itemMax-1), 0, 0); err != nil {
				t.Errorf("%d bytes: an item of %d bytes: %v", memory, itemMax, err)
			}
			_ = cache.Close()
		}
	}
}

func TestKeysAndItemsHaveLimits(t *testing.T) {
	cache := openTest(t, Config{ItemMax: 1000})
	for _, name := range []string{"", strings.Repeat("x", 251)} {
		if _, err := cache.Set(name, nil, 0, 0); !errors.Is(err, ErrBadKey) {
			t.Errorf("key of %d bytes: %v", len(name), err)
		}
		if _, ok := cache.Get(name); ok {
			t.Errorf("key of %d bytes is found", len(name))
		}
	}
	longest := strings.Repeat("x", 250)
	if _, err := cache.Set(longest, make([]byte, 750), 0, 0); err != nil {
		t.Error(err)
	}
	if _, err := cache.Append(longest, []byte("x"), 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Append: %v", err)
	}
	if _, err := cache.Set(longest, make([]byte, 751), 0, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Set: %v", err)
	}
	if _, ok := cache.Get(longest); ok {
		t.Error("the old value outlives a set of a larger one")
	}
	if _, err := cache.CompareAndSwap("key", nil, 0, 0, 1); !errors.Is(err, ErrNoTokens) {
		t.Errorf("CompareAndSwap: %v", err)
	}
}

func TestReadsAndSetsDoNotAllocate(t *testing.T) {
	cache := openTest(t, Config{CAS: true})
	value, dst := make([]byte, 100), make([]byte, 0, 200)
	seen := 0
	visit := func(value []byte) { seen += len(value) }
	keys := []string{"key", "none", "number"}
	visitMany := func(_ int, value []byte, _ Item) { seen += len(value) }
	for name, run := range map[string]func(){
		"Set":     func() { _, _ = cache.Set("key", value, 1, 1000) },
		"GetInto": func() { dst, _ = cache.GetInto(dst[:0], "key") },
		"GetItem": func() { dst, _, _ = cache.GetItem(dst[:0], "key") },
		"View":    func() { cache.View("key", visit) },
		"GetMany": func() { cache.GetMany(keys, visitMany) },
		"Delete":  func() { _ = cache.Delete("other", 0) },
		"Incr":    func() { _, _, _ = cache.Incr("number", 1) },
		"Touch":   func() { _ = cache.Touch("key", 500) },
	} {
		_, _ = cache.Set("key", value, 1, 1000)
		_, _ = cache.Set("number", []byte("5"), 0, 0)
		want := 0.0
		if poisons {
			// The copies that larder_debug poisons.
			want = map[string]float64{"View": 1, "GetMany": 2}[name]
		}
		if count := testing.AllocsPerRun(1000, run); count != want {
			t.Errorf("%s allocates %v times, want %v", name, count, want)
		}
	}
}

func TestHitsAndMissesAreCounted(t *testing.T) {
	cache := openTest(t, Config{})
	_, _ = cache.Set("key", nil, 0, 0)
	const rounds = 300_000
	for range rounds {
		cache.Get("key")
		cache.Get("other")
	}
	if stats := cache.Stats(); stats.Hits != rounds || stats.Misses != rounds {
		t.Errorf("%d hits, %d misses, want %d", stats.Hits, stats.Misses, rounds)
	}
}

func TestTokensOfDifferentKeysDiffer(t *testing.T) {
	cache, err := New(Config{MemoryBytes: 64 << 20, CAS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	seen := map[uint64]bool{0: true}
	for number := range 1000 {
		token, err := cache.Set(strconv.Itoa(number), nil, 0, 0)
		if err != nil || seen[token] {
			t.Fatalf("Set: token %d, seen before: %t, error %v", token, seen[token], err)
		}
		seen[token] = true
	}
}
