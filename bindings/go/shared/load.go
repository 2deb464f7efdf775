//go:build linux && cgo

package shared

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Loader returns the value of a key that is not in the cache, and its time to live; 0 means that it
// does not expire. Its context has the values of the first caller's context, but not its end: it
// ends after [Options.LoadTimeout], when the last waiting caller leaves, and when the cache is
// closed.
type Loader func(ctx context.Context, key string) (value []byte, ttl time.Duration, err error)

// ErrLoadTimeout means that a load exceeded [Options.LoadTimeout].
var ErrLoadTimeout = errors.New("larder: the load exceeded Options.LoadTimeout")

// PanicError is the error that all callers of a load get if its loader panics.
type PanicError struct {
	// Value is the value of the panic; nil if the loader called [runtime.Goexit].
	Value any
	// Stack is the stack trace of the panic.
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("larder: the loader panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// GetOrLoad returns the value of a key. If there is no item, it calls loader and stores the result.
//
// All goroutines of this process that request a key at the same time share one load, which runs in
// a goroutine of its own, and each gets a copy of the value, or the error. Errors are not stored.
// No caller waits while there is a value: with [Options.StaleFor] and [Options.RefreshBefore]
// callers get the value during a refresh, and after a failed refresh the next caller tries again.
// The end of one caller's context does not cancel the load for the others.
//
// The result is stored only if the key has not changed since the load began. A set, a delete or any
// other change, by this process or by another one that shares the cache, takes precedence: the
// waiting callers get the loaded value, and the next caller loads again. An eviction, or a move of
// an item without a token, may also prevent the store. A load reserves a key without an item, which
// takes the memory of a small item until the load ends.
//
// A connected cache does not detect that another client stores or deletes an absent key during the
// load and undoes it before the load ends.
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

// isFresh reports whether an item does not need a refresh yet.
func (c *Cache) isFresh(item Item) bool {
	return item.TTL == 0 || item.TTL > whole(c.options.StaleFor)+whole(c.options.RefreshBefore)
}

// whole rounds a duration up to whole seconds.
func whole(d time.Duration) time.Duration {
	return (max(d, 0) + time.Second - 1).Truncate(time.Second)
}

// run executes the load, in a goroutine of its own.
func (f *flight) run(c *Cache, key string, loader Loader) {
	defer f.release()
	// Record the state of the key before reading it, so that every later change is detected.
	basis := c.beginLoad(key)
	held, item, err := c.GetInto(nil, key)
	switch {
	case err == nil && c.isFresh(item):
		// Another load has ended since the caller read the key.
		c.flights.finish(f, key, held, nil, func() {})
		return
	case err != nil && !errors.Is(err, ErrNotFound):
		c.cancelLoad(key, &basis)
		c.flights.finish(f, key, nil, err, func() {})
		return
	}
	basis.item, basis.found = item, err == nil
	// Deferred, because a loader that calls runtime.Goexit ends this function too.
	var result loadResult
	defer func() {
		isKept := false
		keep := func() {
			c.keep(key, &result, &basis)
			isKept = true
		}
		// Release the reservation before the callers wake up: the next load reserves the key again.
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

// loadResult holds the results of a loader.
type loadResult struct {
	value []byte
	ttl   time.Duration
	err   error
}

// call runs a loader and converts a panic or an exit into an error.
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

// keep stores the loaded value, unless any process has changed the key since the load began.
// Callers also get a value that the cache does not accept, which is counted as refused.
func (c *Cache) keep(key string, result *loadResult, basis *loadBasis) {
	ttl := result.ttl
	if ttl < 0 {
		c.cancelLoad(key, basis)
		return
	}
	if ttl > 0 {
		ttl = whole(ttl) + whole(c.options.StaleFor)
	}
	// If the result is not stored, the next caller loads again.
	_ = c.endLoad(key, basis, result.value, ttl)
}

// loading is the load that a context belongs to, and the load whose loader started it.
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
