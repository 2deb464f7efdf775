package engine

import (
	"bytes"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"time"
)

func openResizable(t *testing.T, config Config) *Engine {
	t.Helper()
	config.MemoryBytes, config.MemoryBytesMax = 16<<20, 64<<20
	return openTest(t, config)
}

// fillUp stores items of a kilobyte until the cache is full, and returns their number.
func fillUp(t *testing.T, cache *Engine, count int) int {
	t.Helper()
	for number := range count {
		if _, err := cache.Set(key(number), value(number, 1000), 0, 0); err != nil {
			t.Fatalf("Set of item %d: %v", number, err)
		}
	}
	return cache.Len()
}

func checkUsed(t *testing.T, cache *Engine, limit int64) {
	t.Helper()
	stats := cache.Stats()
	if stats.MemoryBytes != limit {
		t.Errorf("MemoryBytes = %d, want %d", stats.MemoryBytes, limit)
	}
	if used := int64(stats.UsedBytes); used > limit || used < limit*8/10 {
		t.Errorf("%d bytes are used of %d, want 80 to 100 percent", used, limit)
	}
}

func TestTheBoundOfTheMemoryCanBeRaisedAndLowered(t *testing.T) {
	cache := openResizable(t, Config{})
	const items = 100_000
	first := fillUp(t, cache, items)
	checkUsed(t, cache, 16<<20)
	for _, limit := range []int64{64 << 20, 24 << 20, 8 << 20, 16 << 20} {
		if err := cache.SetMemory(limit); err != nil {
			t.Fatalf("SetMemory(%d): %v", limit, err)
		}
		if used := int64(cache.Stats().UsedBytes); used > limit {
			t.Errorf("%d bytes are used right after SetMemory(%d)", used, limit)
		}
		held := fillUp(t, cache, items)
		checkUsed(t, cache, limit)
		// The index keeps the size that it had at the highest memory limit.
		room := limit - int64(cache.Stats().IndexBytes)
		if want := int64(first) * room / (16 << 20); int64(held) < want*8/10 || int64(held) > want*12/10 {
			t.Errorf("%d items in %d bytes outside the index, want about %d", held, room, want)
		}
	}
}

func TestALowerBoundKeepsWhatIsRead(t *testing.T) {
	cache := openResizable(t, Config{})
	const hot = 500
	fillUp(t, cache, hot)
	for range 3 {
		for number := range hot {
			if _, ok := cache.Get(key(number)); !ok {
				t.Fatalf("item %d is gone before the change", number)
			}
		}
	}
	fillUp(t, cache, 14_000)
	if err := cache.SetMemory(4 << 20); err != nil {
		t.Fatal(err)
	}
	left := 0
	for number := range hot {
		if got, ok := cache.Get(key(number)); ok {
			left++
			if !bytes.Equal(got, value(number, 1000)) {
				t.Fatalf("item %d has another value", number)
			}
		}
	}
	if left < hot*9/10 {
		t.Errorf("%d of %d items that were read three times are left, want nine tenths", left, hot)
	}
}

