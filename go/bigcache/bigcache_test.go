package bigcache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/own"
)

func TestGetReturnsStoredEntry(t *testing.T) {
	cache := newCache(t, smallConfig())
	wantNoEntry(t, cache, "key")
	for _, bytes := range []int{0, 1, 511, 512, 513, 16 << 10, 300_000} {
		entry := strings.Repeat("e", bytes)
		set(t, cache, "key", entry)
		wantEntry(t, cache, "key", entry)
	}
	if err := cache.Set("nil", nil); err != nil {
		t.Fatalf("Set(nil, nil): %v", err)
	}
	wantEntry(t, cache, "nil", "")
	entry, response, err := cache.GetWithInfo("nil")
	check.Equal(t, "GetWithInfo(nil): error", err, nil)
	check.Equal(t, "GetWithInfo(nil): entry is nil", entry == nil, false)
	check.Equal(t, "GetWithInfo(nil): response", response, Response{})
	entry, response, err = cache.GetWithInfo("none")
	check.Equal(t, "GetWithInfo(none): error", err, ErrEntryNotFound)
	check.Equal(t, "GetWithInfo(none): entry is nil", entry == nil, true)
	check.Equal(t, "GetWithInfo(none): response", response, Response{})
}

func TestEntriesAreCopies(t *testing.T) {
	cache := newCache(t, smallConfig())
	given := []byte("given")
	if err := cache.Set("key", given); err != nil {
		t.Fatalf("Set: %v", err)
	}
	given[0] = 'x'
	got, err := cache.Get("key")
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	got[1] = 'x'
	wantEntry(t, cache, "key", "given")
	// Later stores must not overwrite the copy.
	for i := range 100 {
		set(t, cache, fmt.Sprint(i), strings.Repeat("y", 200_000))
	}
	check.Equal(t, "first copy", string(got), "gxven")
}

func TestAnyKeyIsAccepted(t *testing.T) {
	// 65535 is BigCache's limit for the length of a key.
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 16})
	keys := []string{"", "a b", "new\nline", "\x00", "\xFF", "\xFFdigest", "ключ"}
	for _, bytes := range []int{249, 250, 251, 1000, math.MaxUint16, math.MaxUint16 + 1, 300_000} {
		keys = append(keys, strings.Repeat("k", bytes-1)+"1", strings.Repeat("k", bytes-1)+"2")
	}
	for at, key := range keys {
		set(t, cache, key, fmt.Sprint("entry ", at))
	}
	for at, key := range keys {
		wantEntry(t, cache, key, fmt.Sprint("entry ", at))
	}
	seen := map[string]string{}
	for it := cache.Iterator(); it.SetNext(); {
		entry, err := it.Value()
		check.NoError(t, err)
		seen[entry.Key()] = string(entry.Value())
	}
	for at, key := range keys {
		if seen[key] != fmt.Sprint("entry ", at) {
			t.Errorf("the iterator returned %q for %.20q, want %q", seen[key], key, fmt.Sprint("entry ", at))
		}
		if err := cache.Append(key, []byte("!")); err != nil {
			t.Errorf("Append(%.20q): %v", key, err)
		}
		wantEntry(t, cache, key, fmt.Sprint("entry ", at, "!"))
		if err := cache.Delete(key); err != nil {
			t.Errorf("Delete(%.20q): %v", key, err)
		}
		wantNoEntry(t, cache, key)
	}
	check.Equal(t, "entries of the iterator", len(seen), len(keys))
	check.Equal(t, "Len after the deletes", cache.Len(), 0)
}

func TestAppend(t *testing.T) {
	cache := newCache(t, smallConfig())
	for _, key := range []string{"key", strings.Repeat("long ", 100)} {
		for at := range 3 {
			if err := cache.Append(key, []byte("part ")); err != nil {
				t.Fatalf("Append(%.20q): %v", key, err)
			}
			wantEntry(t, cache, key, strings.Repeat("part ", at+1))
		}
	}
	half := bytes.Repeat([]byte("x"), 2<<20)
	check.Equal(t, "Append of half of the memory", cache.Append("key", half), ErrEntryTooBig)
	wantEntry(t, cache, "key", "part part part ")
}

func TestConcurrentAppends(t *testing.T) {
	const keys, workers, each = 5, 10, 200
	cache := newCache(t, smallConfig())
	var all sync.WaitGroup
	for range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := range keys * each {
				key := fmt.Sprint("key", at%keys)
				if err := cache.Append(key, []byte(key)); err != nil {
					t.Errorf("Append(%q): %v", key, err)
				}
			}
		}()
	}
	all.Wait()
	for at := range keys {
		key := fmt.Sprint("key", at)
		wantEntry(t, cache, key, strings.Repeat(key, workers*each))
	}
	check.Equal(t, "Len", cache.Len(), keys)
}

