package larder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// calls are all methods that use the memory of a cache.
var calls = map[string]func(*Cache, string) error{
	"Get":         func(c *Cache, key string) error { _, _ = c.Get(key); return nil },
	"GetInto":     func(c *Cache, key string) error { _, _ = c.GetInto(nil, key); return nil },
	"GetItem":     func(c *Cache, key string) error { _, _, _ = c.GetItem(key); return nil },
	"GetAndTouch": func(c *Cache, key string) error { _, _ = c.GetAndTouch(key, time.Hour); return nil },
	"View":        func(c *Cache, key string) error { c.View(key, func([]byte) { runtime.Gosched() }); return nil },
	"GetMany": func(c *Cache, key string) error {
		c.GetMany([]string{key, "1"}, func(int, []byte) {})
		return nil
	},
	"Peek":  func(c *Cache, key string) error { _, _, _ = c.Peek(key); return nil },
	"Len":   func(c *Cache, _ string) error { _ = c.Len(); return nil },
	"Stats": func(c *Cache, _ string) error { _ = c.Stats(); return nil },
	"All": func(c *Cache, key string) error {
		for range c.All(key) {
		}
		return nil
	},
	"Set":     func(c *Cache, key string) error { return c.Set(key, []byte(key), 0) },
	"SetLong": func(c *Cache, key string) error { return c.Set(key, bytes.Repeat([]byte(key), 20_000), 0) },
	"Add":     func(c *Cache, key string) error { _, err := c.Add(key, nil, time.Millisecond); return err },
	"Append":  func(c *Cache, key string) error { _, err := c.Append(key, []byte("x")); return err },
	"CompareAndSwap": func(c *Cache, key string) error {
		_, err := c.CompareAndSwap(key, nil, 0, 1)
		if errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	},
	"Update": func(c *Cache, key string) error {
		return c.Update(key, func([]byte, *Item, bool) ([]byte, Decision) { return []byte("1"), StoreItem })
	},
	"Delete":       func(c *Cache, key string) error { _, err := c.Delete(key); return err },
	"Touch":        func(c *Cache, key string) error { _, err := c.Touch(key, time.Second); return err },
	"Clear":        func(c *Cache, _ string) error { return c.Clear() },
	"RemovePrefix": func(c *Cache, key string) error { _, err := c.RemovePrefix(key); return err },
	"Maintain":     func(c *Cache, _ string) error { return c.Maintain() },
	"Save":         func(c *Cache, _ string) error { return c.Save(io.Discard) },
	"GetOrLoad": func(c *Cache, key string) error {
		_, err := c.GetOrLoad(context.Background(), key, loaderOf("v", time.Minute))
		return err
	},
}

// The last call in progress unmaps the memory. A call that used it later would fault.
func TestCloseAmongAllCalls(t *testing.T) {
	check.GoroutineLeaks(t)
	for round := range 30 {
		cache := openCache(t, Options{
			Memory: 1 << 20, CAS: true, Sweep: time.Millisecond, OnRemove: func(string, []byte, Reason) {},
		})
		begin := make(chan struct{})
		var all sync.WaitGroup
		for name, call := range calls {
			all.Add(1)
			go func() {
				defer all.Done()
				<-begin
				for at := range 300 {
					err := call(cache, fmt.Sprint(at%40))
					if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNoMemory) {
						t.Errorf("%s during Close: error %v, want none or %v", name, err, ErrClosed)
					}
				}
			}()
		}
		for closer := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				<-begin
				time.Sleep(time.Duration(round*closer) * 50 * time.Microsecond)
				check.ErrorIs(t, "Close", cache.Close(), nil)
			}()
		}
		close(begin)
		all.Wait()
		for name, call := range calls {
			err := call(cache, "k")
			// Reads return no error.
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: error %v, want %v", name, err, ErrClosed)
			}
		}
		wantNone(t, cache, "1")
	}
}

