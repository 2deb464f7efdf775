// Package loadtest contains the tests of GetOrLoad that every cache must pass. Package larder and
// package shared run them on their caches.
package loadtest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/flight"
)

// Cache is the part of a cache that the tests use. It does not use the types of package larder,
// because the tests of larder import this package.
type Cache struct {
	GetOrLoad func(ctx context.Context, key string, loader flight.Loader) ([]byte, error)
	Get       func(key string) ([]byte, bool)
	Close     func() error
	// Loads are the loads in flight of the cache.
	Loads *flight.Group
}

// Options are the options of a cache under test.
type Options struct{ LoadTimeout, StaleFor time.Duration }

// Package describes a package with a cache.
type Package struct {
	// Open opens an empty cache, and closes it at the end of the test.
	Open func(t *testing.T, options Options) Cache
	// Errors of the package.
	ErrKey, ErrRecursive, ErrLoadTimeout, ErrClosed error
	// IsPanic returns true for a PanicError.
	IsPanic func(err error) bool
}

// Run runs all tests.
func Run(t *testing.T, p Package) {
	for name, test := range map[string]func(*testing.T, Package){
		"loads once for all callers":            loadsOnceForAllCallers,
		"returns errors and does not store":     returnsErrorsAndDoesNotStoreThem,
		"returns panics as errors":              returnsPanicsAsErrors,
		"continues until the last caller left":  continuesUntilTheLastCallerLeaves,
		"ends with the load timeout":            endsWithTheLoadTimeout,
		"ends with the cache":                   endsWithTheCache,
		"returns stale values during a refresh": returnsStaleValuesDuringARefresh,
		"recursive loads fail":                  recursiveLoadsFail,
	} {
		t.Run(name, func(t *testing.T) {
			check.GoroutineLeaks(t)
			test(t, p)
		})
	}
}

// loaderOf returns a loader that succeeds with a value.
func loaderOf(value string, ttl time.Duration) flight.Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte(value), ttl, nil
	}
}

