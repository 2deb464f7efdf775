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

	"larder"
)

// small is a configuration for tests: a few MB, nothing expires.
func smallConfig() Config { return Config{Shards: 1, HardMaxCacheSize: 4} }

// shortLived entries are gone two seconds after they were stored.
func expiringConfig() Config {
	config := smallConfig()
	config.LifeWindow, config.CleanWindow = time.Second, time.Second
	return config
}

const untilGone = 2200 * time.Millisecond

func newCache(t testing.TB, config Config) *BigCache {
	t.Helper()
	cache, err := New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func set(t testing.TB, cache *BigCache, key, entry string) {
	t.Helper()
	if err := cache.Set(key, []byte(entry)); err != nil {
		t.Fatalf("set of %.20q: %v", key, err)
	}
}

func wantEntry(t testing.TB, cache *BigCache, key, entry string) {
	t.Helper()
	if found, err := cache.Get(key); err != nil || string(found) != entry {
		t.Errorf("%.20q is %.20q (%d bytes), %v; expected %.20q", key, found, len(found), err, entry)
	}
}

func wantNoEntry(t testing.TB, cache *BigCache, key string) {
	t.Helper()
	// Programs compare it with ==.
	if found, err := cache.Get(key); err != ErrEntryNotFound || found != nil {
		t.Errorf("%.20q is %.20q, %v; expected none", key, found, err)
	}
}

// eventually waits for what happens shortly after.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after 5 seconds: %s", what)
		}
	}
}

func TestEntriesComeBackAsTheyWereSet(t *testing.T) {
	cache := newCache(t, smallConfig())
	wantNoEntry(t, cache, "key")
	for _, bytes := range []int{0, 1, 511, 512, 513, 16 << 10, 1 << 20} {
		entry := strings.Repeat("e", bytes)
		set(t, cache, "key", entry)
		wantEntry(t, cache, "key", entry)
	}
	if err := cache.Set("nil", nil); err != nil {
		t.Fatal(err)
	}
	if entry, err := cache.Get("nil"); entry == nil || len(entry) != 0 || err != nil {
		t.Errorf("nil is stored as an empty entry: %v, %v", entry, err)
	}
	entry, response, err := cache.GetWithInfo("nil")
	if entry == nil || response != (Response{}) || err != nil {
		t.Errorf("%v, %v, %v", entry, response, err)
	}
	if entry, response, err := cache.GetWithInfo("none"); entry != nil || response != (Response{}) || err != ErrEntryNotFound {
		t.Errorf("%v, %v, %v", entry, response, err)
	}
}

func TestEntriesAreCopies(t *testing.T) {
	cache := newCache(t, smallConfig())
	given := []byte("given")
	if err := cache.Set("key", given); err != nil {
		t.Fatal(err)
	}
	given[0] = 'x'
	got, err := cache.Get("key")
	if err != nil {
		t.Fatal(err)
	}
	got[1] = 'x'
	wantEntry(t, cache, "key", "given")
	// Neither do later entries write into it.
	for i := range 100 {
		set(t, cache, fmt.Sprint(i), strings.Repeat("y", 200_000))
	}
	if string(got) != "gxven" {
		t.Errorf("%q", got)
	}
}

func TestKeysOfAnyKind(t *testing.T) {
	// BigCache has 16 bits for the length of a key.
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
		if err != nil {
			t.Fatal(err)
		}
		seen[entry.Key()] = string(entry.Value())
	}
	for at, key := range keys {
		if seen[key] != fmt.Sprint("entry ", at) {
			t.Errorf("the iterator shows %.20q as %q", key, seen[key])
		}
		if err := cache.Append(key, []byte("!")); err != nil {
			t.Error(err)
		}
		wantEntry(t, cache, key, fmt.Sprint("entry ", at, "!"))
		if err := cache.Delete(key); err != nil {
			t.Errorf("%.20q: %v", key, err)
		}
		wantNoEntry(t, cache, key)
	}
	if len(seen) != len(keys) || cache.Len() != 0 {
		t.Errorf("%d of %d were shown, %d are left", len(seen), len(keys), cache.Len())
	}
}