func TestDelete(t *testing.T) {
	cache := newCache(t, smallConfig())
	check.Equal(t, "Delete of an absent key", cache.Delete("key"), ErrEntryNotFound)
	set(t, cache, "key", "")
	check.Equal(t, "Delete", cache.Delete("key"), nil)
	wantNoEntry(t, cache, "key")
}

func TestReset(t *testing.T) {
	cache := newCache(t, DefaultConfig(time.Minute))
	for range 2 {
		for at := range 50_000 {
			set(t, cache, fmt.Sprint(at), "entry")
		}
		check.Equal(t, "Len", cache.Len(), 50_000)
		check.Equal(t, "Reset", cache.Reset(), nil)
		check.Equal(t, "Len after Reset", cache.Len(), 0)
		wantNoEntry(t, cache, "1")
		check.Equal(t, "SetNext after Reset", cache.Iterator().SetNext(), false)
	}
}

func TestKeysWithEqualHashes(t *testing.T) {
	config := smallConfig()
	config.Hasher, config.StatsEnabled = sameHash{}, true
	cache := newCache(t, config)
	set(t, cache, "a", "1")
	wantNoEntry(t, cache, "b")
	check.Equal(t, "Delete(b)", cache.Delete("b"), ErrEntryNotFound)
	check.Equal(t, "Append(b)", cache.Append("b", []byte("2")), nil)
	wantEntry(t, cache, "a", "1")
	wantEntry(t, cache, "b", "2")
	check.Equal(t, "Collisions", cache.Stats().Collisions, 0)
	check.Equal(t, "RequestCount", cache.KeyMetadata("a").RequestCount, 1)
}

func TestEntriesExpire(t *testing.T) {
	config := expiringConfig()
	config.LifeWindow = 1500 * time.Millisecond
	cache, clock := newClockedCache(t, config)
	set(t, cache, "key", "entry")
	set(t, cache, "other", "entry")
	clock.advance(config.LifeWindow - time.Millisecond)
	wantEntry(t, cache, "key", "entry")
	clock.advance(time.Millisecond)
	// The entry is gone without a cleanup or a store.
	wantNoEntry(t, cache, "key")
	check.Equal(t, "SetNext after expiry", cache.Iterator().SetNext(), false)
	check.Equal(t, "Delete after expiry", cache.Delete("other"), ErrEntryNotFound)
}

func TestCleanWindowRemovesExpiredEntries(t *testing.T) {
	var calls callbackCalls
	config := expiringConfig()
	config.CleanWindow = time.Millisecond
	config.OnRemoveWithReason = func(key string, _ []byte, reason RemoveReason) { calls.add(key, reason) }
	cache, clock := newClockedCache(t, config)
	var lines []string
	for at := range 1000 {
		set(t, cache, fmt.Sprint(at), "entry")
		lines = append(lines, fmt.Sprint(at, " ", 1))
	}
	check.Equal(t, "Len", cache.Len(), 1000)
	clock.advance(time.Second)
	check.Eventually(t, "callbacks for all entries", func() bool { return calls.count() == 1000 })
	check.Equal(t, "Len after the cleanup", cache.Len(), 0)
	calls.want(t, lines...)
}

func TestSetAndAppendRenewLife(t *testing.T) {
	config := expiringConfig()
	config.LifeWindow = 3 * time.Second
	cache, clock := newClockedCache(t, config)
	set(t, cache, "set", "")
	set(t, cache, "appended", "")
	set(t, cache, "unchanged", "")
	for range 4 {
		clock.advance(2 * time.Second)
		set(t, cache, "set", "entry")
		check.NoError(t, cache.Append("appended", []byte("x")))
	}
	wantEntry(t, cache, "set", "entry")
	wantEntry(t, cache, "appended", "xxxx")
	wantNoEntry(t, cache, "unchanged")
}

func TestLifeWindowOfZeroMeansNoExpiry(t *testing.T) {
	for _, life := range []time.Duration{0, math.MaxInt64} {
		cache, clock := newClockedCache(t, DefaultConfig(life))
		set(t, cache, "key", "entry")
		check.NoError(t, cache.Append("key", []byte("!")))
		clock.advance(100 * 365 * 24 * time.Hour)
		wantEntry(t, cache, "key", "entry!")
	}
}

