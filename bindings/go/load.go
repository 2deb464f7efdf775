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
// What a load brings is stored only if nothing else happened to the key since it began: a set, a delete or any other change
// through this Cache wins over it. Then those that waited get what it brings, and whoever comes later loads anew.
func (c *Cache) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	if len(key) == 0 || len(key) > keyBytesMax {
		return nil, ErrKey
	}
	value, item, err := c.get(key)
	if err == nil {
		if !c.isFresh(item) && !isLoading(ctx, c, key) {
			c.flights.board(ctx, c, key, loader, true)
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
	return c.flights.board(ctx, c, key, loader, false).wait(ctx)
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
	defer f.end()
	held, item, err := c.GetInto(nil, key)
	switch {
	case err == nil && c.isFresh(item):
		// Another load has come to its end since the caller looked.
		c.flights.land(f, key, held, nil, func() {})
		return
	case err != nil && !errors.Is(err, ErrNotFound):
		c.flights.land(f, key, nil, err, func() {})
		return
	}
	// Later, for a loader that ends its goroutine ends this function too.
	var brought loaded
	defer func() {
		c.flights.land(f, key, brought.value, brought.err, func() {
			c.keep(key, &brought, item, err == nil)
		})
	}()
	brought.by(loader, f.ctx, key)
}

// loaded is what a loader has brought.
type loaded struct {
	value []byte
	ttl   time.Duration
	err   error
}

// by calls a loader, whatever that does.
func (l *loaded) by(loader Loader, ctx context.Context, key string) {
	returned := false
	defer func() {
		if !returned {
			*l = loaded{err: &PanicError{recover(), debug.Stack()}}
		}
	}()
	l.value, l.ttl, l.err = loader(ctx, key)
	returned = true
}

// keep stores what was loaded, in place of the item that was there when the load began, or of none. What the cache does not
// take is given to the callers all the same, and counted as refused.
func (c *Cache) keep(key string, brought *loaded, item Item, held bool) {
	value, ttl := brought.value, brought.ttl
	if ttl < 0 {
		return
	}
	if ttl > 0 {
		ttl = whole(ttl) + whole(c.options.StaleFor)
	}
	switch {
	case !held:
		c.store(storeAdd, key, value, ttl, 0)
	case item.CAS == 0:
		c.store(storeSet, key, value, ttl, 0)
	default:
		if c.store(storeOver, key, value, ttl, item.CAS) == ErrNotFound {
			c.store(storeAdd, key, value, ttl, 0)
		}
	}
}

// loading is a load in whose loader a context is, and that in whose loader it was begun.
type loading struct {
	cache  *Cache
	key    string
	within *loading
}

type loadingKey struct{}

func isLoading(ctx context.Context, c *Cache, key string) bool {
	at, _ := ctx.Value(loadingKey{}).(*loading)
	for ; at != nil; at = at.within {
		if at.cache == c && at.key == key {
			return true
		}
	}
	return false
}
