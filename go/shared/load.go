//go:build linux && cgo

package shared

import (
	"context"
	"errors"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/flight"
)

// Loader returns the value of a key that is not in the cache, and its time to live, to which the
// rules of [Cache.Set] apply. Its context has the values of the first caller's context, but neither
// its deadline nor its cancellation. It ends after [Options.LoadTimeout], when no caller is waiting
// for the load any longer, and when the cache is closed.
type Loader = larder.Loader

// GetOrLoad returns the value of a key. If the key has no item, it calls loader and stores the
// result.
//
// All goroutines of this process that request a key at the same time share one load, which runs in
// a separate goroutine. Each receives a copy of the value, or the error. Errors are not stored. No
// caller waits while there is a value: with [Options.StaleFor] and [Options.RefreshBefore] callers
// receive the old value during a refresh, and after a failed refresh the next caller tries again.
// The end of one caller's context does not cancel the load for the others.
//
// The result is stored only if the key has not changed since the load began. A set, a delete or any
// other change, by this process or by another process that shares the cache, takes precedence: the
// waiting callers receive the loaded value, and the next caller loads again. The result may also be
// lost without such a change: if the cache evicts the item during the load or, without
// [Options.CAS], moves it to another place in memory. If the key has no item, the load reserves the
// key with a mark in the cache, which takes the memory of a small item until the load ends.
func (c *Cache) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	if len(key) == 0 || len(key) > keyBytesMax {
		return nil, ErrKey
	}
	value, item, err := c.get(key)
	if err == nil {
		if !c.isFresh(item) {
			c.loads.Refresh(ctx, key, flight.Loader(loader))
		}
		return value, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return c.loads.Load(ctx, key, flight.Loader(loader))
}

const keyBytesMax = 250

// isFresh reports whether an item does not need a refresh yet. The item of a loaded value lives for
// the time to live of the value plus StaleFor.
func (c *Cache) isFresh(item Item) bool {
	return item.TTL == 0 || item.TTL > whole(c.options.StaleFor)+whole(c.options.RefreshBefore)
}

// whole rounds a duration up to whole seconds. It returns at most a quarter of the longest
// duration, so that sums do not overflow. This is far more than any time to live that the cache can
// store.
func whole(d time.Duration) time.Duration {
	return (min(max(d, 0), larder.Forever/4) + time.Second - 1).Truncate(time.Second)
}

func newLoads(c *Cache, timeout time.Duration) *flight.Group {
	return flight.NewGroup(loading{c}, flight.Config{
		Timeout: timeout, Waits: true,
		ErrTimeout: ErrLoadTimeout, ErrClosed: ErrClosed, ErrRecursive: ErrRecursive,
		Panicked: func(value any, stack []byte) error { return &PanicError{Value: value, Stack: stack} },
	})
}

// loading is the part of a cache that package flight uses for its loads.
type loading struct{ c *Cache }

// BeginLoad records the state of the key first, and then reads the key. In the opposite order a
// change between the two would not be detected.
func (l loading) BeginLoad(key string) (flight.Attempt, []byte, error) {
	a := &attempt{cache: l.c, key: key}
	a.begin()
	held, item, err := l.c.Read([]byte{}, key)
	switch {
	case err == nil && l.c.isFresh(item):
		// Another load has ended since the caller read the key.
		return nil, held, nil
	case err != nil && !errors.Is(err, ErrNotFound):
		a.Cancel()
		return nil, nil, err
	}
	return a, nil, nil
}
