package shared

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

func TestGetReturnsStoredValue(t *testing.T) {
	cache := openCache(t, Options{})
	// Test lengths around the size of the buffer on the stack, and values in one and in several
	// pieces.
	sizes := []int{0, 1, 5, stackBytes - 1, stackBytes, stackBytes + 1, 20_000, 700_000}
	for _, size := range sizes {
		key := fmt.Sprint(size)
		value := strings.Repeat("larder ", size/7+1)[:size]
		set(t, cache, key, value)
		wantValue(t, cache, key, value)
		for _, capacity := range []int{0, 3, size + 3} {
			dst := append(make([]byte, 0, capacity), "abc"...)
			got, ok := cache.GetInto(dst, key)
			if !ok || string(got) != "abc"+value {
				t.Fatalf("GetInto of %d bytes into a capacity of %d = %.40q, %v, want abc and the value",
					size, capacity, got, ok)
			}
		}
	}
	value, ok := cache.Get("0")
	check.Equal(t, "Get of an empty value found", ok, true)
	check.Equal(t, "Get of an empty value is nil", value == nil, false)
	dst, _, err := cache.Read([]byte("abc"), "none")
	check.ErrorIs(t, "Read(none)", err, ErrNotFound)
	check.Equal(t, "Read(none)", string(dst), "abc")
	many := map[int]string{}
	cache.GetMany([]string{"5", "none", "0", "700000"}, func(at int, value []byte) { many[at] = string(value) })
	check.Equal(t, "GetMany: values", len(many), 3)
	check.Equal(t, "GetMany[0]", many[0], "larde")
	check.Equal(t, "length of GetMany[3]", len(many[3]), 700_000)
}

func TestGetCountsOnce(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "small", "s")
	set(t, cache, "large", strings.Repeat("l", 100_000))
	for _, key := range []string{"small", "large", "none"} {
		cache.Get(key)
		_, _ = cache.GetInto(nil, key)
	}
	check.ErrorIs(t, "GetBatch", cache.GetBatch(new(Batch), "small", "large", "none"), nil)
	stats := cache.Stats()
	check.Equal(t, "Hits", stats.Hits, 6)
	check.Equal(t, "Misses", stats.Misses, 3)
}

func TestConditionalStores(t *testing.T) {
	cache := openCache(t, Options{CAS: true})
	is := must[bool](t)
	check.Equal(t, "Add(k)", is(cache.Add("k", []byte("one"), time.Minute)), true)
	check.Equal(t, "second Add(k)", is(cache.Add("k", []byte("two"), 0)), false)
	check.Equal(t, "Replace(none)", is(cache.Replace("none", []byte("x"), 0)), false)
	check.Equal(t, "Replace(k)", is(cache.Replace("k", []byte("three"), time.Minute)), true)
	check.Equal(t, "Append(k)", is(cache.Append("k", []byte("!"))), true)
	check.Equal(t, "Prepend(k)", is(cache.Prepend("k", []byte("<"))), true)
	check.Equal(t, "Append(none)", is(cache.Append("none", nil)), false)
	wantValue(t, cache, "k", "<three!")
	item, _, ok := cache.Peek("k")
	check.Equal(t, "Peek found", ok, true)
	// Append and Prepend keep the time to live; a second may pass in the test.
	wantTTL(t, item, 59*time.Second, time.Minute)
}

func TestCompareAndSwap(t *testing.T) {
	cache := openCache(t, Options{CAS: true})
	check.ErrorIs(t, "Set", cache.Set("k", []byte("v"), time.Minute), nil)
	_, item, err := cache.Read(nil, "k")
	check.NoError(t, err)
	wantTTL(t, item, 59*time.Second, time.Minute)
	check.Equal(t, "token is 0", item.CAS == 0, false)
	next := must[uint64](t)(cache.CompareAndSwap("k", []byte("swapped"), 0, item.CAS))
	_, err = cache.CompareAndSwap("k", nil, 0, item.CAS)
	check.ErrorIs(t, "CompareAndSwap with an old token", err, ErrChanged)
	_, err = cache.CompareAndSwap("none", nil, 0, next)
	check.ErrorIs(t, "CompareAndSwap(none)", err, ErrNotFound)
	item, length, ok := cache.Peek("k")
	check.Equal(t, "Peek found", ok, true)
	check.Equal(t, "Peek: token", item.CAS, next)
	check.Equal(t, "Peek: length", length, len("swapped"))
	check.Equal(t, "Peek: TTL", item.TTL, 0)
}

