//go:build linux && cgo

package larder

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Loader brings the value of a key that is not in the cache, and says how long it is good for; 0 is for ever. Its context
// is that of the first caller without its end: it ends with [Options.LoadTimeout], when nobody waits for the value any
// more, and with the cache.
type Loader func(ctx context.Context, key string) (value []byte, ttl time.Duration, err error)

// ErrLoadTimeout says that a load has taken longer than [Options.LoadTimeout].
var ErrLoadTimeout = errors.New("larder: the loader has taken too long")

// PanicError is what all who wait for a load get whose loader panicked.
type PanicError struct {
	// Value is what it panicked with; nil where it ended its goroutine.
	Value any
	// Stack is where.
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("larder: the loader panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap gives what it panicked with, where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// GetOrLoad gives the value of a key; where there is none, what loader brings, which is stored.
//
// Of all goroutines of this process that ask for the key at a time, one load is made, in a goroutine of its own, and all get
// copies of what it brings, or its error; errors are not stored. Nobody waits where there is a value: with
// [Options.StaleFor] and [Options.RefreshBefore] all get it while it is refreshed, and where that fails the next one tries
// again. A caller whose context ends does not take the load from the others.
//
// What a load brings is stored only if nothing else happened to the key since it began: a set, a delete or any other change,
// by this process or by another one that shares the cache, wins over it. Then those that waited get what it brings, and
// the next caller loads anew. An eviction, or a move of an item that has no token, may keep a result from being stored as
// well. Until the load ends a key without an item is reserved, which takes the memory of a small item.
//
// Of a connected cache a store or delete of an absent key by another client that is undone before the load ends is not
// seen.
func (c *Cache) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	if len(key) == 0 || len(key) > keyBytesMax {
		return nil, ErrKey
	}
	value, item, err := c.get(key)
	if err == nil {
		if !c.isFresh(item) && !isLoading(ctx, c, key) {
			c.flights.join(ctx, c, key, loader, true)
		}
		return value, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if isLoading(ctx, c, key) {
		return nil, ErrRecursive
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.flights.join(ctx, c, key, loader, false).wait(ctx)
}

const keyBytesMax = 250

// isFresh is true where nobody needs to refresh an item yet.
func (c *Cache) isFresh(item Item) bool {
	return item.TTL == 0 || item.TTL > whole(c.options.StaleFor)+whole(c.options.RefreshBefore)
}

// whole is a time in which a part of a second counts as a whole one.
func whole(d time.Duration) time.Duration {
	return (max(d, 0) + time.Second - 1).Truncate(time.Second)
}

// run makes the load, in a goroutine of its own.
func (f *flight) run(c *Cache, key string, loader Loader) {
	defer f.release()
	// Before the look: what happens to the key after it is seen when the result is stored.
	basis := c.beginLoad(key)
	held, item, err := c.GetInto(nil, key)
	switch {
	case err == nil && c.isFresh(item):
		// Another load has come to its end since the caller looked.
		c.flights.finish(f, key, held, nil, func() {})
		return
	case err != nil && !errors.Is(err, ErrNotFound):
		c.cancelLoad(key, &basis)
		c.flights.finish(f, key, nil, err, func() {})
		return
	}
	basis.item, basis.found = item, err == nil
	// Later, for a loader that ends its goroutine ends this function too.
	var result loadResult
	defer func() {
		isKept := false
		keep := func() {
			c.keep(key, &result, &basis)
			isKept = true
		}
		// Before those who wait know: whoever loads next reserves the key anew.
		if result.err != nil {
			c.cancelLoad(key, &basis)
		}
		c.flights.finish(f, key, result.value, result.err, keep)
		if result.err == nil && !isKept {
			c.cancelLoad(key, &basis)
		}
	}()
	result.call(loader, f.ctx, key)
}

// loaded is what a loader has brought.
type loadResult struct {
	value []byte
	ttl   time.Duration
	err   error
}

// by calls a loader, whatever that does.
func (l *loadResult) call(loader Loader, ctx context.Context, key string) {
	returned := false
	defer func() {
		if !returned {
			*l = loadResult{err: &PanicError{recover(), debug.Stack()}}
		}
	}()
	l.value, l.ttl, l.err = loader(ctx, key)
	returned = true
}

// keep stores what was loaded, unless any process changed the key since the load began. What the cache does not take is
// given to the callers all the same, and counted as refused.
func (c *Cache) keep(key string, result *loadResult, basis *loadBasis) {
	ttl := result.ttl
	if ttl < 0 {
		c.cancelLoad(key, basis)
		return
	}
	if ttl > 0 {
		ttl = whole(ttl) + whole(c.options.StaleFor)
	}
	// A result that is not stored is loaded again by the next caller.
	_ = c.endLoad(key, basis, result.value, ttl)
}

// loading is a load in whose loader a context is, and that in whose loader it was begun.
type loading struct {
	cache  *Cache
	key    string
	parent *loading
}

type loadingKey struct{}

func isLoading(ctx context.Context, c *Cache, key string) bool {
	at, _ := ctx.Value(loadingKey{}).(*loading)
	for ; at != nil; at = at.parent {
		if at.cache == c && at.key == key {
			return true
		}
	}
	return false
}
