package larder

import (
	"bytes"
	"context"
	"time"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/flight"
)

// Loader returns the value of a key that is not in the cache, and its time to live, to which the
// rules of [Cache.Set] apply. Its context has the values of the first caller's context, but neither
// its deadline nor its cancellation. It ends after [Options.LoadTimeout], when no caller is waiting
// for the load any longer, and when the cache is closed.
type Loader func(ctx context.Context, key string) (value []byte, ttl time.Duration, err error)

// GetOrLoad returns the value of a key. If the key has no item, it calls loader and stores the
// result.
//
// All goroutines that request a key at the same time share one load, which runs in a separate
// goroutine. Each receives a copy of the value, or the error. Errors are not stored. No caller
// waits while there is a value: with [Options.StaleFor] and [Options.RefreshBefore] callers receive
// the old value during a refresh, and after a failed refresh the next caller tries again. The end
// of one caller's context does not cancel the load for the others.
//
// The result is stored only if the key has not changed since the load began. A set, a delete or any
// other change takes precedence: the waiting callers receive the loaded value, and the next caller
// loads again.
func (c *Cache) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	if !isKey(key) {
		return nil, keyError(key)
	}
	if value, isFresh, ok := c.getFresh(key); ok {
		if !isFresh {
			c.flights().Refresh(ctx, key, flight.Loader(loader))
		}
		return value, nil
	}
	if err := c.openError(); err != nil {
		return nil, err
	}
	return c.flights().Load(ctx, key, flight.Loader(loader))
}

// getFresh is like Get. isFresh is true if the value does not need a refresh yet.
func (c *Cache) getFresh(key string) (value []byte, isFresh, ok bool) {
	if c.options.StaleFor == 0 && c.options.RefreshBefore == 0 {
		value, ok = c.Get(key)
		return value, true, ok
	}
	value, item, ok := c.core().GetItem([]byte{}, key)
	return value, c.isFresh(&item), ok
}

// isFresh reports whether the item of a loaded value does not need a refresh yet. The item lives
// for the time to live of the value plus StaleFor. The times are in milliseconds, because the sum
// of two durations could exceed the longest duration.
func (c *Cache) isFresh(item *engine.Item) bool {
	return item.Deadline == 0 ||
		item.Deadline-c.now() > roundedUp(c.options.StaleFor)+roundedUp(c.options.RefreshBefore)
}

func newLoads(c *Cache, timeout time.Duration) *flight.Group {
	return flight.NewGroup(loading{c}, flightConfig(timeout))
}

func flightConfig(timeout time.Duration) flight.Config {
	return flight.Config{
		Timeout: timeout, ErrTimeout: ErrLoadTimeout, ErrClosed: ErrClosed, ErrRecursive: ErrRecursive,
		Panicked: func(value any, stack []byte) error { return &PanicError{value, stack} },
	}
}

// loading is the part of a cache that package flight uses for its loads.
type loading struct{ c *Cache }

func (l loading) BeginLoad(key string) (flight.Attempt, []byte, error) {
	value, item, ok := l.c.engine.Peek([]byte{}, key)
	if ok && l.c.isFresh(&item) {
		// Another load has ended since the caller read the key.
		return nil, value, nil
	}
	if err := l.c.openError(); err != nil {
		return nil, nil, err
	}
	return &attempt{l.c, key, value, item, ok}, nil, nil
}

// attempt is the state of a key when its load began. The load must not store its result if the key
// changes afterwards. Every change first calls Forget of package flight. If it does so after the
// load has begun, isCurrent is false. If it has done so before, the load did not exist yet, but the
// change itself may come later; then the item differs from the item in attempt.
type attempt struct {
	c       *Cache
	key     string
	value   []byte
	item    engine.Item
	isFound bool
}

func (a *attempt) Cancel() {}

func (a *attempt) Keep(value []byte, ttl time.Duration, isCurrent func() bool) {
	millis := a.c.millis(ttl)
	if millis < 0 {
		return
	}
	if millis > 0 {
		millis += roundedUp(a.c.options.StaleFor)
	}
	isStored := false
	// If the result is not stored, the next caller loads again.
	_, err := a.c.engine.Update(a.key, func(item engine.Item, old []byte, isFound bool) engine.Change {
		isStored = isCurrent() && a.isSame(item, old, isFound)
		if !isStored {
			return engine.Change{}
		}
		return engine.Change{Action: engine.Write, Value: value, Deadline: a.c.engine.Deadline(millis)}
	})
	if err != nil || !isStored || isCurrent() {
		return
	}
	// A change has begun during the store, perhaps while the store was copying the value without the
	// lock. A delete at that time has found nothing to delete. Remove the value here, so that the
	// delete takes precedence.
	_, _ = a.c.engine.Update(a.key, func(_ engine.Item, stored []byte, isFound bool) engine.Change {
		if isFound && bytes.Equal(stored, value) {
			return engine.Change{Action: engine.Remove}
		}
		return engine.Change{}
	})
}

// isSame reports whether the key has the same item as when the load began. Only its time to live
// may have changed.
func (a *attempt) isSame(item engine.Item, value []byte, isFound bool) bool {
	return isFound == a.isFound && item.Token == a.item.Token && item.Flags == a.item.Flags &&
		bytes.Equal(value, a.value)
}