// waitsForItsEnd is a loader that returns when its context ends.
func waitsForItsEnd(ctx context.Context, _ string) ([]byte, time.Duration, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

func wantValue(t *testing.T, cache Cache, key, want string) {
	t.Helper()
	if got, ok := cache.Get(key); !ok || string(got) != want {
		t.Errorf("Get(%q) = %q, %v, want %q", key, got, ok, want)
	}
}

func loadsOnceForAllCallers(t *testing.T, p Package) {
	cache := p.Open(t, Options{})
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

func returnsErrorsAndDoesNotStoreThem(t *testing.T, p Package) {
	cache := p.Open(t, Options{})
	broken := errors.New("broken")
	failing := func(context.Context, string) ([]byte, time.Duration, error) { return nil, 0, broken }
	_, err := cache.GetOrLoad(t.Context(), "k", failing)
	check.ErrorIs(t, "GetOrLoad", err, broken)
	if value, ok := cache.Get("k"); ok {
		t.Errorf("Get(k) after a failed load = %q, want no item", value)
	}
	_, err = cache.GetOrLoad(t.Context(), "", loaderOf("v", 0))
	check.ErrorIs(t, "GetOrLoad with an empty key", err, p.ErrKey)
	value, err := cache.GetOrLoad(t.Context(), "k", loaderOf("v", 0))
	check.ErrorIs(t, "GetOrLoad after a failed load", err, nil)
	check.Equal(t, "GetOrLoad after a failed load", string(value), "v")
}

func returnsPanicsAsErrors(t *testing.T, p Package) {
	cache := p.Open(t, Options{})
	broken := errors.New("broken")
	panics := func(context.Context, string) ([]byte, time.Duration, error) { panic(broken) }
	exits := func(context.Context, string) ([]byte, time.Duration, error) {
		runtime.Goexit()
		return nil, 0, nil
	}
	for name, loader := range map[string]flight.Loader{"panic": panics, "Goexit": exits, "nil": nil} {
		if _, err := cache.GetOrLoad(t.Context(), "k", loader); !p.IsPanic(err) {
			t.Errorf("%s: GetOrLoad: error %v, want a PanicError", name, err)
		}
	}
	_, err := cache.GetOrLoad(t.Context(), "k", exits)
	if !strings.HasPrefix(err.Error(), "larder: the loader called runtime.Goexit\n") {
		t.Errorf("GetOrLoad: error %q, want one that names Goexit", err)
	}
	_, err = cache.GetOrLoad(t.Context(), "k", panics)
	check.ErrorIs(t, "GetOrLoad", err, broken)
	if !strings.Contains(err.Error(), "loadtest.go") {
		t.Errorf("GetOrLoad: error %q, want the stack trace of the loader", err)
	}
}

func continuesUntilTheLastCallerLeaves(t *testing.T, p Package) {
	cache := p.Open(t, Options{})
	ended := make(chan error, 1)
	begun := make(chan struct{})
	loader := func(ctx context.Context, key string) ([]byte, time.Duration, error) {
		close(begun)
		value, ttl, err := waitsForItsEnd(ctx, key)
		ended <- err
		return value, ttl, err
	}
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	outcomes := make(chan error, 2)
	go func() { _, err := cache.GetOrLoad(first, "k", loader); outcomes <- err }()
	<-begun
	go func() { _, err := cache.GetOrLoad(second, "k", loader); outcomes <- err }()
	check.Eventually(t, "second caller", func() bool { return cache.Loads.Waiting("k") == 2 })
	cancelFirst()
	check.ErrorIs(t, "GetOrLoad of the first caller", <-outcomes, context.Canceled)
	select {
	case <-ended:
		t.Error("the load ended while a caller was waiting")
	// Wait long enough for a wrong cancellation to arrive.
	case <-time.After(20 * time.Millisecond):
	}
	cancelSecond()
	<-outcomes
	<-ended
	_, err := cache.GetOrLoad(first, "other", loader)
	check.ErrorIs(t, "GetOrLoad with a canceled context", err, context.Canceled)
}

func endsWithTheLoadTimeout(t *testing.T, p Package) {
	cache := p.Open(t, Options{LoadTimeout: 20 * time.Millisecond})
	resume := make(chan struct{})
	ignoresContext := func(context.Context, string) ([]byte, time.Duration, error) {
		<-resume
		return []byte("late"), 0, nil
	}
	_, err := cache.GetOrLoad(t.Context(), "k", ignoresContext)
	check.ErrorIs(t, "GetOrLoad", err, p.ErrLoadTimeout)
	value, err := cache.GetOrLoad(t.Context(), "k", loaderOf("new", 0))
	check.ErrorIs(t, "GetOrLoad after the timeout", err, nil)
	check.Equal(t, "GetOrLoad after the timeout", string(value), "new")
	close(resume)
	// Wait long enough for the late loader to return; its result must not be stored.
	time.Sleep(20 * time.Millisecond)
	wantValue(t, cache, "k", "new")
}

func endsWithTheCache(t *testing.T, p Package) {
	cache := p.Open(t, Options{})
	outcome := make(chan error)
	go func() { _, err := cache.GetOrLoad(t.Context(), "k", waitsForItsEnd); outcome <- err }()
	check.Eventually(t, "caller of the load", func() bool { return cache.Loads.Waiting("k") == 1 })
	_ = cache.Close()
	// The second is the error of the loader, which may return first.
	if err := <-outcome; !errors.Is(err, p.ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Errorf("GetOrLoad: error %v, want %v or %v", err, p.ErrClosed, context.Canceled)
	}
}

func returnsStaleValuesDuringARefresh(t *testing.T, p Package) {
	cache := p.Open(t, Options{StaleFor: time.Hour})
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

func recursiveLoadsFail(t *testing.T, p Package) {
	cache := p.Open(t, Options{})
	var inner flight.Loader
	outer := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		value, err := cache.GetOrLoad(ctx, "inner", inner)
		return value, 0, err
	}
	inner = func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		value, err := cache.GetOrLoad(ctx, "outer", outer)
		return value, 0, err
	}
	_, err := cache.GetOrLoad(t.Context(), "outer", outer)
	check.ErrorIs(t, "GetOrLoad", err, p.ErrRecursive)
}