func TestCounters(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "n", "41")
	set(t, cache, "k", "word")
	check.Equal(t, "Incr(n, 1)", must[uint64](t)(cache.Incr("n", 1)), 42)
	check.Equal(t, "Decr(n, 50)", must[uint64](t)(cache.Decr("n", 50)), 0)
	_, err := cache.Incr("none", 1)
	check.ErrorIs(t, "Incr(none)", err, ErrNotFound)
	_, err = cache.Incr("k", 1)
	check.ErrorIs(t, "Incr(k)", err, ErrNotANumber)
}

func TestTouchAndDelete(t *testing.T) {
	cache := openCache(t, Options{})
	is := must[bool](t)
	set(t, cache, "k", "v")
	check.Equal(t, "Touch(k)", is(cache.Touch("k", time.Hour)), true)
	check.Equal(t, "Touch(none)", is(cache.Touch("none", time.Hour)), false)
	value, ok := cache.GetAndTouch("k", time.Minute)
	check.Equal(t, "GetAndTouch(k) found", ok, true)
	check.Equal(t, "GetAndTouch(k)", string(value), "v")
	check.Equal(t, "Delete(k)", is(cache.Delete("k")), true)
	check.Equal(t, "second Delete(k)", is(cache.Delete("k")), false)
	check.Equal(t, "Contains(k)", cache.Contains("k"), false)
	set(t, cache, "gone", "v")
	check.ErrorIs(t, "Set with a negative ttl", cache.Set("gone", []byte("v"), -time.Second), nil)
	check.Equal(t, "Contains(gone)", cache.Contains("gone"), false)
}

func TestRemovePrefixAndClear(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "user:1", "a")
	set(t, cache, "user:2", "b")
	set(t, cache, "n", "1")
	check.Equal(t, "RemovePrefix(user:)", must[int](t)(cache.RemovePrefix("user:")), 2)
	check.Equal(t, "Contains(n)", cache.Contains("n"), true)
	check.ErrorIs(t, "Clear", cache.Clear(), nil)
	check.Equal(t, "Contains(n) after Clear", cache.Contains("n"), false)
}