func TestStats(t *testing.T) {
	cache := newCache(t, smallConfig())
	for at := range 100 {
		set(t, cache, fmt.Sprint(at), strings.Repeat("e", 20*at))
	}
	// Half of the keys passed to Get exist, and three quarters of the keys passed to Delete.
	for at := range 20 {
		_, _ = cache.Get(fmt.Sprint(90 + at))
		_ = cache.Delete(fmt.Sprint(70 + 2*at))
	}
	// An iterator is not counted.
	for it := cache.Iterator(); it.SetNext(); {
	}
	want := Stats{Hits: 10, Misses: 10, DelHits: 15, DelMisses: 5}
	check.Equal(t, "Stats", cache.Stats(), want)
	encoded, err := json.Marshal(cache.Stats())
	check.Equal(t, "Marshal: error", err, nil)
	check.Equal(t, "Marshal", string(encoded),
		`{"hits":10,"misses":10,"delete_hits":15,"delete_misses":5,"collisions":0}`)
	check.Equal(t, "ResetStats", cache.ResetStats(), nil)
	check.Equal(t, "Stats after ResetStats", cache.Stats(), Stats{})
}

// BigCache counts an Append as a read, because it looks up the entry as Get does.
func TestAppendsCountAsReads(t *testing.T) {
	config := smallConfig()
	config.StatsEnabled = true
	cache := newCache(t, config)
	for range 3 {
		check.NoError(t, cache.Append("key", []byte("x")))
	}
	check.Equal(t, "Stats", cache.Stats(), Stats{Hits: 2, Misses: 1})
	check.Equal(t, "KeyMetadata", cache.KeyMetadata("key").RequestCount, 2)
	check.NoError(t, cache.ResetStats())
	check.Equal(t, "Stats after ResetStats", cache.Stats(), Stats{})
}

func TestKeyMetadataCountsRequests(t *testing.T) {
	config := smallConfig()
	config.StatsEnabled = true
	cache := newCache(t, config)
	set(t, cache, "key", strings.Repeat("e", 1000))
	var all sync.WaitGroup
	for range 10 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 100 {
				_, _ = cache.Get("key")
				_, _ = cache.Get("none")
			}
		}()
	}
	all.Wait()
	check.Equal(t, "RequestCount of key", cache.KeyMetadata("key").RequestCount, 1000)
	check.Equal(t, "RequestCount of none", cache.KeyMetadata("none").RequestCount, 0)
	check.Equal(t, "Hits", cache.Stats().Hits, 1000)
	check.Equal(t, "Misses", cache.Stats().Misses, 1000)
	set(t, cache, "key", "another")
	check.Equal(t, "RequestCount after Set", cache.KeyMetadata("key").RequestCount, 1000)
	_ = cache.Delete("key")
	check.Equal(t, "RequestCount after Delete", cache.KeyMetadata("key").RequestCount, 0)
	uncounted := newCache(t, smallConfig())
	set(t, uncounted, "key", "entry")
	wantEntry(t, uncounted, "key", "entry")
	check.Equal(t, "RequestCount without StatsEnabled", uncounted.KeyMetadata("key").RequestCount, 0)
}

func TestRequestCountsAreBounded(t *testing.T) {
	requests := newRequests()
	for at := range 100 * keysMin {
		requests.count(fmt.Sprint(at))
	}
	kept := 0
	for at := range requests.shards {
		kept += len(requests.shards[at].counts)
	}
	if most := keysMin * len(requests.shards); kept > most {
		t.Errorf("%d counts for 0 entries, want at most %d", kept, most)
	}
}