func TestCloseInsideOfOnRemove(t *testing.T) {
	check.GoroutineLeaks(t)
	for name, remove := range map[string]func(cache *Cache, clock *clock){
		"Set":     func(cache *Cache, _ *clock) { _ = cache.Set("k", []byte("new"), 0) },
		"Delete":  func(cache *Cache, _ *clock) { _, _ = cache.Delete("k") },
		"Get":     func(cache *Cache, clock *clock) { clock.advance(time.Hour); cache.Get("k") },
		"View":    func(cache *Cache, clock *clock) { clock.advance(time.Hour); cache.View("k", func([]byte) {}) },
		"Clear":   func(cache *Cache, _ *clock) { _ = cache.Clear() },
		"a sweep": func(_ *Cache, clock *clock) { clock.advance(time.Hour) },
		"eviction": func(cache *Cache, _ *clock) {
			for at := 0; cache.Set(fmt.Sprint(at), make([]byte, 1000), 0) == nil; at++ {
			}
		},
	} {
		clock := newClock()
		closed := make(chan error, 1000)
		var cache *Cache
		cache = openCache(t, Options{
			Memory: 1 << 20, TTL: time.Minute, Sweep: time.Millisecond, Clock: clock.Now,
			OnRemove: func(string, []byte, Reason) { closed <- cache.Close() },
		})
		set(t, cache, "k", "v")
		remove(cache, clock)
		select {
		case err := <-closed:
			check.ErrorIs(t, name+": Close", err, nil)
		case <-time.After(10 * time.Second):
			t.Errorf("%s: no removal was reported", name)
		}
		check.ErrorIs(t, name+": Set after Close", cache.Set("k", nil, 0), ErrClosed)
	}
}

// A panic in a callback propagates to the caller; the cache keeps nothing locked or pinned.
func TestPanicsInCallbacks(t *testing.T) {
	check.GoroutineLeaks(t)
	clock := newClock()
	isOn := false
	cache := openCache(t, Options{
		Memory: 1 << 20, Clock: clock.Now, OnRemove: func(string, []byte, Reason) {
			if isOn {
				panic("callback")
			}
		},
	})
	panics := func([]byte) { panic("callback") }
	var saved bytes.Buffer
	set(t, cache, "k", "v")
	check.NoError(t, cache.Save(&saved))
	for name, call := range map[string]func(){
		"OnRemove by Set":    func() { set(t, cache, "k", "other") },
		"OnRemove by Delete": func() { _, _ = cache.Delete("k") },
		"OnRemove by Clear":  func() { _ = cache.Clear() },
		"OnRemove by Get":    func() { clock.advance(2 * time.Hour); cache.Get("k") },
		"OnRemove by Update": func() {
			_ = cache.Update("k", func([]byte, *Item, bool) ([]byte, Decision) { return nil, RemoveItem })
		},
		"View":    func() { cache.View("k", panics) },
		"GetMany": func() { cache.GetMany([]string{"k"}, func(_ int, value []byte) { panics(value) }) },
		"Update": func() {
			_ = cache.Update("k", func([]byte, *Item, bool) ([]byte, Decision) { panic("callback") })
		},
		"All": func() {
			for _, value := range cache.All("") {
				panics(value)
			}
		},
		"Save": func() { _ = cache.Save(panicking{}) },
		"Load": func() { _, _ = cache.Load(panicking{}) },
	} {
		for range 100 {
			check.NoError(t, cache.Set("k", []byte("v"), time.Hour))
			isOn = true
			func() {
				defer func() {
					if reason := recover(); reason != "callback" {
						t.Errorf("%s: recovered %v, want the panic of the callback", name, reason)
					}
				}()
				call()
			}()
			isOn = false
		}
		// If the panic left a lock locked, this blocks; if it left memory pinned, this fails.
		for at := range 2000 {
			set(t, cache, fmt.Sprint(at), strings.Repeat("v", 1000))
		}
		wantValue(t, cache, "1999", strings.Repeat("v", 1000))
	}
}

// panicking is a writer and reader that panics.
type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("callback") }
func (panicking) Read([]byte) (int, error)  { panic("callback") }

// A panic in OnRemove must not suppress the reports of other removals of the same call.
func TestPanicInOnRemoveLosesNoOtherReport(t *testing.T) {
	reports := map[string]int{}
	cache := openCache(t, Options{OnRemove: func(key string, _ []byte, _ Reason) {
		reports[key]++
		if len(reports) == 3 {
			panic("callback")
		}
	}})
	for at := range 1000 {
		set(t, cache, fmt.Sprint(at), "v")
	}
	func() {
		defer func() { check.Equal(t, "recovered", recover(), any("callback")) }()
		_ = cache.Clear()
	}()
	check.NoError(t, cache.Clear())
	check.Equal(t, "reported keys", len(reports), 1000)
	for key, times := range reports {
		check.Equal(t, "reports of "+key, times, 1)
	}
}

