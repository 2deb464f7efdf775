package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// emptyCache stores nothing.
type emptyCache struct{}

func (emptyCache) BeginLoad(string) (Attempt, []byte, error) { return emptyCache{}, nil, nil }
func (emptyCache) Keep([]byte, time.Duration, func() bool)   {}
func (emptyCache) Cancel()                                   {}

// The scheduler may run a caller that has joined a load only after the load has ended.
func TestWaitAfterLoadEndedReturnsValue(t *testing.T) {
	group := NewGroup(emptyCache{}, Config{Timeout: time.Minute})
	defer group.Close()
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte("loaded"), 0, nil
	}
	f, _ := group.join(t.Context(), "k", loader, false)
	<-f.ctx.Done()
	// The select in wait chooses among its ready cases at random.
	for range 100 {
		if value, err := f.wait(t.Context()); err != nil || string(value) != "loaded" {
			t.Fatalf("wait = %q, %v, want %q", value, err, "loaded")
		}
	}
}

// slowCache takes until resume to store the result of a load.
type slowCache struct {
	emptyCache
	keeping, resume chan struct{}
	isStored        atomic.Bool
	// The result of isCurrent at the end of the store.
	isCurrent atomic.Bool
}

func (c *slowCache) BeginLoad(string) (Attempt, []byte, error) { return c, nil, nil }

func (c *slowCache) Keep(_ []byte, _ time.Duration, isCurrent func() bool) {
	close(c.keeping)
	<-c.resume
	c.isCurrent.Store(isCurrent())
	c.isStored.Store(true)
}

// A change that begins during the store of a load either waits for it, or makes isCurrent false.
func TestChangesDuringTheStoreOfALoad(t *testing.T) {
	check.GoroutineLeaks(t)
	loader := func(context.Context, string) ([]byte, time.Duration, error) { return []byte("loaded"), 0, nil }
	for _, waits := range []bool{false, true} {
		for name, change := range map[string]func(*Group){
			"Forget":       func(g *Group) { g.Forget("key") },
			"ForgetPrefix": func(g *Group) { g.ForgetPrefix("k") },
		} {
			cache := &slowCache{keeping: make(chan struct{}), resume: make(chan struct{})}
			group := NewGroup(cache, Config{Timeout: time.Minute, Waits: waits})
			f, _ := group.join(t.Context(), "key", loader, false)
			<-cache.keeping
			// This caller may be a callback of the store, which must not wait for its own end.
			value, err := group.Load(t.Context(), "key", nil)
			check.NoError(t, err)
			check.Equal(t, "Load during the store", string(value), "loaded")
			changed := make(chan bool)
			go func() {
				change(group)
				changed <- cache.isStored.Load()
			}()
			if waits {
				// Nothing signals that the change waits, so sleep.
				time.Sleep(20 * time.Millisecond)
				close(cache.resume)
				check.Equal(t, name+" has waited for the store", <-changed, true)
			} else {
				check.Equal(t, name+" has waited for the store", <-changed, false)
				close(cache.resume)
			}
			_, err = f.wait(t.Context())
			check.NoError(t, err)
			check.Equal(t, name+": isCurrent at the end of the store", cache.isCurrent.Load(), false)
			check.Equal(t, name+": loads in flight afterwards", group.Loads(), 0)
			group.Close()
		}
	}
}

func TestLoadersThatRequestEachOther(t *testing.T) {
	check.GoroutineLeaks(t)
	errRecursive, empty := errors.New("recursive"), emptyCache{}
	one := NewGroup(empty, Config{Timeout: time.Minute, ErrRecursive: errRecursive})
	other := NewGroup(empty, Config{Timeout: time.Minute, ErrRecursive: errRecursive})
	defer one.Close()
	defer other.Close()
	// A ring of loads in two caches: each waits until all have begun, and requests the next one.
	groups, keys := []*Group{one, other, one}, []string{"a", "b", "c"}
	var begun sync.WaitGroup
	begun.Add(len(keys))
	results := make(chan error)
	for at := range keys {
		next := (at + 1) % len(keys)
		go func() {
			_, err := groups[at].Load(t.Context(), keys[at], func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
				begun.Done()
				begun.Wait()
				value, err := groups[next].Load(ctx, keys[next], nil)
				return value, 0, err
			})
			results <- err
		}()
	}
	began := time.Now()
	for range keys {
		check.ErrorIs(t, "Load", <-results, errRecursive)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the loads took %v, want an immediate error", took)
	}
	check.Equal(t, "recorded waits", len(rings.waits), 0)
}

// Loads that wait for the same load do not form a ring, in whatever order they end.
func TestLoadsThatWaitForTheSameLoad(t *testing.T) {
	group := NewGroup(emptyCache{}, Config{Timeout: time.Minute, ErrRecursive: errors.New("recursive")})
	defer group.Close()
	resume := make(chan struct{})
	shared := func(context.Context, string) ([]byte, time.Duration, error) {
		<-resume
		return []byte("v"), 0, nil
	}
	nested := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		// The loader waits for the same load in two goroutines.
		second := make(chan error)
		go func() {
			_, err := group.Load(ctx, "shared", shared)
			second <- err
		}()
		value, err := group.Load(ctx, "shared", shared)
		return value, 0, errors.Join(err, <-second)
	}
	results := make(chan error)
	for _, key := range []string{"a", "b", "c"} {
		go func() {
			_, err := group.Load(t.Context(), key, nested)
			results <- err
		}()
	}
	check.Eventually(t, "six waiting callers", func() bool { return group.Waiting("shared") == 6 })
	close(resume)
	for range 3 {
		check.NoError(t, <-results)
	}
	check.Equal(t, "recorded waits", len(rings.waits), 0)
}