func TestItemsExpire(t *testing.T) {
	cache := openCache(t, Options{})
	check.ErrorIs(t, "Set", cache.Set("k", []byte("v"), time.Millisecond), nil)
	// A fraction of a second is rounded up.
	check.Equal(t, "Contains(k) immediately", cache.Contains("k"), true)
	for end := time.Now().Add(3 * time.Second); cache.Contains("k"); time.Sleep(20 * time.Millisecond) {
		// One second to live, one second of rounding, one second for a loaded machine.
		if time.Now().After(end) {
			t.Fatal("an item with a ttl of 1 ms is there after 3 s")
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	cache := openCache(t, Options{})
	for _, key := range []string{"", strings.Repeat("k", 251)} {
		what := fmt.Sprintf("a key of %d bytes", len(key))
		check.ErrorIs(t, "Set with "+what, cache.Set(key, []byte("v"), 0), ErrKey)
		_, ok := cache.Get(key)
		check.Equal(t, "Get found "+what, ok, false)
	}
	check.ErrorIs(t, "Set of 5 MiB", cache.Set("k", make([]byte, 5<<20), 0), ErrTooLarge)
	check.ErrorIs(t, "Set of nil", cache.Set("k", nil, 0), nil)
	_, err := cache.CompareAndSwap("k", nil, 0, 1)
	check.ErrorIs(t, "CompareAndSwap without tokens", err, ErrNoTokens)
	check.ErrorIs(t, "SetMemory(1)", cache.SetMemory(1), ErrInvalid)
}

func TestInvalidOptions(t *testing.T) {
	for _, options := range []Options{{Memory: -1}, {Memory: 1}, {Memory: 8 << 20, ItemMax: 1 << 30}} {
		_, err := Open(filepath.Join(t.TempDir(), "cache"), options)
		check.ErrorIs(t, fmt.Sprintf("Open(%+v)", options), err, ErrNotOpened)
		// The text of ErrNotOpened is shorter than this.
		if len(err.Error()) < 40 {
			t.Errorf("Open(%+v): error %q, want the reason", options, err)
		}
	}
	const path = "/nowhere/at/all"
	_, err := Open(path, Options{})
	check.ErrorIs(t, "Open", err, ErrNotOpened)
	if !strings.Contains(err.Error(), path) {
		t.Errorf("Open: error %q, want the path %q", err, path)
	}
	_, err = Open("", Options{})
	check.ErrorIs(t, "Open without a path", err, ErrNotOpened)
	if !strings.Contains(err.Error(), "larder.Open") {
		t.Errorf("Open without a path: error %q, want a mention of larder.Open", err)
	}
}

func TestNoEvictionFailsWithErrNoMemory(t *testing.T) {
	cache := openCache(t, Options{Memory: 1 << 20, NoEviction: true})
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = cache.Set(fmt.Sprint(n), make([]byte, 100_000), 0)
	}
	check.ErrorIs(t, "Set into a full cache", err, ErrNoMemory)
}

func TestClosedCache(t *testing.T) {
	cache := must[*Cache](t)(Open(filepath.Join(t.TempDir(), "cache"), Options{Memory: 2 << 20}))
	set(t, cache, "k", "v")
	for range cache.Keys("") {
		// The loop ends after the cache is closed.
		for range 2 {
			check.NoError(t, cache.Close())
		}
	}
	_, ok := cache.Get("k")
	check.Equal(t, "Get found", ok, false)
	_, _, read := cache.Read(nil, "k")
	_, del := cache.Delete("k")
	_, incr := cache.Incr("k", 1)
	_, touch := cache.Touch("k", 0)
	_, removePrefix := cache.RemovePrefix("")
	_, swap := cache.CompareAndSwap("k", nil, 0, 1)
	for name, err := range map[string]error{
		"Read": read, "Delete": del, "Incr": incr, "GetBatch": cache.GetBatch(new(Batch), "k"), "Touch": touch,
		"RemovePrefix": removePrefix, "CompareAndSwap": swap, "Set": cache.Set("k", nil, 0),
		"Clear": cache.Clear(), "Maintain": cache.Maintain(), "SetMemory": cache.SetMemory(1 << 20),
	} {
		check.ErrorIs(t, name, err, ErrClosed)
	}
	for key := range cache.Keys("") {
		t.Errorf("Keys of a closed cache has %q", key)
	}
	cache.GetMany([]string{"k"}, func(int, []byte) { t.Error("GetMany of a closed cache has a value") })
	check.Equal(t, "Len", cache.Len(), 0)
	check.Equal(t, "MemoryLimit", cache.Stats().MemoryLimit, 0)
}

func TestCloseWaitsForCallsInProgress(t *testing.T) {
	for range 20 {
		cache := must[*Cache](t)(Open(filepath.Join(t.TempDir(), "cache"), Options{Memory: 2 << 20}))
		var group sync.WaitGroup
		for worker := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				key := fmt.Sprint(worker)
				for cache.Set(key, []byte(key), 0) == nil {
					if value, ok := cache.Get(key); ok && string(value) != key {
						t.Errorf("Get(%q) = %q, want %q", key, value, key)
					}
				}
			}()
		}
		// Wait until the goroutines are in the middle of calls.
		time.Sleep(2 * time.Millisecond)
		if err := cache.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		group.Wait()
	}
}

func TestGarbageCollectorClosesUnreachableCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	openAndForget := func() {
		cache := must[*Cache](t)(Open(path, Options{Memory: 2 << 20}))
		set(t, cache, "k", "v")
	}
	openAndForget()
	openAlone := func() error {
		cache, err := Open(path, Options{Alone: true})
		if err == nil {
			wantValue(t, cache, "k", "v")
			_ = cache.Close()
		}
		return err
	}
	// A cleanup runs some time after the collection that finds its object.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		err := openAlone()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Open after 10 s: %v", err)
		}
	}
}

