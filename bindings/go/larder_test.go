package larder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func openCache(t testing.TB, options Options) *Cache {
	t.Helper()
	if options.Memory == 0 {
		options.Memory = 8 << 20
	}
	cache, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func set(t testing.TB, cache *Cache, key, value string) {
	t.Helper()
	if err := cache.Set(key, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t testing.TB, cache *Cache, key, value string) {
	t.Helper()
	if found, ok := cache.Get(key); !ok || string(found) != value {
		t.Fatalf("%q is %q, %v; expected %q", key, found, ok, value)
	}
}

func TestValuesComeBackAsTheyWereStored(t *testing.T) {
	cache := openCache(t, Options{})
	for _, bytes := range []int{0, 1, 5, stackBytes - 1, stackBytes, stackBytes + 1, 20_000, 700_000} {
		key := fmt.Sprint(bytes)
		value := []byte(strings.Repeat("larder ", bytes/7+1)[:bytes])
		if err := cache.Set(key, value, 0); err != nil {
			t.Fatal(bytes, err)
		}
		wantValue(t, cache, key, string(value))
		// Behind what is there, in any room.
		for _, capacity := range []int{0, 3, bytes + 3} {
			dst := append(make([]byte, 0, capacity), "abc"...)
			found, _, err := cache.GetInto(dst, key)
			if err != nil || string(found) != "abc"+string(value) {
				t.Fatalf("%d bytes in %d: %v", bytes, capacity, err)
			}
		}
	}
	if value, ok := cache.Get("0"); value == nil || !ok {
		t.Error("an empty value is one")
	}
	dst, _, err := cache.GetInto([]byte("abc"), "none")
	if !errors.Is(err, ErrNotFound) || string(dst) != "abc" {
		t.Errorf("%q, %v", dst, err)
	}
	many := must[[][]byte](t)(cache.GetMany("5", "none", "0", "700000"))
	if string(many[0]) != "larde" || many[1] != nil || many[2] == nil || len(many[3]) != 700_000 {
		t.Errorf("%d %d %d %d bytes", len(many[0]), len(many[1]), len(many[2]), len(many[3]))
	}
}

func TestAGetCountsOnceWhateverRoomItTakes(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "small", "s")
	set(t, cache, "large", strings.Repeat("l", 100_000))
	for _, key := range []string{"small", "large", "none"} {
		cache.Get(key)
		_, _, _ = cache.GetInto(nil, key)
	}
	if err := cache.GetBatch(new(Batch), "small", "large", "none"); err != nil {
		t.Fatal(err)
	}
	if stats := cache.Stats(); stats.Hits != 6 || stats.Misses != 3 {
		t.Errorf("%d hits, %d misses; expected 6 and 3", stats.Hits, stats.Misses)
	}
}

func TestChanges(t *testing.T) {
	cache := openCache(t, Options{CAS: true})
	is := must[bool](t)
	if !is(cache.Add("k", []byte("one"), time.Minute)) || is(cache.Add("k", []byte("two"), 0)) {
		t.Error("Add stores where there is none")
	}
	if is(cache.Replace("none", []byte("x"), 0)) || !is(cache.Replace("k", []byte("three"), time.Minute)) {
		t.Error("Replace stores where there is one")
	}
	if !is(cache.Append("k", []byte("!"))) || !is(cache.Prepend("k", []byte("<"))) || is(cache.Append("none", nil)) {
		t.Error("Append and Prepend change what is there")
	}
	wantValue(t, cache, "k", "<three!")
	_, item, err := cache.GetInto(nil, "k")
	if err != nil || item.TTL <= 58*time.Second || item.TTL > time.Minute || item.CAS == 0 {
		t.Errorf("%+v, %v", item, err)
	}
	next := must[uint64](t)(cache.CompareAndSwap("k", []byte("swapped"), 0, item.CAS))
	if _, err := cache.CompareAndSwap("k", nil, 0, item.CAS); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if _, err := cache.CompareAndSwap("none", nil, 0, next); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if item, length, err := cache.Peek("k"); err != nil || item.CAS != next || length != 7 || item.TTL != 0 {
		t.Errorf("%+v, %d, %v", item, length, err)
	}
	set(t, cache, "n", "41")
	if n := must[uint64](t)(cache.Incr("n", 1)); n != 42 {
		t.Error(n)
	}
	if n := must[uint64](t)(cache.Decr("n", 50)); n != 0 {
		t.Error(n)
	}
	if _, err := cache.Incr("none", 1); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := cache.Incr("k", 1); !errors.Is(err, ErrNotANumber) {
		t.Error(err)
	}
	if !is(cache.Touch("k", time.Hour)) || is(cache.Touch("none", time.Hour)) {
		t.Error("Touch finds what is there")
	}
	if value, ok := cache.GetAndTouch("k", time.Minute); !ok || string(value) != "swapped" {
		t.Errorf("%q", value)
	}
	if !is(cache.Delete("k")) || is(cache.Delete("k")) || cache.Contains("k") {
		t.Error("Delete removes what is there")
	}
	set(t, cache, "gone", "v")
	if err := cache.Set("gone", []byte("v"), -time.Second); err != nil || cache.Contains("gone") {
		t.Error("what is over at once is not there")
	}
	set(t, cache, "user:1", "a")
	set(t, cache, "user:2", "b")
	if removed := must[int](t)(cache.RemovePrefix("user:")); removed != 2 {
		t.Error(removed)
	}
	if err := cache.Clear(); err != nil || cache.Contains("n") {
		t.Error("Clear leaves nothing")
	}
}

func TestTimesAreKept(t *testing.T) {
	cache := openCache(t, Options{})
	if err := cache.Set("k", []byte("v"), time.Millisecond); err != nil || !cache.Contains("k") {
		t.Fatal("a part of a second counts as a whole one", err)
	}
	for end := time.Now().Add(3 * time.Second); cache.Contains("k"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it lives for more than three seconds")
		}
	}
}

