package engine

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"larder.example/larder/internal/engine/pins"
)

// claimAll claims all cells of a cache, as operations in progress do.
func claimAll(e *Engine) (release func()) {
	var cells []*pins.Cell
	for cell := e.pins.Claim(); cell != nil; cell = e.pins.Claim() {
		cells = append(cells, cell)
	}
	return func() {
		for _, cell := range cells {
			e.end(cell, pins.None)
		}
	}
}

func TestOperationsWithoutACellDoNotWait(t *testing.T) {
	clock := newClock()
	cache := openTest(t, clock.config(Config{CAS: true}))
	release := claimAll(cache)
	defer release()
	p := newPair(t, cache, clock.read)
	p.store(0, "key", value(1, 100), 7, 1000, 0)
	for how := range 5 {
		p.read(how, "key", 500)
	}
	p.store(0, "large", value(2, 300_000), 0, 0, 0)
	p.read(0, "large", 0)
	// The callback runs without the lock.
	ok := cache.View("key", func(got []byte) {
		p.store(0, "key", value(3, 50), 0, 0, 0)
		if !bytes.Equal(got, value(1, 100)) {
			t.Error("the viewed value has changed")
		}
	})
	if !ok {
		t.Error("View finds nothing")
	}
	p.delete("key", 0)
	p.read(0, "key", 0)
}

func TestAViewedValueStaysWhileMemoryIsUsedAnew(t *testing.T) {
	cache := openTiny(t, Config{}, 64, 4<<10)
	// Start more views than may pin a segment.
	const views = 20
	for number := range views {
		if _, err := cache.Set(key(number), value(number, 200), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	var view func(number int)
	view = func(number int) {
		if number == views {
			for at := range 5000 {
				if _, err := cache.Set(key(100+at), value(at, 300), 0, 0); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		found := cache.View(key(number), func(got []byte) {
			if cap(got) != len(got) {
				t.Errorf("capacity %d of %d bytes", cap(got), len(got))
			}
			view(number + 1)
			if !bytes.Equal(got, value(number, 200)) {
				t.Errorf("value %d has changed during View", number)
			}
		})
		if !found {
			t.Errorf("item %d is missing", number)
		}
	}
	view(0)
	cache.check(t)
}

func TestViewReleasesItsPinAfterAPanicAndAfterGoexit(t *testing.T) {
	cache := openTest(t, Config{})
	if _, err := cache.Set("key", []byte("value"), 0, 0); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		cache.View("key", func([]byte) { panic("callback") })
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		cache.View("key", func([]byte) { runtime.Goexit() })
	}()
	<-done
	if !cache.pins.IsIdle() {
		t.Error("a cell is still claimed")
	}
}

// TestOneOfManyAddsWins stores values that are copied without the lock: each store must look up the
// key again when it has reacquired the lock.
func TestOneOfManyAddsWins(t *testing.T) {
	cache := openTest(t, Config{MemoryBytes: 64 << 20})
	for round := range 300 {
		var won atomic.Int32
		var all sync.WaitGroup
		for worker := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				switch _, err := cache.Add(key(round), value(worker, 60_000), 0, 0); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, ErrNotStored):
					t.Error(err)
				}
			}()
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d adds have stored", won.Load())
		}
	}
	cache.check(t)
}

func TestAReaderThatMetAnExpiredItemDoesNotRemoveItsSuccessor(t *testing.T) {
	clock := newClock()
	cache := openTest(t, clock.config(Config{}))
	if _, err := cache.Set("key", []byte("new"), 0, 1000); err != nil {
		t.Fatal(err)
	}
	// A reader found the previous item expired, but removes it only now.
	hash := cache.hash("key")
	cache.expire(cache.shardOf(hash), hash, "key")
	if _, ok := cache.Get("key"); !ok {
		t.Error("the item is gone")
	}
}

// TestReadersNeverMissWhileTheIndexGrows reads existing items while other items are added.
func TestReadersNeverMissWhileTheIndexGrows(t *testing.T) {
	for range 5 {
		cache := openTest(t, Config{MemoryBytes: 64 << 20})
		const stay = 500
		for number := range stay {
			if _, err := cache.Set(key(number), value(number, 10), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		var done atomic.Bool
		var readers sync.WaitGroup
		for range 2 {
			readers.Add(1)
			go func() {
				defer readers.Done()
				dst := make([]byte, 0, 64)
				for at := 0; !done.Load(); at++ {
					if _, ok := cache.GetInto(dst, key(at%stay)); !ok {
						t.Errorf("%s is missing", key(at%stay))
						return
					}
				}
			}()
		}
		for number := range 100_000 {
			if _, err := cache.Set(key(stay+number), nil, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		done.Store(true)
		readers.Wait()
		cache.check(t)
	}
}

func TestCloseDoesNotWaitAndTheLastOperationFreesTheMemory(t *testing.T) {
	cache := openTest(t, Config{})
	want := value(1, 1000)
	if _, err := cache.Set("key", want, 0, 0); err != nil {
		t.Fatal(err)
	}
	cache.View("key", func(got []byte) {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
		if cache.freed.Load() && !poisons {
			t.Error("the memory is free while it is read")
		}
		if !bytes.Equal(got, want) {
			t.Error("the value has changed")
		}
		if _, ok := cache.Get("key"); ok {
			t.Error("a read of a closed cache finds an item")
		}
	})
	if !cache.freed.Load() {
		t.Error("the last operation has not freed the memory")
	}
	// One operation without a cell.
	other := openTest(t, Config{})
	release := claimAll(other)
	cell, ok := other.begin()
	if cell != nil || !ok {
		t.Fatalf("begin = %v, %v", cell, ok)
	}
	_ = other.Close()
	release()
	if other.freed.Load() {
		t.Error("the memory is free while an operation without a cell is under way")
	}
	other.end(nil, pins.None)
	if !other.freed.Load() {
		t.Error("the last operation has not freed the memory")
	}
}

func TestAClosedCacheMissesAndRefuses(t *testing.T) {
	cache := openTest(t, Config{CAS: true})
	_ = cache.Close()
	_ = cache.Close()
	results := map[string]error{"Clear": cache.Clear(), "Delete": cache.Delete("key", 0)}
	_, results["Set"] = cache.Set("key", nil, 0, 0)
	_, results["Append"] = cache.Append("key", nil, 0)
	_, _, results["Incr"] = cache.Incr("key", 1)
	results["Touch"] = cache.Touch("key", 0)
	_, results["Update"] = cache.Update("key", func(Item, []byte, bool) Change { return Change{} })
	for name, err := range results {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name := range cache.All() {
		t.Errorf("All shows %q", name)
	}
	cache.SweepNow()
	cache.GetMany([]string{"key"}, func(int, []byte, Item) { t.Error("GetMany finds an item") })
	if cache.Len() != 0 || cache.Stats().Hits != 0 {
		t.Error("a closed cache has counted")
	}
}

func TestCloseAmongOperations(t *testing.T) {
	for round := range 50 {
		cache, err := New(Config{MemoryBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for worker := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for at := 0; ; at++ {
					name := fmt.Sprint(at % 100)
					if _, err := cache.Set(name, value(at, 1500), 0, 0); errors.Is(err, ErrClosed) {
						return
					}
					cache.View(name, func([]byte) { runtime.Gosched() })
					if worker == 0 && at == 20+round {
						_ = cache.Close()
					}
				}
			}()
		}
		all.Wait()
		if !cache.freed.Load() {
			t.Fatal("the memory is not free")
		}
	}
}
