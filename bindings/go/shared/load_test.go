package shared

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

	"larder.example/larder"
	"larder.example/larder/internal/check"
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
	_, err := cache.GetOrLoad(t.Context(), "k", panics)
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

func TestLoadDoesNotOverwriteChanges(t *testing.T) {
	check.GoroutineLeaks(t)
	tests := []struct {
		name   string
		change func(*Cache)
		want   string // empty if there is no item
	}{
		{"none", func(*Cache) {}, "old"},
		{"delete", func(cache *Cache) { _, _ = cache.Delete("k") }, ""},
		{"set", func(cache *Cache) { _ = cache.Set("k", []byte("set"), 0) }, "set"},
		{"add", func(cache *Cache) { _, _ = cache.Add("k", []byte("add"), 0) }, "add"},
		{"clear", func(cache *Cache) { _ = cache.Clear() }, ""},
		{"remove prefix", func(cache *Cache) { _, _ = cache.RemovePrefix("") }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cache := openCache(t, Options{})
			loader := func(context.Context, string) ([]byte, time.Duration, error) {
				test.change(cache)
				return []byte("old"), 0, nil
			}
			value, err := cache.GetOrLoad(t.Context(), "k", loader)
			check.ErrorIs(t, "GetOrLoad", err, nil)
			check.Equal(t, "GetOrLoad", string(value), "old")
			value, ok := cache.Get("k")
			check.Equal(t, "Get(k)", string(value), test.want)
			check.Equal(t, "Get(k) found", ok, test.want != "")
		})
	}
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
	if _, err := cache.GetOrLoad(t.Context(), "k", loaderOf("old", time.Second)); err != nil {
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

func TestCloseAfterALoadWithoutReservation(t *testing.T) {
	cache := openCache(t, Options{Memory: 1 << 20, NoEviction: true})
	for n := range 100_000 {
		if cache.Set(fmt.Sprint("k", n), make([]byte, 100), 0) != nil {
			break
		}
	}
	for n := range 50_000 {
		if cache.Set(fmt.Sprint("s", n), nil, 0) != nil {
			break
		}
	}
	value, err := cache.GetOrLoad(t.Context(), strings.Repeat("k", 250), loaderOf("v", 0))
	check.NoError(t, err)
	check.Equal(t, "value of a load that cannot be stored", string(value), "v")
	closed := make(chan error, 1)
	go func() { closed <- cache.Close() }()
	select {
	case err := <-closed:
		check.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for a load that has ended")
	}
}

func TestStaleForLong(t *testing.T) {
	for _, staleFor := range []time.Duration{100 * 365 * 24 * time.Hour, larder.Forever} {
		cache := openCache(t, Options{StaleFor: staleFor, RefreshBefore: time.Second})
		_, err := cache.GetOrLoad(t.Context(), "k", loaderOf("v", time.Minute))
		check.NoError(t, err)
		_, err = cache.GetOrLoad(t.Context(), "k", loaderFailing(errors.New("loaded too early")))
		check.NoError(t, err)
		check.Equal(t, "loads of a fresh value", cache.loads.Loads(), 0)
		item, _, err := cache.Peek("k")
		if years := item.TTL / (365 * 24 * time.Hour); err != nil || years < 70 {
			t.Errorf("StaleFor %v: Peek: %v to live, %v, want 70 years", staleFor, item.TTL, err)
		}
	}
}
