package flight

import (
	"context"
	"runtime/debug"
	"time"
)

// run executes the load. It runs in a separate goroutine.
func (f *flight) run(loader Loader) {
	defer f.release()
	attempt, value, err := f.group.cache.BeginLoad(f.key)
	if attempt == nil {
		f.finish(value, err, func() {})
		return
	}
	// Deferred, because a loader that calls runtime.Goexit ends this function too.
	var result result
	defer func() {
		isKept := false
		keep := func() {
			attempt.Keep(result.value, result.ttl, f.isCurrent)
			isKept = true
		}
		// Release the reservation before the callers wake up: the next load reserves the key again.
		if result.err != nil {
			attempt.Cancel()
		}
		f.finish(result.value, result.err, keep)
		if result.err == nil && !isKept {
			attempt.Cancel()
		}
	}()
	result.call(f, loader)
}

// result holds the results of a loader.
type result struct {
	value []byte
	ttl   time.Duration
	err   error
}

// call runs a loader and converts a panic or an exit into an error.
func (r *result) call(f *flight, loader Loader) {
	returned := false
	defer func() {
		if !returned {
			*r = result{err: f.group.config.Panicked(recover(), debug.Stack())}
		}
	}()
	r.value, r.ttl, r.err = loader(f.ctx, f.key)
	returned = true
}

// loading is the load that a context belongs to, and the load whose loader started it.
type loading struct {
	group  *Group
	key    string
	parent *loading
	flight *flight
}

type loadingKey struct{}

func (g *Group) isLoading(ctx context.Context, key string) bool {
	at, _ := ctx.Value(loadingKey{}).(*loading)
	for ; at != nil; at = at.parent {
		if at.group == g && at.key == key {
			return true
		}
	}
	return false
}