// The item expires before Update calls its callback.
func TestPanicInUpdateLosesNoReport(t *testing.T) {
	clock := newClock()
	reports := 0
	cache := openCache(t, Options{Clock: clock.Now, OnRemove: func(_ string, _ []byte, reason Reason) {
		check.Equal(t, "reason", reason, Expired)
		reports++
	}})
	check.NoError(t, cache.Set("k", []byte("v"), time.Second))
	clock.advance(time.Second)
	func() {
		defer func() { _ = recover() }()
		_ = cache.Update("k", func([]byte, *Item, bool) ([]byte, Decision) { panic("callback") })
	}()
	wantNone(t, cache, "k")
	check.Equal(t, "reports", reports, 1)
}

func TestBlockedViewKeepsItsValueAndStopsNoWriter(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{Memory: 1 << 20})
	// Start more views than may pin memory: the others receive copies.
	const views = 300
	release := make(chan struct{})
	var begun, all sync.WaitGroup
	for at := range views {
		key, want := fmt.Sprint("viewed ", at), strings.Repeat(fmt.Sprint(at, " "), 100)
		begun.Add(1)
		all.Add(1)
		go func() {
			defer all.Done()
			// Writers may have evicted the item before it is viewed.
			for isSeen := false; !isSeen; {
				_ = cache.Set(key, []byte(want), 0)
				cache.View(key, func(value []byte) {
					isSeen = true
					begun.Done()
					<-release
					if string(value) != want {
						t.Errorf("value of %q at the end of a blocked View = %.40q, want %.40q", key, value, want)
					}
				})
			}
		}()
	}
	begun.Wait()
	// Store twenty times the memory of the cache while the views block.
	started := time.Now()
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), strings.Repeat("w", 1000))
		wantValue(t, cache, fmt.Sprint(at), strings.Repeat("w", 1000))
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("20,000 sets during blocked views took %v", took)
	}
	close(release)
	all.Wait()
}

func TestTenThousandGoroutines(t *testing.T) {
	check.GoroutineLeaks(t)
	var removed atomic.Int64
	cache := openCache(t, Options{Memory: 4 << 20, OnRemove: func(string, []byte, Reason) { removed.Add(1) }})
	const goroutines = 10_000
	each := 20
	if raceEnabled {
		// With the race detector, each switch between ten thousand goroutines is slow.
		each = 4
	}
	begin := make(chan struct{})
	var all sync.WaitGroup
	for number := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			<-begin
			for at := range each {
				key := fmt.Sprint(number, " ", at)
				if err := cache.Set(key, []byte(key), 0); err != nil {
					t.Errorf("Set(%q): %v", key, err)
				}
				cache.View(key, func(value []byte) {
					runtime.Gosched()
					check.Equal(t, "value during View", string(value), key)
				})
			}
		}()
	}
	close(begin)
	all.Wait()
	check.Equal(t, "stored items that are there or reported", int64(cache.Len())+removed.Load(), int64(goroutines*each))
}

func TestCanceledContexts(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	store := cache.Store()
	// Calls that do not wait ignore the context.
	check.NoError(t, store.Set(ctx, "k", []byte("v"), 0))
	value, err := store.Get(ctx, "k")
	check.Equal(t, "Get", string(value), "v")
	check.NoError(t, err)
	value, err = cache.GetOrLoad(ctx, "k", loaderOf("loaded", 0))
	check.Equal(t, "GetOrLoad of a present key", string(value), "v")
	check.NoError(t, err)
	_, err = cache.GetOrLoad(ctx, "none", func(context.Context, string) ([]byte, time.Duration, error) {
		t.Error("a load began for a caller whose context had ended")
		return nil, 0, nil
	})
	check.ErrorIs(t, "GetOrLoad of an absent key", err, context.Canceled)
	check.NoError(t, store.Delete(ctx, "k"))
	wantNone(t, cache, "k")
}

