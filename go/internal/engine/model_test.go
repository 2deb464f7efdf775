package engine

import (
	"fmt"
	"math/rand"
	"testing"
)

func TestRandomCommandsGiveWhatAMapGives(t *testing.T) {
	for _, shape := range []struct {
		name                    string
		keys, sizeMax, commands int
		memory                  int64
	}{
		{"small values", 3000, 300, 200_000, 16 << 20},
		{"values copied without the lock", 300, 6000, 100_000, 16 << 20},
		{"values in pieces", 30, 120_000, 20_000, 64 << 20},
		{"many groups", 60_000, 30, 400_000, 32 << 20},
	} {
		t.Run(shape.name, func(t *testing.T) {
			clock := newClock()
			cache := openTest(t, clock.config(Config{MemoryBytes: shape.memory, CAS: true}))
			p := newPair(t, cache, clock.read)
			random := rand.New(rand.NewSource(1))
			for at := range shape.commands {
				p.step(random, clock, shape.keys, shape.sizeMax)
				if at%50_000 == 40_000 {
					if err := cache.Clear(); err != nil {
						t.Fatal(err)
					}
					clear(p.model.items)
				}
			}
			for number := range shape.keys {
				p.read(0, key(number), 0)
			}
			if stats := cache.Stats(); stats.Evictions > 0 {
				t.Errorf("%d evictions", stats.Evictions)
			}
		})
	}
}

func TestMemoryThatFillsGivesTheLatestValueOrNone(t *testing.T) {
	clock := newClock()
	for _, shape := range []struct{ segments, bytes, keys, sizeMax int }{
		{64, 4 << 10, 3000, 300},
		{64, 16 << 10, 1000, 5000},
		{128, 8 << 10, 300, 40_000},
		{64, 4 << 10, 30_000, 30},
	} {
		cache := openTiny(t, clock.config(Config{}), shape.segments, shape.bytes)
		random := rand.New(rand.NewSource(1))
		latest := map[int]int{}
		for at := range 200_000 {
			number := random.Intn(shape.keys)
			if random.Intn(2) == 0 {
				size := random.Intn(shape.sizeMax)
				_, err := cache.Set(key(number), value(at, size), 0, int64(random.Intn(2)*1000))
				if err != nil {
					t.Fatalf("%+v: Set: %v at %d, %+v", shape, err, at, cache.Stats())
				}
				latest[number] = at
			} else if got, ok := cache.Get(key(number)); ok {
				at, exists := latest[number]
				if want := value(at, len(got)); !exists || string(got) != string(want) {
					t.Fatalf("key %d has another value than the latest", number)
				}
			}
			if at%100 == 0 {
				clock.advance(int64(random.Intn(10)))
			}
		}
		if stats := cache.Stats(); stats.Evictions == 0 || stats.Hits == 0 {
			t.Errorf("%+v", stats)
		}
		cache.check(t)
	}
}

// check compares the counters of a cache with its contents.
func (e *Engine) check(t testing.TB) {
	t.Helper()
	for number := range e.shards {
		if err := e.shards[number].Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestTinyItemsFillTheIndexAndAreStored stores items so small that the index, which may take half
// of the memory, fills before the other half.
func TestTinyItemsFillTheIndexAndAreStored(t *testing.T) {
	removed := 0
	config := Config{MemoryBytes: 1 << 20, OnRemove: func(_, _ []byte, reason Reason) {
		if reason != Evicted {
			t.Errorf("an item was %v, want evicted", reason)
		}
		removed++
	}}
	cache := openTest(t, config)
	const items = 300_000
	failed := 0
	for number := range items {
		if _, err := cache.Set(fmt.Sprint(number), nil, 0, 0); err != nil {
			failed++
		} else if _, ok := cache.Get(fmt.Sprint(number)); !ok {
			t.Fatalf("item %d is missing after its store", number)
		}
	}
	if failed != 0 {
		t.Errorf("%d of %d sets failed, though no reader holds memory", failed, items)
	}
	if stored := cache.Len() + removed; stored != items {
		t.Errorf("%d items are there or were reported, want %d", stored, items)
	}
	cache.check(t)
}
