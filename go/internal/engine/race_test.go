package engine

import (
	"encoding/binary"
	"errors"
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"time"
)

// stamped returns a value that contains its key and its version, and whose other bytes are derived
// from these.
func stamped(number, version, size int) []byte {
	value := make([]byte, max(size, 16))
	binary.LittleEndian.PutUint64(value, uint64(number))
	binary.LittleEndian.PutUint64(value[8:], uint64(version))
	fill(value[16:], number*1_000_003+version)
	return value
}

// isStamped returns true if a value is a complete value of a key.
func isStamped(value []byte, number int) bool {
	if len(value) < 16 || binary.LittleEndian.Uint64(value) != uint64(number) {
		return false
	}
	version := int(binary.LittleEndian.Uint64(value[8:]))
	return string(value) == string(stamped(number, version, len(value)))
}

// TestGoroutinesNeverSeeAWrongValue runs readers, writers and clears in a memory that is constantly
// reused.
func TestGoroutinesNeverSeeAWrongValue(t *testing.T) {
	for _, shape := range []struct {
		segments, bytes, keys, sizeMax int
		streams                        bool
	}{
		{64, 4 << 10, 2000, 400, false},
		{64, 16 << 10, 200, 7000, false},
		{64, 16 << 10, 200, 7000, true},
		{64, 8 << 10, 60, 20_000, true},
		{256, 4 << 10, 40_000, 20, false},
	} {
		cache := openTiny(t, Config{CAS: true, streams: shape.streams}, shape.segments, shape.bytes)
		stop := time.Now().Add(1500 * time.Millisecond)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Add(1)
			go func() {
				defer all.Done()
				random := rand.New(rand.NewSource(int64(worker)))
				for version := worker; time.Now().Before(stop); version += 8 {
					race(t, cache, random, random.Intn(shape.keys), version, random.Intn(shape.sizeMax))
				}
			}()
		}
		all.Wait()
		cache.check(t)
		if stats := cache.Stats(); stats.Hits == 0 {
			t.Errorf("%+v", stats)
		}
	}
}

func race(t *testing.T, cache *Engine, random *rand.Rand, number, version, size int) {
	k := key(number)
	see := func(value []byte, item Item) {
		if !isStamped(value, number) {
			t.Errorf("%s has the bytes of another value", k)
		}
	}
	switch command := random.Intn(100); {
	case command < 35:
		if value, ok := cache.GetInto(nil, k); ok {
			see(value, Item{})
		}
	case command < 40:
		cache.GetMany([]string{key(number + 1), k, key(number + 2), k}, func(at int, value []byte, item Item) {
			if at%2 == 1 {
				see(value, item)
				runtime.Gosched()
				see(value, item)
			}
		})
	case command < 50:
		cache.ViewItem(k, func(value []byte, item Item) {
			see(value, item)
			if version%64 == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			see(value, item)
		})
	case command < 80:
		_, err := cache.Set(k, stamped(number, version, size), 0, int64(version%3)*20)
		if err != nil && !errors.Is(err, ErrNoSpace) {
			t.Errorf("Set: %v", err)
		}
	case command < 85:
		_, _ = cache.Add(k, stamped(number, version, size), uint32(version), 0)
	case command < 90:
		_ = cache.Delete(k, 0)
	case command < 93:
		_ = cache.Touch(k, int64(version%2)*10)
	case command < 96:
		if value, _, ok := cache.GetAndTouch(nil, k, 50); ok {
			see(value, Item{})
		}
	case command < 98:
		_, _ = cache.Update(k, func(_ Item, value []byte, isFound bool) Change {
			if isFound {
				see(value, Item{})
			}
			return Change{Action: Write, Value: stamped(number, version, size)}
		})
	case command == 98 && version%50 == 0:
		_ = cache.Clear()
	default:
		runtime.Gosched()
	}
}

// TestEachIncrementCounts adds to counters from several goroutines while others replace items. The
// memory is large enough for all items.
func TestEachIncrementCounts(t *testing.T) {
	cache := openTest(t, Config{CAS: true, MemoryBytes: 8 << 20})
	for number := range 10 {
		if _, err := cache.Set(key(number), []byte("0"), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	const workers, rounds = 4, 20_000
	var all sync.WaitGroup
	for worker := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := range rounds {
				if _, _, err := cache.Incr(key(at%10), 1); err != nil {
					t.Error(err)
				}
				// These make the counters' segments sparse, so that compaction moves counters.
				_, _ = cache.Set(key(100+at%50), make([]byte, 900+worker), 0, 0)
			}
		}()
	}
	all.Wait()
	for number := range 10 {
		value, _ := cache.Get(key(number))
		if string(value) != "8000" {
			t.Errorf("counter %d is %q, want 8000", number, value)
		}
	}
	cache.check(t)
}

// TestAppendsAreNeverLost appends long pieces, which are stored without the lock.
func TestAppendsAreNeverLost(t *testing.T) {
	cache := openTest(t, Config{MemoryBytes: 64 << 20})
	if _, err := cache.Set("log", nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	const workers, rounds = 4, 20
	var all sync.WaitGroup
	for worker := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for range rounds {
				more := make([]byte, 1500)
				for at := range more {
					more[at] = byte('a' + worker)
				}
				if _, err := cache.Append("log", more, 0); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	value, _ := cache.Get("log")
	if len(value) != workers*rounds*1500 {
		t.Errorf("%d bytes, want %d", len(value), workers*rounds*1500)
	}
}

// TestGoroutinesPublishWhatTheyWriteBesideSweepsAndClears writes long values, which are written
// without the lock. Neither a sweep nor a clear may treat an incomplete record as an item.
func TestGoroutinesPublishWhatTheyWriteBesideSweepsAndClears(t *testing.T) {
	clock := newClock()
	cache := openTiny(t, clock.config(Config{}), 128, 512<<10)
	for round := range 40 {
		var writers sync.WaitGroup
		for worker := range 4 {
			writers.Add(1)
			go func() {
				defer writers.Done()
				value := make([]byte, 200_000)
				for at := range 300 {
					name := key((at*4 + worker) % 200)
					if _, err := cache.Set(name, value, 0, int64(1+at%3)); err != nil {
						t.Errorf("Set: %v", err)
					}
				}
			}()
		}
		done := make(chan struct{})
		go func() { writers.Wait(); close(done) }()
		for isDone := false; !isDone; {
			select {
			case <-done:
				isDone = true
			default:
			}
			clock.advance(1)
			cache.SweepNow()
			if round%2 == 0 {
				_ = cache.Clear()
			}
		}
		cache.check(t)
	}
}
