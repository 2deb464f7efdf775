package larder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/flight"
	"larder.example/larder/internal/loadtest"
	"larder.example/larder/internal/own"
)

func TestLoads(t *testing.T) {
	loadtest.Run(t, loadtest.Package{
		Open: func(t *testing.T, options loadtest.Options) loadtest.Cache {
			cache := openCache(t, Options{LoadTimeout: options.LoadTimeout, StaleFor: options.StaleFor})
			return loadtest.Cache{
				GetOrLoad: func(ctx context.Context, key string, loader flight.Loader) ([]byte, error) {
					return cache.GetOrLoad(ctx, key, loader)
				},
				Get: cache.Get, Close: cache.Close, Loads: cache.loads,
			}
		},
		ErrKey: ErrKey, ErrRecursive: ErrRecursive, ErrLoadTimeout: ErrLoadTimeout, ErrClosed: ErrClosed,
		IsPanic: func(err error) bool { return errors.As(err, new(*PanicError)) },
	})
}

// changes are changes of "k", and its value afterwards. The value is empty if the key has no item.
var changes = []struct {
	name string
	do   func(*Cache)
	want string
}{
	{"delete", func(cache *Cache) { _, _ = cache.Delete("k") }, ""},
	{"set", func(cache *Cache) { _ = cache.Set("k", []byte("set"), 0) }, "set"},
	{"set and delete", func(cache *Cache) {
		_ = cache.Set("k", []byte("set"), 0)
		_, _ = cache.Delete("k")
	}, ""},
	{"set with flags", func(cache *Cache) { _, _ = cache.SetItem("k", []byte("set"), Item{Flags: 1}) }, "set"},
	{"set with a negative ttl", func(cache *Cache) { _ = cache.Set("k", nil, -1) }, ""},
	{"set that is too large", func(cache *Cache) { _ = cache.Set("k", make([]byte, 8<<20), 0) }, ""},
	{"update", func(cache *Cache) {
		_ = cache.Update("k", func([]byte, *Item, bool) ([]byte, Decision) { return []byte("set"), StoreItem })
	}, "set"},
	{"clear", func(cache *Cache) { _ = cache.Clear() }, ""},
	{"remove prefix", func(cache *Cache) { _, _ = cache.RemovePrefix("") }, ""},
}

func TestLoadDoesNotOverwriteChanges(t *testing.T) {
	check.GoroutineLeaks(t)
	for _, isRefresh := range []bool{false, true} {
		for _, size := range []int{6, 100_000} {
			for _, change := range changes {
				t.Run(fmt.Sprintf("%s, refresh %v, %d bytes", change.name, isRefresh, size), func(t *testing.T) {
					cache := openCache(t, Options{StaleFor: time.Hour})
					if isRefresh {
						// Less than StaleFor to live: the value is stale.
						check.NoError(t, cache.Set("k", []byte("old"), time.Minute))
					}
					loadDuring(t, cache, strings.Repeat("l", size), func() { change.do(cache) })
					if value, _ := cache.Get("k"); string(value) != change.want {
						t.Errorf("Get(k) = %.40q, want %q", value, change.want)
					}
				})
			}
		}
	}
	cache := openCache(t, Options{})
	loadDuring(t, cache, "loaded", func() { cache.Get("k") })
	wantValue(t, cache, "k", "loaded")
}

// loadDuring loads "k", calls a function inside the loader, and waits until the load has ended.
func loadDuring(t *testing.T, cache *Cache, value string, meanwhile func()) {
	t.Helper()
	done := make(chan struct{})
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		defer close(done)
		meanwhile()
		return []byte(value), time.Hour, nil
	}
	must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loader))
	<-done
	// A refresh may outlive the call that started it.
	check.Eventually(t, "end of the load", func() bool { return cache.loads.Loads() == 0 })
}

// The set has passed the call of Forget when the load begins.
func TestLoadDoesNotOverwriteSetThatBeganBefore(t *testing.T) {
	for _, isRefresh := range []bool{false, true} {
		cache := openCache(t, Options{StaleFor: time.Hour})
		if isRefresh {
			check.NoError(t, cache.Set("k", []byte("old"), time.Minute))
		}
		cache.loads.Forget("k")
		loadDuring(t, cache, "loaded", func() {
			_, err := cache.engine.Set("k", []byte("newer"), 0, 0)
			check.NoError(t, err)
		})
		wantValue(t, cache, "k", "newer")
	}
}