func TestKeysAndItemsAreWalkedThrough(t *testing.T) {
	cache := openCache(t, Options{})
	for n := range 1000 {
		set(t, cache, fmt.Sprintf("%d:%d", n%2, n), fmt.Sprint(n))
	}
	keys := slices.Sorted(cache.Keys("1:"))
	if len(slices.Compact(keys)) != 500 || keys[0] != "1:1" {
		t.Error(len(keys), keys[:2])
	}
	seen := 0
	for key, value := range cache.All("") {
		if !strings.HasSuffix(key, ":"+string(value)) {
			t.Errorf("%q is %q", key, value)
		}
		// The loop may use the cache, and end anywhere.
		_, _ = cache.Delete(key)
		if seen++; seen == 10 {
			break
		}
	}
	if left := cache.Len(); left != 990 {
		t.Error(left)
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	cache := openCache(t, Options{})
	long := strings.Repeat("k", 251)
	for _, key := range []string{"", long} {
		if err := cache.Set(key, []byte("v"), 0); !errors.Is(err, ErrKey) {
			t.Errorf("%d bytes: %v", len(key), err)
		}
		if _, ok := cache.Get(key); ok {
			t.Errorf("there is an item with a key of %d bytes", len(key))
		}
	}
	if err := cache.Set("k", make([]byte, 5<<20), 0); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := cache.Set("k", nil, 0); err != nil {
		t.Error("no value is an empty one", err)
	}
	if _, err := cache.CompareAndSwap("k", nil, 0, 1); !errors.Is(err, ErrNoTokens) {
		t.Error(err)
	}
	if err := cache.SetMemory(1); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for _, options := range []Options{{Memory: -1}, {Memory: 1}, {Memory: 8 << 20, ItemMax: 1 << 30}} {
		if _, err := Open(options); !errors.Is(err, ErrNotOpened) || len(err.Error()) < 40 {
			t.Errorf("%+v: %v", options, err)
		}
	}
	if _, err := OpenShared("/nowhere/at/all", Options{}); !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Error(err)
	}
	if _, err := Connect("/nowhere/at/all", 0); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	full := openCache(t, Options{Memory: 1 << 20, NoEviction: true})
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = full.Set(fmt.Sprint(n), make([]byte, 100_000), 0)
	}
	if !errors.Is(err, ErrNoMemory) {
		t.Error(err)
	}
}

func TestAClosedCacheSaysSo(t *testing.T) {
	cache := must[*Cache](t)(Open(Options{Memory: 2 << 20}))
	set(t, cache, "k", "v")
	walk := cache.Walk("")
	for range 2 {
		if err := cache.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := cache.Get("k"); ok {
		t.Error("Get")
	}
	_, _, get := cache.GetInto(nil, "k")
	_, del := cache.Delete("k")
	_, incr := cache.Incr("k", 1)
	_, many := cache.GetMany("k")
	_, touch := cache.Touch("k", 0)
	_, prefix := cache.RemovePrefix("")
	_, swap := cache.CompareAndSwap("k", nil, 0, 1)
	for at, err := range []error{get, del, incr, many, touch, prefix, swap,
		cache.Set("k", nil, 0), cache.Clear(), cache.Maintain(), cache.SetMemory(1 << 20)} {
		if !errors.Is(err, ErrClosed) {
			t.Error(at, err)
		}
	}
	if _, ok := walk.Next(); ok || cache.Len() != 0 || cache.Stats().MemoryLimit != 0 {
		t.Error("a closed cache has something in it")
	}
	walk.Close()
}

// Close may come while others are in the middle of calls.
func TestCloseWaitsForWhoIsInside(t *testing.T) {
	for range 20 {
		cache := must[*Cache](t)(Open(Options{Memory: 2 << 20}))
		var group sync.WaitGroup
		for worker := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				key := fmt.Sprint(worker)
				for cache.Set(key, []byte(key), 0) == nil {
					if value, ok := cache.Get(key); ok && string(value) != key {
						t.Errorf("%q", value)
					}
				}
			}()
		}
		time.Sleep(2 * time.Millisecond)
		if err := cache.Close(); err != nil {
			t.Fatal(err)
		}
		group.Wait()
	}
}

func TestAForgottenCacheIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	forget := func() {
		cache := must[*Cache](t)(OpenShared(path, Options{Memory: 2 << 20}))
		set(t, cache, "k", "v")
	}
	forget()
	alone := func() error {
		cache, err := OpenShared(path, Options{Alone: true})
		if err == nil {
			wantValue(t, cache, "k", "v")
			_ = cache.Close()
		}
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		err := alone()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestManyGoroutinesSeeWhatWasStored(t *testing.T) {
	cache := openCache(t, Options{Memory: 4 << 20, Maintainer: true})
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
					if err := cache.Set(key, []byte(value), 0); err != nil {
						t.Error(err)
					}
				case 1:
					_, _ = cache.Delete(key)
				default:
					var err error
					dst, _, err = cache.GetInto(dst[:0], key)
					if err == nil && strings.Repeat(key+" ", len(dst)/(len(key)+1)) != string(dst) {
						t.Errorf("%q is %q", key, dst)
					}
				}
			}
		}()
	}
	group.Wait()
}

func TestRemovalsAreTold(t *testing.T) {
	told := make(chan Removal, 100)
	var cache *Cache
	cache = openCache(t, Options{OnRemoval: func(removal Removal) {
		// It may use the cache.
		_ = cache.Len()
		told <- removal
	}})
	set(t, cache, "k", "one")
	set(t, cache, "k", strings.Repeat("two ", 1000))
	_, _ = cache.Delete("k")
	for _, expected := range []Removal{
		{"k", []byte("one"), Replaced},
		{"k", []byte(strings.Repeat("two ", 1000)), Deleted},
	} {
		select {
		case removal := <-told:
			if fmt.Sprint(removal) != fmt.Sprint(expected) {
				t.Errorf("%+v, expected %+v", removal, expected)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("nothing was told")
		}
	}
	if s := fmt.Sprint(Deleted, Replaced, Expired, Evicted, Cleared); s != "deleted replaced expired evicted cleared" {
		t.Error(s)
	}
}

func TestStatistics(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "v")
	cache.Get("k")
	cache.Get("none")
	stats := cache.Stats()
	if stats.Hits != 1 || stats.Misses != 1 || stats.Items != 1 || stats.HitRate() != 0.5 ||
		stats.MemoryLimit != 8<<20 || stats.MemoryUsed == 0 || stats.Named["curr_items"] != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestAFileIsSharedAndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	one := must[*Cache](t)(OpenShared(path, Options{Memory: 4 << 20}))
	other := must[*Cache](t)(OpenShared(path, Options{}))
	set(t, one, "k", "v")
	wantValue(t, other, "k", "v")
	_ = one.Close()
	_ = other.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	again := must[*Cache](t)(OpenShared(path, Options{}))
	defer again.Close()
	wantValue(t, again, "k", "v")
	_, err := OpenShared(path, Options{Memory: 2 << 20, Exactly: true})
	if !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), "memory in bytes") {
		t.Error(err)
	}
}

// What is on the path of every request allocates nothing.
func TestNothingIsAllocated(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("the race detector allocates")
	}
	cache := openCache(t, Options{})
	value, keys := make([]byte, 100), []string{"a", "b", "c", "d"}
	for _, key := range keys {
		set(t, cache, key, string(value))
	}
	var dst []byte
	var batch Batch
	for name, do := range map[string]func(){
		"Set":      func() { _ = cache.Set("a", value, time.Minute) },
		"GetInto":  func() { dst, _, _ = cache.GetInto(dst[:0], "a") },
		"GetBatch": func() { _ = cache.GetBatch(&batch, keys...) },
		"Delete":   func() { _, _ = cache.Delete("none") },
		"Incr":     func() { _, _ = cache.Incr("none", 1) },
	} {
		do()
		if allocations := testing.AllocsPerRun(100, do); allocations != 0 {
			t.Errorf("%s allocates %v times", name, allocations)
		}
	}
	if allocations := testing.AllocsPerRun(100, func() { cache.Get("a") }); allocations != 1 {
		t.Errorf("Get allocates %v times", allocations)
	}
}
