//go:build linux && cgo

package shared

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
)

// flights are the loads in flight, by key.
type flights struct {
	// The number of loads. Changes of a key do not take the lock while it is 0.
	count atomic.Int64
	lock  sync.Mutex
	byKey map[string]*flight
}

// flight is one load, which any number of callers wait for.
type flight struct {
	flights *flights
	key     string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	// Stops the timeout of the load and detaches it from the context of the cache.
	unlink func() bool
	// Closed after value and err are set.
	done  chan struct{}
	value []byte
	err   error
	// Guarded by the lock: the number of callers that wait, and whether the load is a refresh,
	// which continues without callers.
	waiting int
	refresh bool
}

// join returns the load of a key and starts one if there is none. A refresh is not counted as a
// waiting caller.
func (s *flights) join(ctx context.Context, c *Cache, key string, loader Loader, refresh bool) *flight {
	s.lock.Lock()
	defer s.lock.Unlock()
	f := s.byKey[key]
	if f == nil {
		f = s.start(ctx, c, key)
		f.refresh = refresh
		go f.run(c, f.key, loader)
	}
	if !refresh {
		f.waiting++
	}
	return f
}

func (s *flights) start(ctx context.Context, c *Cache, key string) *flight {
	key = strings.Clone(key)
	parent, _ := ctx.Value(loadingKey{}).(*loading)
	ctx = context.WithValue(context.WithoutCancel(ctx), loadingKey{}, &loading{c, key, parent})
	ctx, stopTimer := context.WithTimeoutCause(ctx, c.options.LoadTimeout, ErrLoadTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	f := &flight{flights: s, key: key, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	stopWatch := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	f.unlink = func() bool { stopTimer(); return stopWatch() }
	if s.byKey == nil {
		s.byKey = make(map[string]*flight)
	}
	s.byKey[key] = f
	s.count.Add(1)
	return f
}

// wait blocks until the load ends and returns a copy of its value. It returns early with the error
// of ctx, or with the cause that ended the load.
func (f *flight) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		f.leave()
		return nil, ctx.Err()
	case <-f.ctx.Done():
		// The context of a finished load ends too.
		if f.isDone() {
			break
		}
		// A loader that ignores its context continues in the background. The next caller starts
		// another load.
		f.flights.drop(f)
		return nil, context.Cause(f.ctx)
	}
	if f.err != nil {
		return nil, f.err
	}
	return append([]byte{}, f.value...), nil
}

func (f *flight) isDone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// leave removes a waiting caller and cancels a load without callers, unless it is a refresh.
func (f *flight) leave() {
	f.flights.lock.Lock()
	defer f.flights.lock.Unlock()
	f.waiting--
	if f.waiting == 0 && !f.refresh {
		f.flights.remove(f)
		f.cancel(context.Canceled)
	}
}

func (f *flight) release() {
	f.unlink()
	f.cancel(nil)
}

// finish ends a load: it calls keep to store the value if the load succeeded and its key has not
// changed, then wakes the callers.
func (s *flights) finish(f *flight, key string, value []byte, err error, keep func()) {
	s.lock.Lock()
	if s.byKey[key] == f {
		if err == nil && f.ctx.Err() == nil {
			keep()
		}
		s.remove(f)
	}
	s.lock.Unlock()
	f.value, f.err = value, err
	close(f.done)
}

// drop removes a load from the map, so that the next caller starts another one.
func (s *flights) drop(f *flight) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.remove(f)
}

// remove is drop with the lock held.
func (s *flights) remove(f *flight) {
	if s.byKey[f.key] == f {
		delete(s.byKey, f.key)
		s.count.Add(-1)
	}
}

// forget removes the load of a key that is about to change, so that its result is not stored.
func (s *flights) forget(key string) {
	if s.count.Load() == 0 {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if f := s.byKey[key]; f != nil {
		s.remove(f)
	}
}

// forgetPrefix does the same for all keys that begin with prefix.
func (s *flights) forgetPrefix(prefix string) {
	if s.count.Load() == 0 {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for key, f := range s.byKey {
		if strings.HasPrefix(key, prefix) {
			s.remove(f)
		}
	}
}
