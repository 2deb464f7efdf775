package engine

import (
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestEachRemovalIsReportedOnce counts for each stored value how often its removal was reported.
func TestEachRemovalIsReportedOnce(t *testing.T) {
	clock := newClock()
	var cache *Engine
	left := map[string]int{}
	reasons := map[Reason]int{}
	config := clock.config(Config{CAS: true, OnRemove: func(key, value []byte, reason Reason) {
		left[string(value)]++
		reasons[reason]++
		// Callbacks may use the cache.
		cache.Peek(nil, string(key))
	}})
	cache = openTiny(t, config, 64, 8<<10)
	random := rand.New(rand.NewSource(1))
	values := map[string]bool{}
	for at := range 30_000 {
		number := random.Intn(2000)
		switch random.Intn(20) {
		case 0:
			_ = cache.Delete(key(number), 0)
		case 1:
			clock.advance(10)
			cache.Get(key(number))
		case 2:
			if at%1000 == 0 {
				_ = cache.Clear()
			} else if at%100 == 0 {
				cache.SweepNow()
			}
		default:
			size := 20 + random.Intn(300)
			if random.Intn(50) == 0 {
				size = 5000
			}
			v := stamped(number, at, size)
			if _, err := cache.Set(key(number), v, 0, int64(random.Intn(2)*500)); err != nil {
				t.Fatal(err)
			}
			values[string(v)] = true
		}
	}
	if err := cache.Clear(); err != nil {
		t.Fatal(err)
	}
	for v := range values {
		if left[v] != 1 {
			t.Fatalf("a value left %d times", left[v])
		}
	}
	for _, reason := range []Reason{Expired, Evicted, Deleted, Replaced, Cleared} {
		if reasons[reason] == 0 {
			t.Errorf("no removal was %v", reason)
		}
	}
	cache.check(t)
}

func TestSweepRemovesWhatNoReaderMeets(t *testing.T) {
	var mutex sync.Mutex
	removed := 0
	cache := openTest(t, Config{Sweep: time.Millisecond, OnRemove: func(_, _ []byte, reason Reason) {
		mutex.Lock()
		defer mutex.Unlock()
		if reason == Expired {
			removed++
		}
	}})
	removals := func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return removed
	}
	for number := range 1000 {
		ttl := int64(1)
		if number%2 == 0 {
			ttl = 100_000
		}
		if _, err := cache.Set(key(number), value(number, 20), 0, ttl); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); removals() < 500; {
		if time.Now().After(deadline) {
			t.Fatalf("%d removals", removals())
		}
		time.Sleep(time.Millisecond)
	}
	if removed := removals(); removed != 500 || cache.Len() != 500 {
		t.Errorf("%d removals, %d items", removed, cache.Len())
	}
}

func TestASweeperEndsWithItsCache(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		cache, err := New(Config{MemoryBytes: 1 << 20, Sweep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		_ = cache.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}
