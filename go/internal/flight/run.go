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
	// Finish the load in a deferred function, because a loader that calls runtime.Goexit also ends
	// this function.
	var result result
	defer func() {
		isKept := false
		keep := func() {
			attempt.Keep(result.value, result.ttl, f.isCurrent)
			isKept = true
		}
		// After an error, release the reservation before finish wakes the callers: a caller may start the
		// next load immediately, which must be able to reserve the key.
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

// call runs a loader. It converts a panic, and a call of runtime.Goexit, into an error.
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

// loading is stored in the context that a loader receives: the load of this loader and, as parent,
// the load whose loader has started it.
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