// The store of a loaded value may evict items. The callback for them may use the key of the load.
func TestOnRemoveMayChangeTheLoadedKey(t *testing.T) {
	var cache *Cache
	var once atomic.Bool
	cache = openCache(t, Options{StaleFor: time.Hour, OnRemove: func(key string, value []byte, _ Reason) {
		if !once.Swap(true) {
			check.NoError(t, cache.Set(key, append(value, " removed"...), 0))
		}
	}})
	check.NoError(t, cache.Set("k", []byte("stale"), time.Minute))
	loadDuring(t, cache, "loaded", func() {})
	check.Eventually(t, "the callback's value", func() bool {
		value, _ := cache.Get("k")
		return string(value) == "stale removed"
	})
}

// A delete may find no item because the store of a load has not published its value yet. The delete
// must also take precedence in this case.
func TestChangesDuringTheStoreOfALoadWin(t *testing.T) {
	for calls, what := range []string{"before the store", "during the store"} {
		cache := openCache(t, Options{})
		attempt, _, err := loading{cache}.BeginLoad("k")
		check.NoError(t, err)
		seen := 0
		attempt.Keep([]byte("loaded"), 0, func() bool {
			seen++
			return seen <= calls
		})
		if cache.Contains("k") {
			t.Errorf("a delete %s has not prevented it", what)
		}
	}
}

func TestLoadedValueLivesForItsTTL(t *testing.T) {
	clock := newClock()
	for _, test := range []struct{ ttl, staleFor, fallback, want time.Duration }{
		{time.Minute, 0, 0, time.Minute}, {time.Minute, time.Second, 0, 61 * time.Second}, {0, time.Second, 0, 0},
		{0, time.Second, time.Minute, 61 * time.Second}, {Forever, time.Second, time.Minute, 0},
		{5 * time.Millisecond, 0, time.Minute, 5 * time.Millisecond},
	} {
		cache := openCache(t, Options{Clock: clock.Now, StaleFor: test.staleFor, TTL: test.fallback})
		must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("v", test.ttl)))
		item, _, _ := cache.Peek("k")
		check.Equal(t, fmt.Sprintf("%+v: TTL", test), item.TTL, test.want)
	}
	cache := openCache(t, Options{})
	must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("v", -1)))
	wantNone(t, cache, "k")
}

func TestRefreshBefore(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{Clock: clock.Now, RefreshBefore: 10 * time.Second})
	must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("first", time.Minute)))
	clock.advance(49 * time.Second)
	must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderFailing(errors.New("loaded too early"))))
	check.Equal(t, "loads of a fresh value", cache.loads.Loads(), 0)
	clock.advance(time.Second)
	value := must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("second", time.Minute)))
	check.Equal(t, "value during the refresh", string(value), "first")
	check.Eventually(t, "refreshed value", func() bool {
		value, _ := cache.Get("k")
		return string(value) == "second"
	})
}

func TestStaleForever(t *testing.T) {
	for _, refreshBefore := range []time.Duration{0, 10 * time.Second} {
		clock := newClock()
		cache := openCache(t, Options{Clock: clock.Now, StaleFor: Forever, RefreshBefore: refreshBefore})
		must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("first", time.Minute)))
		clock.advance(time.Minute - refreshBefore - 1)
		must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderFailing(errors.New("loaded too early"))))
		check.Equal(t, "loads of a fresh value", cache.loads.Loads(), 0)
		clock.advance(100 * 365 * 24 * time.Hour)
		value := must[[]byte](t)(cache.GetOrLoad(t.Context(), "k", loaderOf("second", time.Minute)))
		check.Equal(t, "value during the refresh", string(value), "first")
		check.Eventually(t, "refreshed value", func() bool {
			value, _ := cache.Get("k")
			return string(value) == "second"
		})
	}
}

// Package server writes to the engine of a cache, and announces its changes.
func TestAnnouncedChangesOfTheEngineWin(t *testing.T) {
	for _, announced := range []string{"k", ""} {
		cache := openCache(t, Options{})
		announce, e := own.ChangesOf(cache), own.EngineOf(cache)
		loadDuring(t, cache, "loaded", func() {
			announce(announced)
			check.ErrorIs(t, "Delete", e.Delete("k", 0), engine.ErrNotFound)
		})
		wantNone(t, cache, "k")
	}
	if own.EngineOf("not a cache") != nil || own.EngineOf((*Cache)(nil)) != nil {
		t.Error("EngineOf returns an engine for a value that is not a cache")
	}
}

func TestCloseInsideOfALoader(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	_, err := cache.GetOrLoad(t.Context(), "k", func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte("v"), 0, cache.Close()
	})
	// The load may end before the caller finds that the cache is closed.
	if err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("GetOrLoad: error %v, want none or %v", err, ErrClosed)
	}
	_, err = cache.engine.Set("k", nil, 0, 0)
	check.ErrorIs(t, "Set", err, engine.ErrClosed)
}
