package larder

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func loaderOf(value string, ttl time.Duration) Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) { return []byte(value), ttl, nil }
}

// noGoroutineIsLeft waits until no more goroutines run than before.
func checkGoroutineLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%s", stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

func TestOneLoadsForAll(t *testing.T) {
	checkGoroutineLeaks(t)
	cache := openCache(t, Options{})
	var count atomic.Int32
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		count.Add(1)
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
				t.Errorf("%q, %v", value, err)
			}
			// Each has a copy of its own.
			value[0] = '#'
		}()
	}
	group.Wait()
	if count.Load() != 1 {
		t.Errorf("%d loads", count.Load())
	}
	wantValue(t, cache, "k", "loaded")
}

func TestErrorsAreGivenToAllAndNotStored(t *testing.T) {
	checkGoroutineLeaks(t)
	cache := openCache(t, Options{})
	broken := errors.New("broken")
	fails := func(context.Context, string) ([]byte, time.Duration, error) { return nil, 0, broken }
	if _, err := cache.GetOrLoad(t.Context(), "k", fails); !errors.Is(err, broken) || cache.Contains("k") {
		t.Error(err)
	}
	panics := func(context.Context, string) ([]byte, time.Duration, error) { panic(broken) }
	var panicked *PanicError
	if _, err := cache.GetOrLoad(t.Context(), "k", panics); !errors.As(err, &panicked) ||
		!errors.Is(err, broken) || !strings.Contains(err.Error(), "load_test.go") {
		t.Error(err)
	}
	ends := func(context.Context, string) ([]byte, time.Duration, error) { runtime.Goexit(); return nil, 0, nil }
	if _, err := cache.GetOrLoad(t.Context(), "k", ends); !errors.As(err, &panicked) {
		t.Error(err)
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", nil); !errors.As(err, &panicked) {
		t.Error(err)
	}
	if _, err := cache.GetOrLoad(t.Context(), "", loaderOf("v", 0)); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
	if value, err := cache.GetOrLoad(t.Context(), "k", loaderOf("v", 0)); err != nil || string(value) != "v" {
		t.Error("the next one loads anew", err)
	}
}

// A caller that goes away takes the load from nobody, and the last one ends it.
func TestCallersComeAndGo(t *testing.T) {
	checkGoroutineLeaks(t)
	cache := openCache(t, Options{})
	ended := make(chan error, 1)
	begun := make(chan struct{})
	loader := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, 0, ctx.Err()
	}
	first, leave := context.WithCancel(t.Context())
	second, leaveToo := context.WithCancel(t.Context())
	outcomes := make(chan error, 2)
	go func() { _, err := cache.GetOrLoad(first, "k", loader); outcomes <- err }()
	<-begun
	go func() { _, err := cache.GetOrLoad(second, "k", loader); outcomes <- err }()
	for cache.waiting("k") != 2 {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-outcomes; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Error("the load has ended while somebody waits for it")
	case <-time.After(20 * time.Millisecond):
	}
	leaveToo()
	<-outcomes
	<-ended
	// One that is over before it begins loads nothing.
	if _, err := cache.GetOrLoad(first, "other", loader); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func (c *Cache) waiting(key string) int {
	c.flights.lock.Lock()
	defer c.flights.lock.Unlock()
	if f := c.flights.byKey[key]; f != nil {
		return f.waiting
	}
	return 0
}

func TestLoadsEndInTime(t *testing.T) {
	checkGoroutineLeaks(t)
	cache := openCache(t, Options{LoadTimeout: 20 * time.Millisecond})
	resume := make(chan struct{})
	deaf := func(context.Context, string) ([]byte, time.Duration, error) {
		<-resume
		return []byte("late"), 0, nil
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", deaf); !errors.Is(err, ErrLoadTimeout) {
		t.Error(err)
	}
	// What comes too late is not stored.
	if value, err := cache.GetOrLoad(t.Context(), "k", loaderOf("new", 0)); err != nil || string(value) != "new" {
		t.Errorf("%q, %v", value, err)
	}
	close(resume)
	time.Sleep(20 * time.Millisecond)
	wantValue(t, cache, "k", "new")
}

func TestCloseEndsLoads(t *testing.T) {
	checkGoroutineLeaks(t)
	cache := openCache(t, Options{})
	waits := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	outcome := make(chan error)
	go func() { _, err := cache.GetOrLoad(t.Context(), "k", waits); outcome <- err }()
	for cache.waiting("k") != 1 {
		time.Sleep(time.Millisecond)
	}
	_ = cache.Close()
	if err := <-outcome; !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Whatever happens to a key while it is loaded wins over the load.
func TestChangesWinOverLoads(t *testing.T) {
	checkGoroutineLeaks(t)
	changes := map[string]func(*Cache){
		"old":  func(*Cache) {},
		"":     func(cache *Cache) { _, _ = cache.Delete("k") },
		"set":  func(cache *Cache) { _ = cache.Set("k", []byte("set"), 0) },
		"add":  func(cache *Cache) { _, _ = cache.Add("k", []byte("add"), 0) },
		"\x00": func(cache *Cache) { _ = cache.Clear() },
		"\x01": func(cache *Cache) { _, _ = cache.RemovePrefix("") },
	}
	for expected, change := range changes {
		cache := openCache(t, Options{})
		loader := func(context.Context, string) ([]byte, time.Duration, error) {
			change(cache)
			return []byte("old"), 0, nil
		}
		if value, err := cache.GetOrLoad(t.Context(), "k", loader); err != nil || string(value) != "old" {
			t.Errorf("%q, %v", value, err)
		}
		if value, ok := cache.Get("k"); string(value) != strings.Trim(expected, "\x00\x01") || ok != (len(value) > 0) {
			t.Errorf("%q, expected %q", value, expected)
		}
	}
}

func TestWhatIsStaleIsGivenWhileOneRefreshesIt(t *testing.T) {
	checkGoroutineLeaks(t)
	cache := openCache(t, Options{StaleFor: time.Hour})
	var count atomic.Int32
	resume := make(chan struct{})
	refreshes := func(context.Context, string) ([]byte, time.Duration, error) {
		count.Add(1)
		<-resume
		return []byte("new"), time.Minute, nil
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", loaderOf("old", time.Second)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); count.Load() == 0; time.Sleep(time.Millisecond) {
		value, err := cache.GetOrLoad(t.Context(), "k", refreshes)
		if err != nil || string(value) != "old" || time.Now().After(end) {
			t.Fatalf("%q, %v", value, err)
		}
	}
	for range 10 {
		if value, err := cache.GetOrLoad(t.Context(), "k", refreshes); err != nil || string(value) != "old" {
			t.Fatalf("%q, %v", value, err)
		}
	}
	close(resume)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		value, _ := cache.Get("k")
		if string(value) == "new" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%q", value)
		}
	}
	if count.Load() != 1 {
		t.Errorf("%d refreshes", count.Load())
	}
}

func TestALoaderThatAsksForItself(t *testing.T) {
	checkGoroutineLeaks(t)
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
	if _, err := cache.GetOrLoad(t.Context(), "outer", outer); !errors.Is(err, ErrRecursive) {
		t.Error(err)
	}
}
