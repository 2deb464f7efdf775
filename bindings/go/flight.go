//go:build linux && cgo

package larder

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
)

// flights are the loads that are under way.
type flights struct {
	// How many there are: changes look at nothing else while there are none.
	count atomic.Int64
	lock  sync.Mutex
	byKey map[string]*flight
}

// flight is a load, and those who wait for it.
type flight struct {
	flights *flights
	key     string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	// The end of the cache ends it too.
	unlink func() bool
	// Closed when value and err are there.
	done  chan struct{}
	value []byte
	err   error
	// Under the lock: how many wait, and whether it goes on without any.
	waiting int
	refresh bool
}

// board joins the load of a key, or begins one.
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

// wait gives a copy of what the load brings, or why there is none for this caller.
func (f *flight) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		f.leave()
		return nil, ctx.Err()
	case <-f.ctx.Done():
		// The context of one that has landed ends too.
		if f.isDone() {
			break
		}
		// It goes on without anybody, if its loader does not listen; whoever comes next loads anew.
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

// leave counts one out who does not wait any more; a load that nobody waits for is ended.
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

// land stores what a load has brought, unless something happened to its key meanwhile, and gives it to those who wait.
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

// drop takes a load from the board.
func (s *flights) drop(f *flight) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.remove(f)
}

// remove does so under the lock.
func (s *flights) remove(f *flight) {
	if s.byKey[f.key] == f {
		delete(s.byKey, f.key)
		s.count.Add(-1)
	}
}

// detach takes the load of a key from the board: what it brings will not be stored, for the key is being changed.
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

// detachPrefix does so for all keys that begin with prefix.
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