func TestAppend(t *testing.T) {
	cache := newCache(t, smallConfig())
	for _, key := range []string{"key", strings.Repeat("long ", 100)} {
		for at := range 3 {
			if err := cache.Append(key, []byte("part ")); err != nil {
				t.Fatal(err)
			}
			wantEntry(t, cache, key, strings.Repeat("part ", at+1))
		}
	}
	half := bytes.Repeat([]byte("x"), 2<<20)
	if err := cache.Append("key", half); err != ErrEntryTooBig {
		t.Error(err)
	}
	wantEntry(t, cache, "key", "part part part ")
}

func TestNoAppendIsLost(t *testing.T) {
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
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	for at := range keys {
		key := fmt.Sprint("key", at)
		wantEntry(t, cache, key, strings.Repeat(key, workers*each))
	}
	if cache.Len() != keys {
		t.Error(cache.Len())
	}
}

func TestDelete(t *testing.T) {
	cache := newCache(t, smallConfig())
	if err := cache.Delete("key"); err != ErrEntryNotFound {
		t.Error(err)
	}
	set(t, cache, "key", "")
	if err := cache.Delete("key"); err != nil {
		t.Error(err)
	}
	wantNoEntry(t, cache, "key")
}

func TestReset(t *testing.T) {
	cache := newCache(t, DefaultConfig(time.Minute))
	for range 2 {
		for at := range 50_000 {
			set(t, cache, fmt.Sprint(at), "entry")
		}
		if cache.Len() != 50_000 {
			t.Error(cache.Len())
		}
		if err := cache.Reset(); err != nil || cache.Len() != 0 {
			t.Errorf("%d are left, %v", cache.Len(), err)
		}
		wantNoEntry(t, cache, "1")
		if cache.Iterator().SetNext() {
			t.Error("the iterator shows entries that are not there")
		}
	}
}

func TestKeysWithTheSameHashHaveEachTheirEntry(t *testing.T) {
	config := smallConfig()
	config.Hasher, config.StatsEnabled = sameHash{}, true
	cache := newCache(t, config)
	set(t, cache, "a", "1")
	wantNoEntry(t, cache, "b")
	if err := cache.Delete("b"); err != ErrEntryNotFound {
		t.Error(err)
	}
	if err := cache.Append("b", []byte("2")); err != nil {
		t.Error(err)
	}
	wantEntry(t, cache, "a", "1")
	wantEntry(t, cache, "b", "2")
	if stats := cache.Stats(); stats.Collisions != 0 || cache.KeyMetadata("a").RequestCount != 1 {
		t.Errorf("%+v, %+v", stats, cache.KeyMetadata("a"))
	}
}

type sameHash struct{}

func (sameHash) Sum64(string) uint64 { return 5 }

func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	config := expiringConfig()
	config.CleanWindow = 0
	cache := newCache(t, config)
	start := time.Now()
	set(t, cache, "key", "entry")
	set(t, cache, "other", "entry")
	// A whole second, whatever part of the clock's has gone by.
	for {
		time.Sleep(5 * time.Millisecond)
		_, err := cache.Get("key")
		if time.Since(start) >= config.LifeWindow {
			break
		}
		if err != nil {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	}
	time.Sleep(untilGone - config.LifeWindow)
	// Nobody has cleaned up, and nothing was set.
	wantNoEntry(t, cache, "key")
	if cache.Iterator().SetNext() {
		t.Error("the iterator shows an expired entry")
	}
	if err := cache.Delete("other"); err != ErrEntryNotFound {
		t.Error(err)
	}
}

