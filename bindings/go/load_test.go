package larder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/own"
)

func TestGetOrLoadLoadsOnceForAllCallers(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	var loads atomic.Int32
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		loads.Add(1)
		time.Sleep(50 * time.Millisecond)
		return []byte("loaded"), time.Minute, nil
	}
	var group sync.WaitGroup
	for range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			value, err := cache.GetOrLoad(t.Context(), "k", loader)
			if err != nil || string(value) != "loaded" {
				t.Errorf("GetOrLoad = %q, %v, want %q", value, err, "loaded")
				return
			}
			// Every caller has its own copy, so this affects no other.
			value[0] = '#'
		}()
	}
	group.Wait()
	check.Equal(t, "loads", loads.Load(), 1)
	wantValue(t, cache, "k", "loaded")
}

func TestGetOrLoadReturnsErrorsAndDoesNotStoreThem(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	broken := errors.New("broken")
	_, err := cache.GetOrLoad(t.Context(), "k", loaderFailing(broken))
	check.ErrorIs(t, "GetOrLoad", err, broken)
	check.Equal(t, "Contains(k)", cache.Contains("k"), false)
	_, err = cache.GetOrLoad(t.Context(), "", loaderOf("v", 0))
	check.ErrorIs(t, "GetOrLoad with an empty key", err, ErrKey)
	value, err := cache.GetOrLoad(t.Context(), "k", loaderOf("v", 0))
	check.ErrorIs(t, "GetOrLoad after a failed load", err, nil)
	check.Equal(t, "GetOrLoad after a failed load", string(value), "v")
}

func TestGetOrLoadReturnsPanicsAsErrors(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	broken := errors.New("broken")
	panics := func(context.Context, string) ([]byte, time.Duration, error) { panic(broken) }
	exits := func(context.Context, string) ([]byte, time.Duration, error) {
		runtime.Goexit()
		return nil, 0, nil
	}
	for name, loader := range map[string]Loader{"panic": panics, "Goexit": exits, "nil": nil} {
		var panicked *PanicError
		if _, err := cache.GetOrLoad(t.Context(), "k", loader); !errors.As(err, &panicked) {
			t.Errorf("%s: GetOrLoad: error %v, want a PanicError", name, err)
		}
	}
	_, err := cache.GetOrLoad(t.Context(), "k", exits)
	if !strings.HasPrefix(err.Error(), "larder: the loader called runtime.Goexit\n") {
		t.Errorf("GetOrLoad: error %q, want one that names Goexit", err)
	}
	_, err = cache.GetOrLoad(t.Context(), "k", panics)
	check.ErrorIs(t, "GetOrLoad", err, broken)
	if !strings.Contains(err.Error(), "load_test.go") {
		t.Errorf("GetOrLoad: error %q, want the stack trace of the loader", err)
	}
}

func TestLoadContinuesUntilLastCallerLeaves(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	ended := make(chan error, 1)
	begun := make(chan struct{})
	loader := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, 0, ctx.Err()
	}
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	outcomes := make(chan error, 2)
	go func() { _, err := cache.GetOrLoad(first, "k", loader); outcomes <- err }()
	<-begun
	go func() { _, err := cache.GetOrLoad(second, "k", loader); outcomes <- err }()
	check.Eventually(t, "second caller", func() bool { return cache.loads.Waiting("k") == 2 })
	cancelFirst()
	check.ErrorIs(t, "GetOrLoad of the first caller", <-outcomes, context.Canceled)
	select {
	case <-ended:
		t.Error("the load ended while a caller was waiting")
	// Long enough for a wrong cancellation to arrive.
	case <-time.After(20 * time.Millisecond):
	}
	cancelSecond()
	<-outcomes
	<-ended
	_, err := cache.GetOrLoad(first, "other", loader)
	check.ErrorIs(t, "GetOrLoad with a canceled context", err, context.Canceled)
}

func TestLoadTimeoutEndsLoad(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{LoadTimeout: 20 * time.Millisecond})
	resume := make(chan struct{})
	ignoresContext := func(context.Context, string) ([]byte, time.Duration, error) {
		<-resume
		return []byte("late"), 0, nil
	}
	_, err := cache.GetOrLoad(t.Context(), "k", ignoresContext)
	check.ErrorIs(t, "GetOrLoad", err, ErrLoadTimeout)
	value, err := cache.GetOrLoad(t.Context(), "k", loaderOf("new", 0))
	check.ErrorIs(t, "GetOrLoad after the timeout", err, nil)
	check.Equal(t, "GetOrLoad after the timeout", string(value), "new")
	close(resume)
	// Long enough for the late loader to return; its result must not be stored.
	time.Sleep(20 * time.Millisecond)
	wantValue(t, cache, "k", "new")
}

func TestCloseEndsLoads(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	loader := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	outcome := make(chan error)
	go func() { _, err := cache.GetOrLoad(t.Context(), "k", loader); outcome <- err }()
	check.Eventually(t, "caller of the load", func() bool { return cache.loads.Waiting("k") == 1 })
	_ = cache.Close()
	// The second is the error of the loader, which may return first.
	if err := <-outcome; !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Errorf("GetOrLoad: error %v, want %v or %v", err, ErrClosed, context.Canceled)
	}
}

// changes are changes of "k", and its value afterwards; empty if there is no item.
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

// loadDuring loads "k", calls meanwhile inside of the loader, and waits until the load has ended.
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
// must win, too.
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
		t.Error("EngineOf has an engine for what is not a cache")
	}
}

func TestCloseInsideOfALoader(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	_, err := cache.GetOrLoad(t.Context(), "k", func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte("v"), 0, cache.Close()
	})
	// The load may end before the caller sees that the cache is closed.
	if err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("GetOrLoad: error %v, want none or %v", err, ErrClosed)
	}
	_, err = cache.engine.Set("k", nil, 0, 0)
	check.ErrorIs(t, "Set", err, engine.ErrClosed)
}

func TestGetOrLoadReturnsStaleValueDuringRefresh(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{StaleFor: time.Hour})
	var refreshes atomic.Int32
	resume := make(chan struct{})
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		refreshes.Add(1)
		<-resume
		return []byte("new"), time.Minute, nil
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", loaderOf("old", 10*time.Millisecond)); err != nil {
		t.Fatalf("GetOrLoad: %v", err)
	}
	wantOld := func() {
		t.Helper()
		value, err := cache.GetOrLoad(t.Context(), "k", loader)
		if err != nil || string(value) != "old" {
			t.Fatalf("GetOrLoad = %q, %v, want %q", value, err, "old")
		}
	}
	check.Eventually(t, "start of the refresh", func() bool { wantOld(); return refreshes.Load() > 0 })
	for range 10 {
		wantOld()
	}
	close(resume)
	check.Eventually(t, "refreshed value", func() bool {
		value, _ := cache.Get("k")
		return string(value) == "new"
	})
	check.Equal(t, "refreshes", refreshes.Load(), 1)
}

func TestRecursiveLoadFails(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{})
	var inner Loader
	outer := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		value, err := cache.GetOrLoad(ctx, "inner", inner)
		return value, 0, err
	}
	inner = func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		value, err := cache.GetOrLoad(ctx, "outer", outer)
		return value, 0, err
	}
	_, err := cache.GetOrLoad(t.Context(), "outer", outer)
	check.ErrorIs(t, "GetOrLoad", err, ErrRecursive)
}