func TestABoundOutOfRangeIsRefused(t *testing.T) {
	cache := openResizable(t, Config{})
	fillUp(t, cache, 20_000)
	for _, limit := range []int64{-1, 0, 1 << 10, 64<<20 + 1, 1 << 50} {
		if err := cache.SetMemory(limit); !errors.Is(err, ErrMemory) {
			t.Errorf("SetMemory(%d): %v, want %v", limit, err, ErrMemory)
		}
	}
	checkUsed(t, cache, 16<<20)
	// Store many small items, so that the index needs more memory than the lowest limit would leave.
	if err := cache.SetMemory(64 << 20); err != nil {
		t.Fatal(err)
	}
	for number := range 1_000_000 {
		if _, err := cache.Set(key(number), nil, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := cache.SetMemory(2 << 20); !errors.Is(err, ErrMemory) {
		t.Errorf("SetMemory below twice the index: %v, want %v", err, ErrMemory)
	}
	_ = cache.Close()
	if err := cache.SetMemory(32 << 20); !errors.Is(err, ErrClosed) {
		t.Errorf("SetMemory of a closed cache: %v, want %v", err, ErrClosed)
	}
}

func TestTheLargestItemFollowsTheBound(t *testing.T) {
	cache := openResizable(t, Config{})
	for _, limit := range []int64{16 << 20, 64 << 20, 4 << 20} {
		if err := cache.SetMemory(limit); err != nil {
			t.Fatal(err)
		}
		most := cache.ItemMax()
		if _, err := cache.Set("k", make([]byte, most-1), 0, 0); err != nil {
			t.Errorf("%d bytes: an item of %d bytes: %v", limit, most, err)
		}
		if _, err := cache.Set("k", make([]byte, most), 0, 0); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes: an item of a byte more than %d: %v, want %v", limit, most, err, ErrTooLarge)
		}
	}
}

func TestViewedValuesStayWhileTheMemoryShrinks(t *testing.T) {
	cache := openResizable(t, Config{})
	if err := cache.SetMemory(64 << 20); err != nil {
		t.Fatal(err)
	}
	fillUp(t, cache, 40_000)
	isSeen := cache.View(key(39_999), func(got []byte) {
		if err := cache.SetMemory(4 << 20); err != nil {
			t.Error(err)
		}
		fillUp(t, cache, 20_000)
		if !bytes.Equal(got, value(39_999, 1000)) {
			t.Error("the viewed value has changed")
		}
	})
	if !isSeen {
		t.Fatal("the last item is not there")
	}
	fillUp(t, cache, 20_000)
	checkUsed(t, cache, 4<<20)
}

func TestEachItemIsReportedOnceWhileTheMemoryShrinks(t *testing.T) {
	removed := map[string]int{}
	cache := openResizable(t, Config{OnRemove: func(key, _ []byte, reason Reason) {
		if reason != Evicted {
			t.Errorf("%q was removed for reason %v, want %v", key, reason, Evicted)
		}
		removed[string(key)]++
	}})
	const items = 10_000
	fillUp(t, cache, items)
	if err := cache.SetMemory(4 << 20); err != nil {
		t.Fatal(err)
	}
	for number := range items {
		_, isThere := cache.Look(key(number))
		if count := removed[key(number)]; count != one(!isThere) {
			t.Fatalf("item %d is there: %v, and was reported %d times", number, isThere, count)
		}
	}
}

// A callback may use the cache, and the last memory limit takes effect.
func TestACallbackMayChangeTheBound(t *testing.T) {
	var cache *Engine
	calls := 0
	cache = openResizable(t, Config{OnRemove: func([]byte, []byte, Reason) {
		if calls++; calls == 1 {
			if err := cache.SetMemory(8 << 20); err != nil {
				t.Error(err)
			}
		}
	}})
	fillUp(t, cache, 10_000)
	ended := make(chan error, 1)
	go func() { ended <- cache.SetMemory(4 << 20) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("SetMemory waits for a callback that calls it")
	}
	if calls == 0 {
		t.Fatal("no item was evicted")
	}
	fillUp(t, cache, 20_000)
	checkUsed(t, cache, 8<<20)
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Readers, writers and changes of the memory limit run at the same time.
func TestGoroutinesNeverSeeAWrongValueWhileTheMemoryChanges(t *testing.T) {
	for _, shape := range []struct{ keys, sizeMax int }{{30_000, 1500}, {300, 60_000}} {
		cache := openResizable(t, Config{CAS: true})
		stop := time.Now().Add(1500 * time.Millisecond)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewSource(int64(worker)))
				for version := worker; time.Now().Before(stop); version += 8 {
					race(t, cache, random, random.Intn(shape.keys), version, random.Intn(shape.sizeMax))
				}
			})
		}
		random := rand.New(rand.NewSource(9))
		for time.Now().Before(stop) {
			limit := int64(6<<20 + random.Intn(58<<20))
			if err := cache.SetMemory(limit); err != nil {
				t.Errorf("SetMemory(%d): %v", limit, err)
			}
		}
		all.Wait()
		if used := int64(cache.Stats().UsedBytes); used > cache.Stats().MemoryBytes {
			t.Errorf("%d bytes are used of %d", used, cache.Stats().MemoryBytes)
		}
	}
}