func TestConcurrentGetSetDelete(t *testing.T) {
	cache := openCache(t, Options{Memory: 4 << 20, Sweep: time.Second})
	var group sync.WaitGroup
	for worker := range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			var dst []byte
			for round := range 5_000 {
				key := fmt.Sprint((round*7 + worker) % 300)
				switch round % 5 {
				case 0:
					value := strings.Repeat(key+" ", round%100)
					check.ErrorIs(t, "Set", cache.Set(key, []byte(value), 0), nil)
				case 1:
					_, _ = cache.Delete(key)
				default:
					var ok bool
					dst, ok = cache.GetInto(dst[:0], key)
					if ok && strings.Repeat(key+" ", len(dst)/(len(key)+1)) != string(dst) {
						t.Errorf("GetInto(%q) = %q, want repetitions of the key", key, dst)
					}
				}
			}
		}()
	}
	group.Wait()
}

func TestOnRemoveReportsRemovals(t *testing.T) {
	reported := make(chan removal, 100)
	var cache *Cache
	cache = openCache(t, Options{OnRemove: func(key string, value []byte, reason larder.Reason) {
		// The callback may use the cache.
		_ = cache.Len()
		reported <- removal{key, value, reason}
	}})
	second := strings.Repeat("two ", 1000)
	set(t, cache, "k", "one")
	set(t, cache, "k", second)
	_, _ = cache.Delete("k")
	for _, want := range []removal{{"k", []byte("one"), larder.Replaced}, {"k", []byte(second), larder.Deleted}} {
		select {
		case got := <-reported:
			check.Equal(t, "removal", fmt.Sprint(got), fmt.Sprint(want))
		case <-time.After(5 * time.Second):
			t.Fatalf("no removal within 5 s, want %v", want.reason)
		}
	}
}

func TestStats(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "v")
	cache.Get("k")
	cache.Get("none")
	stats := cache.Stats()
	check.Equal(t, "Hits", stats.Hits, 1)
	check.Equal(t, "Misses", stats.Misses, 1)
	check.Equal(t, "Items", stats.Items, 1)
	check.Equal(t, "HitRate", stats.HitRate(), 0.5)
	check.Equal(t, "MemoryLimit", stats.MemoryLimit, 8<<20)
	check.Equal(t, "MemoryUsed is 0", stats.MemoryUsed == 0, false)
	check.Equal(t, "curr_items", stats.Named["curr_items"], 1)
}

func TestOpenKeepsContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	one := must[*Cache](t)(Open(path, Options{Memory: 4 << 20}))
	other := must[*Cache](t)(Open(path, Options{}))
	set(t, one, "k", "v")
	wantValue(t, other, "k", "v")
	_ = one.Close()
	_ = other.Close()
	info := must[os.FileInfo](t)(os.Stat(path))
	check.Equal(t, "permissions", info.Mode().Perm(), 0o600)
	again := must[*Cache](t)(Open(path, Options{}))
	defer again.Close()
	wantValue(t, again, "k", "v")
	_, err := Open(path, Options{Memory: 2 << 20, Exactly: true})
	if !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), "memory in bytes") {
		t.Errorf("Open with another size: error %v, want %v for the memory", err, ErrNotOpened)
	}
}

func TestAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("coverage and the race detector allocate")
	}
	cache := openCache(t, Options{})
	value, keys := make([]byte, 100), []string{"a", "b", "c", "d"}
	for _, key := range keys {
		set(t, cache, key, string(value))
	}
	var dst []byte
	var batch Batch
	tests := []struct {
		name string
		want float64
		do   func()
	}{
		{"Set", 0, func() { _ = cache.Set("a", value, time.Minute) }},
		{"GetInto", 0, func() { dst, _ = cache.GetInto(dst[:0], "a") }},
		{"GetBatch", 0, func() { _ = cache.GetBatch(&batch, keys...) }},
		{"Delete", 0, func() { _, _ = cache.Delete("none") }},
		{"Incr", 0, func() { _, _ = cache.Incr("none", 1) }},
		{"Get", 1, func() { cache.Get("a") }},
	}
	for _, test := range tests {
		// This call grows the buffers that later calls reuse.
		test.do()
		check.Equal(t, test.name+": allocations", testing.AllocsPerRun(100, test.do), test.want)
	}
}