func TestInvalidConfigs(t *testing.T) {
	for want, config := range map[string]Config{
		"Shards number must be power of two": {Shards: 18},
		"MaxEntriesInWindow must be >= 0":    {Shards: 16, MaxEntriesInWindow: -1},
		"MaxEntrySize must be >= 0":          {Shards: 16, MaxEntrySize: -1},
		"HardMaxCacheSize must be >= 0":      {Shards: 16, HardMaxCacheSize: -1},
		"LifeWindow must be >= 0":            {Shards: 16, LifeWindow: -1},
	} {
		cache, err := New(context.Background(), config)
		check.Equal(t, "New: cache is nil", cache == nil, true)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New(%+v): error %v, want %q", config, err, want)
		}
	}
	if _, err := NewBigCache(Config{}); err == nil {
		t.Error("NewBigCache without Shards: no error, want one")
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	config := DefaultConfig(time.Minute)
	config.OnRemove = func(string, []byte) {}
	for range 20 {
		cache, err := NewBigCache(config)
		check.NoError(t, err)
		set(t, cache, "key", "entry")
		it := cache.Iterator()
		for range 2 {
			check.Equal(t, "Close", cache.Close(), nil)
		}
		// An iterator may outlive its cache.
		check.Equal(t, "SetNext after Close", it.SetNext(), false)
		wantClosed(t, cache)
	}
	check.Eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

func TestEndOfContextEndsOnlyTheCleaning(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, isEndedBeforeNew := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		if isEndedBeforeNew {
			cancel()
		}
		var calls callbackCalls
		config := expiringConfig()
		config.CleanWindow = time.Millisecond
		config.OnRemove = func(key string, _ []byte) { calls.add(key) }
		clock := &clock{now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
		cache, err := open(ctx, config, clock.Now)
		check.NoError(t, err)
		set(t, cache, "key", "entry")
		cancel()
		check.Eventually(t, "end of the cleaning", func() bool { return runtime.NumGoroutine() <= before })
		wantEntry(t, cache, "key", "entry")
		set(t, cache, "other", "entry")
		clock.advance(2 * time.Second)
		// Wait long enough for several cleanups.
		time.Sleep(20 * time.Millisecond)
		calls.want(t)
		check.Equal(t, "Len", cache.Len(), 2)
		wantNoEntry(t, cache, "key")
		check.Equal(t, "Close", cache.Close(), nil)
		wantClosed(t, cache)
	}
}

func TestGarbageCollectorClosesADroppedCache(t *testing.T) {
	before := runtime.NumGoroutine()
	config := expiringConfig()
	config.CleanWindow, config.StatsEnabled = time.Millisecond, true
	config.OnRemove = func(string, []byte) {}
	cache, err := New(context.Background(), config)
	check.NoError(t, err)
	set(t, cache, "key", "entry")
	dropped := own.EngineOf(cache.cache)
	cache = nil
	check.Eventually(t, "close by the garbage collector", func() bool {
		runtime.GC()
		_, err := dropped.Set("key", nil, 0, 0)
		return errors.Is(err, engine.ErrClosed)
	})
	check.Eventually(t, "end of the cleaning", func() bool { return runtime.NumGoroutine() <= before })
}

// BigCache panics when it is closed twice.
func TestCloseByManyGoroutines(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		config := expiringConfig()
		config.CleanWindow, config.StatsEnabled = time.Millisecond, true
		config.OnRemove = func(string, []byte) {}
		cache, err := New(ctx, config)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for worker := range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				for at := range 200 {
					_ = cache.Set(fmt.Sprint(at), []byte("entry"))
					if entry, err := cache.Get(fmt.Sprint(at)); err == nil && string(entry) != "entry" {
						t.Errorf("Get during Close = %q, want %q", entry, "entry")
					}
					_ = cache.Delete(fmt.Sprint(at))
					switch {
					case at == 100 && worker%4 == 0:
						check.Equal(t, "Close", cache.Close(), nil)
					case at == 100 && worker == 1:
						cancel()
					}
				}
			}()
		}
		all.Wait()
		cancel()
		wantClosed(t, cache)
	}
}

// Each entry contains its key.
func TestConcurrentUse(t *testing.T) {
	config := expiringConfig()
	config.LifeWindow, config.CleanWindow = 100*time.Millisecond, 10*time.Millisecond
	config.HardMaxCacheSize, config.StatsEnabled = 1, true
	config.OnRemoveWithReason = func(key string, entry []byte, _ RemoveReason) {
		if entry != nil && !strings.HasPrefix(string(entry), key) {
			t.Errorf("callback with key %q and entry %.20q, want an entry of the key", key, entry)
		}
	}
	cache := newCache(t, config)
	var all sync.WaitGroup
	end := time.Now().Add(time.Second)
	for worker := range 12 {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := worker; time.Now().Before(end); at += 7 {
				key := fmt.Sprintf("key %03d ", at%256)
				switch worker % 4 {
				case 0:
					if err := cache.Set(key, []byte(strings.Repeat(key, 1+at%300))); err != nil {
						t.Errorf("Set(%q): %v", key, err)
					}
				case 1:
					entry, err := cache.Get(key)
					if err != nil && err != ErrEntryNotFound || string(entry) != strings.Repeat(key, len(entry)/len(key)) {
						t.Errorf("Get(%q) = %.20q, %v, want repetitions of the key", key, entry, err)
					}
				case 2:
					_ = cache.Delete(key)
				case 3:
					for it := cache.Iterator(); it.SetNext(); {
						entry, err := it.Value()
						if err != nil || !strings.HasPrefix(string(entry.Value()), entry.Key()) {
							t.Errorf("Value = %q with key %q, %v, want an entry of the key", entry.Value(), entry.Key(), err)
						}
					}
				}
			}
		}()
	}
	all.Wait()
}