// Clocks of virtual machines step. No step may panic, resurrect an item or let it expire early.
func TestStepsOfTheClock(t *testing.T) {
	clock := newClock()
	expired := 0
	cache := openCache(t, Options{Clock: clock.Now, OnRemove: func(_ string, _ []byte, reason Reason) {
		check.Equal(t, "reason", reason, Expired)
		expired++
	}})
	check.NoError(t, cache.Set("before", []byte("v"), time.Hour))
	// Set the clock to a time before the opening of the cache.
	clock.advance(-100 * 24 * time.Hour)
	wantValue(t, cache, "before", "v")
	check.NoError(t, cache.Set("behind", []byte("v"), time.Hour))
	item, _, _ := cache.Peek("behind")
	check.Equal(t, "TTL of an item stored at a time before the opening", item.TTL, time.Hour)
	check.NoError(t, cache.Maintain())
	check.Equal(t, "expired items after a step back", expired, 0)
	wantValue(t, cache, "behind", "v")
	// Set it forward again, by more than a signed number of nanoseconds can hold.
	clock.advance(100 * 24 * time.Hour)
	wantValue(t, cache, "before", "v")
	for range 10 {
		clock.advance(100 * 365 * 24 * time.Hour)
	}
	wantNone(t, cache, "before")
	check.NoError(t, cache.Maintain())
	check.Equal(t, "expired items after a step forward", expired, 2)
	check.NoError(t, cache.Set("forever", []byte("v"), Forever))
	check.NoError(t, cache.Set("long", []byte("v"), Forever-1))
	wantValue(t, cache, "forever", "v")
	wantValue(t, cache, "long", "v")
}

func TestLimitsOfTheMemory(t *testing.T) {
	for _, memory := range []int64{-1 << 62, -1, 1, 4096, 1<<20 - 1, 1<<40 + 1, 1<<63 - 1} {
		cache, err := Open(Options{Memory: memory})
		if cache != nil || !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), fmt.Sprint(memory)) {
			t.Errorf("Open with %d bytes: error %v, want %v and the number", memory, err, ErrNotOpened)
		}
	}
	if runtime.GOARCH == "wasm" {
		// This size is within the limits, but exceeds the addresses of this machine.
		_, err := Open(Options{Memory: 1 << 40})
		check.ErrorIs(t, "Open with 1 TiB", err, ErrNotOpened)
	}
	// The smallest cache works.
	cache := openCache(t, Options{Memory: 1 << 20})
	for at := range 100_000 {
		set(t, cache, fmt.Sprint(at), "v")
		wantValue(t, cache, fmt.Sprint(at), "v")
	}
	if stats := cache.Stats(); stats.MemoryUsed > 1<<20 || stats.Items < 1000 {
		t.Errorf("%d items in %d bytes, want at least 1000 in 1 MiB", stats.Items, stats.MemoryUsed)
	}
}

// savedFile returns a file with small items of every kind, and the values of their keys.
func savedFile(t *testing.T, clock *clock) (saved []byte, values map[string]string) {
	t.Helper()
	cache := openCache(t, Options{Memory: 1 << 20, Clock: clock.Now})
	values = map[string]string{"empty": "", strings.Repeat("k", 250): "long key", "binary\x00\xFF": "\x00\xFF"}
	for key, value := range values {
		set(t, cache, key, value)
	}
	must[uint64](t)(cache.SetItem("flags", []byte("f"), Item{Flags: 1 << 31, TTL: time.Hour}))
	values["flags"] = "f"
	path := filepath.Join(t.TempDir(), "cache")
	check.NoError(t, cache.SaveFile(path))
	return must[[]byte](t)(os.ReadFile(path)), values
}

func TestLoadFileNoticesEveryCutAndEveryFlippedBit(t *testing.T) {
	clock := newClock()
	saved, values := savedFile(t, clock)
	cache := openCache(t, Options{Memory: 1 << 20, Clock: clock.Now})
	path := filepath.Join(t.TempDir(), "damaged")
	load := func(what string, data []byte) {
		t.Helper()
		check.NoError(t, os.WriteFile(path, data, 0o600))
		items, err := cache.LoadFile(path)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s: error %v, want %v and the path", what, err, ErrDamaged)
		}
		check.Equal(t, what+": items", items, cache.Len())
		for key, value := range cache.All("") {
			if want, ok := values[key]; !ok || string(value) != want {
				t.Fatalf("%s: loaded %q = %q, want only saved items", what, key, value)
			}
		}
		check.NoError(t, cache.Clear())
	}
	for end := range saved {
		load(fmt.Sprint("cut at ", end), saved[:end])
	}
	step := 1
	if raceEnabled {
		// Only one goroutine loads, so the race detector is not useful here. Test every bit only
		// without it.
		step = 7
	}
	for bit := 0; bit < 8*len(saved); bit += step {
		damaged := bytes.Clone(saved)
		damaged[bit/8] ^= 1 << (bit % 8)
		load(fmt.Sprintf("bit %d of byte %d flipped", bit%8, bit/8), damaged)
	}
	check.NoError(t, os.WriteFile(path, saved, 0o600))
	check.Equal(t, "items of the whole file", must[int](t)(cache.LoadFile(path)), len(values))
}