func TestWhatExpiredIsCleanedUp(t *testing.T) {
	t.Parallel()
	config := expiringConfig()
	// Counts as a second.
	config.CleanWindow = time.Millisecond
	cache := newCache(t, config)
	for at := range 1000 {
		set(t, cache, fmt.Sprint(at), "entry")
	}
	if cache.Len() != 1000 {
		t.Error(cache.Len())
	}
	eventually(t, "nothing is left", func() bool { return cache.Len() == 0 })
}

func TestSetAndAppendRenewTheLifeOfAnEntry(t *testing.T) {
	t.Parallel()
	config := expiringConfig()
	config.LifeWindow = 3 * time.Second
	cache := newCache(t, config)
	set(t, cache, "set", "")
	set(t, cache, "appended", "")
	set(t, cache, "left alone", "")
	for range 4 {
		time.Sleep(1100 * time.Millisecond)
		set(t, cache, "set", "entry")
		if err := cache.Append("appended", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	wantEntry(t, cache, "set", "entry")
	wantEntry(t, cache, "appended", "xxxx")
	wantNoEntry(t, cache, "left alone")
}

func TestALifeWindowOfNothingIsForEver(t *testing.T) {
	t.Parallel()
	cache := newCache(t, DefaultConfig(0))
	longest := newCache(t, DefaultConfig(math.MaxInt64))
	set(t, cache, "key", "entry")
	set(t, longest, "key", "entry")
	time.Sleep(untilGone)
	wantEntry(t, cache, "key", "entry")
	wantEntry(t, longest, "key", "entry")
}

func TestStats(t *testing.T) {
	cache := newCache(t, smallConfig())
	for at := range 100 {
		set(t, cache, fmt.Sprint(at), strings.Repeat("e", 20*at))
	}
	// Each time half of them are there, or three quarters.
	for at := range 20 {
		_, _ = cache.Get(fmt.Sprint(90 + at))
		_ = cache.Delete(fmt.Sprint(70 + 2*at))
	}
	// An iterator asks for nothing.
	for it := cache.Iterator(); it.SetNext(); {
	}
	want := Stats{Hits: 10, Misses: 10, DelHits: 15, DelMisses: 5}
	if stats := cache.Stats(); stats != want {
		t.Errorf("%+v; expected %+v", stats, want)
	}
	encoded, err := json.Marshal(cache.Stats())
	if want := `{"hits":10,"misses":10,"delete_hits":15,"delete_misses":5,"collisions":0}`; err != nil || string(encoded) != want {
		t.Errorf("%s, %v", encoded, err)
	}
	if err := cache.ResetStats(); err != nil || cache.Stats() != (Stats{}) {
		t.Errorf("%+v, %v", cache.Stats(), err)
	}
}

func TestRequestsOfAKeyAreCounted(t *testing.T) {
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
	if count := cache.KeyMetadata("key").RequestCount; count != 1000 {
		t.Error(count)
	}
	if count := cache.KeyMetadata("none").RequestCount; count != 0 {
		t.Error(count)
	}
	if stats := cache.Stats(); stats.Hits != 1000 || stats.Misses != 1000 {
		t.Errorf("%+v", stats)
	}
	set(t, cache, "key", "another")
	if count := cache.KeyMetadata("key").RequestCount; count != 1000 {
		t.Errorf("%d: another entry takes the count over", count)
	}
	_ = cache.Delete("key")
	if count := cache.KeyMetadata("key").RequestCount; count != 0 {
		t.Error(count)
	}
	uncounted := newCache(t, smallConfig())
	set(t, uncounted, "key", "entry")
	wantEntry(t, uncounted, "key", "entry")
	if count := uncounted.KeyMetadata("key").RequestCount; count != 0 {
		t.Errorf("%d without StatsEnabled", count)
	}
}

func TestRequestCountsDoNotGrowForEver(t *testing.T) {
	requests := newRequests(func() int { return 0 })
	for at := range 100 * keysMin {
		requests.count(fmt.Sprint(at))
	}
	kept := 0
	for at := range requests.shards {
		kept += len(requests.shards[at].counts)
	}
	if most := keysMin * len(requests.shards); kept > most {
		t.Errorf("%d counts are kept for no entries; expected %d at most", kept, most)
	}
}

func TestWrongConfigs(t *testing.T) {
	for want, config := range map[string]Config{
		"Shards number must be power of two": {Shards: 18},
		"MaxEntriesInWindow must be >= 0":    {Shards: 16, MaxEntriesInWindow: -1},
		"MaxEntrySize must be >= 0":          {Shards: 16, MaxEntrySize: -1},
		"HardMaxCacheSize must be >= 0":      {Shards: 16, HardMaxCacheSize: -1},
		"LifeWindow must be >= 0":            {Shards: 16, LifeWindow: -1},
	} {
		cache, err := New(context.Background(), config)
		if cache != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; expected %s", err, want)
		}
	}
	if _, err := NewBigCache(Config{}); err == nil {
		t.Error("no shards are not a power of two")
	}
}

func TestClosing(t *testing.T) {
	before := runtime.NumGoroutine()
	config := DefaultConfig(time.Minute)
	config.OnRemove = func(string, []byte) {}
	for range 20 {
		cache, err := NewBigCache(config)
		if err != nil {
			t.Fatal(err)
		}
		set(t, cache, "key", "entry")
		it := cache.Iterator()
		for range 2 {
			if err := cache.Close(); err != nil {
				t.Error(err)
			}
		}
		// What an iterator holds outlives the cache.
		if it.SetNext() {
			t.Error("there is nothing in a closed cache")
		}
		wantClosed(t, cache)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func wantClosed(t testing.TB, cache *BigCache) {
	t.Helper()
	_, gotten := cache.Get("key")
	for at, err := range []error{
		gotten, cache.Set("key", nil), cache.Append("key", nil), cache.Delete("key"), cache.Reset(), cache.ResetStats(),
	} {
		if !errors.Is(err, larder.ErrClosed) {
			t.Errorf("%d: %v", at, err)
		}
	}
	if cache.Len() != 0 || cache.Capacity() != 0 || cache.Stats() != (Stats{}) ||
		cache.KeyMetadata("key") != (Metadata{}) || cache.Iterator().SetNext() {
		t.Error("there is nothing in a closed cache")
	}
}

func TestTheEndOfTheContextCloses(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	cache, err := New(ctx, DefaultConfig(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	set(t, cache, "key", "entry")
	cancel()
	closed := func() bool { _, err := cache.Get("key"); return errors.Is(err, larder.ErrClosed) }
	eventually(t, "the cache is closed", closed)
	// The context may have ended before.
	if cache, err = New(ctx, DefaultConfig(time.Minute)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cache is closed", closed)
	if err := cache.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// Each entry says of which key it is.
func TestManyGoroutines(t *testing.T) {
	config := expiringConfig()
	config.HardMaxCacheSize, config.StatsEnabled = 1, true
	config.OnRemoveWithReason = func(key string, entry []byte, _ RemoveReason) {
		if entry != nil && !strings.HasPrefix(string(entry), key) {
			t.Errorf("the callback has %.20q for %q", entry, key)
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
						t.Error(err)
					}
				case 1:
					entry, err := cache.Get(key)
					if err != nil && err != ErrEntryNotFound || string(entry) != strings.Repeat(key, len(entry)/len(key)) {
						t.Errorf("%q is %.20q, %v", key, entry, err)
					}
				case 2:
					_ = cache.Delete(key)
				case 3:
					for it := cache.Iterator(); it.SetNext(); {
						entry, err := it.Value()
						if err != nil || !strings.HasPrefix(string(entry.Value()), entry.Key()) {
							t.Errorf("%q, %v", entry.Key(), err)
						}
					}
				}
			}
		}()
	}
	all.Wait()
}
