package flight

import (
	"context"
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
	// The answer of isCurrent at the end of the store.
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
				// No event reports that the change waits.
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
