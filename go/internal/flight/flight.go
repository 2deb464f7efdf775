// Package flight runs the loaders of caches: all callers that request the value of a key at the
// same time share one load. A change of the key during the load takes precedence over its result.
package flight

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Loader returns the value of a key and its time to live.
type Loader = func(ctx context.Context, key string) (value []byte, ttl time.Duration, err error)

// Cache is a cache that loads its values.
type Cache interface {
	// BeginLoad records the state of a key before its loader runs. It returns no attempt if nothing
	// needs to be loaded. Then the load ends with the value, which another load has stored since the
	// caller read the key, or with the error.
	BeginLoad(key string) (attempt Attempt, value []byte, err error)
}

// Attempt is the part of a load that its cache implements. One of the two methods is called, once.
type Attempt interface {
	// Keep stores the loaded value if the key has not changed since BeginLoad. isCurrent returns
	// false after a change has begun; see Config.Waits.
	Keep(value []byte, ttl time.Duration, isCurrent func() bool)
	// Cancel releases the reservation that BeginLoad has made.
	Cancel()
}

// Config describes the loads of a cache.
type Config struct {
	// Timeout limits the duration of a load.
	Timeout time.Duration
	// Waits makes changes of a key wait while Keep stores its value. Without it, Keep must call
	// isCurrent and store in the same critical section. A cache that runs callbacks in its stores
	// must not set Waits, because the callbacks may change the key.
	Waits bool
	// ErrTimeout is the error of a load that exceeds the timeout. ErrClosed is the error of a load
	// that the end of the cache ends. ErrRecursive is the error of a load whose loader requests its
	// own key, or a key whose load waits for it.
	ErrTimeout, ErrClosed, ErrRecursive error
	// Panicked returns the error of a loader that has panicked; value is nil after runtime.Goexit.
	Panicked func(value any, stack []byte) error
}

// Group are the loads in flight of one cache, by key.
type Group struct {
	cache  Cache
	config Config
	// Ends when the cache is closed.
	ctx context.Context
	end context.CancelFunc
	// The number of loads. Changes of a key do not take the lock while it is 0.
	count atomic.Int64
	lock  sync.Mutex
	byKey map[string]*flight
}

// NewGroup returns a group without loads for a cache.
func NewGroup(cache Cache, config Config) *Group {
	g := &Group{cache: cache, config: config, byKey: make(map[string]*flight)}
	g.ctx, g.end = context.WithCancel(context.Background())
	return g
}

// Close ends all loads. Later loads end as soon as they begin.
func (g *Group) Close() { g.end() }

// Context returns a context that ends when the group is closed.
func (g *Group) Context() context.Context { return g.ctx }

// Load returns the result of the load of a key, and starts the load if it is not running. The value
// is a copy.
func (g *Group) Load(ctx context.Context, key string, loader Loader) ([]byte, error) {
	if g.isLoading(ctx, key) {
		return nil, g.config.ErrRecursive
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, isLoaded := g.join(ctx, key, loader, false)
	if isLoaded {
		return append([]byte{}, f.value...), nil
	}
	return f.wait(ctx)
}

// Refresh starts a load of a key, unless it is already running. It does not wait.
func (g *Group) Refresh(ctx context.Context, key string, loader Loader) {
	if !g.isLoading(ctx, key) {
		g.join(ctx, key, loader, true)
	}
}

// Forget prevents the load in flight of a key from storing its result. A cache calls it before each
// change of the key. Without loads in flight it costs one atomic load.
func (g *Group) Forget(key string) {
	if g.count.Load() != 0 {
		g.forget(key)
	}
}

func (g *Group) forget(key string) {
	g.lock.Lock()
	f := g.byKey[key]
	g.abandon(f)
	g.lock.Unlock()
	g.wait(f)
}

// ForgetPrefix is like Forget, for all keys that begin with prefix.
func (g *Group) ForgetPrefix(prefix string) {
	if g.count.Load() == 0 {
		return
	}
	var affected []*flight
	g.lock.Lock()
	for key, f := range g.byKey {
		if strings.HasPrefix(key, prefix) {
			g.abandon(f)
			affected = append(affected, f)
		}
	}
	g.lock.Unlock()
	for _, f := range affected {
		g.wait(f)
	}
}

// abandon prevents a load, which may be nil, from storing its result, unless the store has begun.
// The caller holds the lock.
func (g *Group) abandon(f *flight) {
	switch {
	case f == nil:
	case f.kept == nil:
		g.remove(f)
	default:
		f.isChanged.Store(true)
	}
}

// wait waits until a load has stored its result, if the store has begun and Config.Waits is set.
func (g *Group) wait(f *flight) {
	if f != nil && f.kept != nil && g.config.Waits {
		<-f.kept
	}
}

// Loads returns the number of loads whose results may still be stored.
func (g *Group) Loads() int { return int(g.count.Load()) }

// Waiting returns the number of callers that wait for the load of a key.
func (g *Group) Waiting(key string) int {
	g.lock.Lock()
	defer g.lock.Unlock()
	if f := g.byKey[key]; f != nil {
		return f.waiting
	}
	return 0
}

// flight is one load, which any number of callers wait for.
type flight struct {
	group  *Group
	key    string
	ctx    context.Context
	cancel context.CancelCauseFunc
	// Stops the timeout of the load and detaches it from the context of the group.
	unlink func() bool
	// Closed at the end of the load. Value and err are set before the store begins.
	done  chan struct{}
	value []byte
	err   error
	// Guarded by the lock: the number of callers that wait, and whether the load is a refresh,
	// which continues without callers.
	waiting int
	refresh bool
	// Guarded by the lock until it is set. It is closed when the result is stored, and nil before the
	// store begins.
	kept chan struct{}
	// True after a change of the key, or the end of the load without a store.
	isChanged atomic.Bool
}

// join returns the load of a key, and starts it if it is not running. A refresh does not count as a
// waiting caller. isLoaded is true if the load has its value and is storing it. The caller must not
// wait for the store, because the caller may be a callback of that store.
func (g *Group) join(ctx context.Context, key string, loader Loader, refresh bool) (f *flight, isLoaded bool) {
	g.lock.Lock()
	defer g.lock.Unlock()
	f = g.byKey[key]
	if f == nil {
		f = g.start(ctx, key)
		f.refresh = refresh
		go f.run(loader)
	}
	if f.kept != nil {
		return f, true
	}
	if !refresh {
		f.waiting++
	}
	return f, false
}

func (g *Group) start(ctx context.Context, key string) *flight {
	key = strings.Clone(key)
	parent, _ := ctx.Value(loadingKey{}).(*loading)
	at := &loading{group: g, key: key, parent: parent}
	ctx = context.WithValue(context.WithoutCancel(ctx), loadingKey{}, at)
	ctx, stopTimer := context.WithTimeoutCause(ctx, g.config.Timeout, g.config.ErrTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	f := &flight{group: g, key: key, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	at.flight = f
	stopWatch := context.AfterFunc(g.ctx, func() { cancel(g.config.ErrClosed) })
	f.unlink = func() bool { stopTimer(); return stopWatch() }
	g.byKey[key] = f
	g.count.Add(1)
	return f
}

// wait blocks until the load ends and returns a copy of its value. It returns early with the error
// of ctx, or with the cause that ended the load. If the load waits for the load to which ctx
// belongs, wait returns an error.
func (f *flight) wait(ctx context.Context) ([]byte, error) {
	leaveWait, isEnding := f.enterWait(ctx)
	if !isEnding {
		f.leave()
		return nil, f.group.config.ErrRecursive
	}
	defer leaveWait()
	select {
	case <-f.done:
	case <-ctx.Done():
		f.leave()
		return nil, ctx.Err()
	case <-f.ctx.Done():
		// The context of a finished load also ends.
		if f.isDone() {
			break
		}
		// A loader that ignores its context continues in the background. The next caller starts
		// another load.
		f.group.drop(f)
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
	f.group.lock.Lock()
	defer f.group.lock.Unlock()
	f.waiting--
	if f.waiting == 0 && !f.refresh && f.kept == nil {
		f.group.remove(f)
		f.cancel(context.Canceled)
	}
}

func (f *flight) release() {
	f.unlink()
	f.cancel(nil)
}

// finish ends a load: it calls keep to store the value if the load succeeded and its key has not
// changed, then wakes the callers. No lock is held during keep.
func (f *flight) finish(value []byte, err error, keep func()) {
	g := f.group
	g.lock.Lock()
	f.value, f.err = value, err
	if g.byKey[f.key] == f {
		if err == nil && f.ctx.Err() == nil {
			f.kept = make(chan struct{})
			g.lock.Unlock()
			keep()
			g.lock.Lock()
			close(f.kept)
		}
		g.remove(f)
	}
	g.lock.Unlock()
	close(f.done)
}

// drop removes a load from the map, so that the next caller starts another load, unless it is
// storing its result.
func (g *Group) drop(f *flight) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if f.kept == nil {
		g.remove(f)
	}
}

// remove removes a load from the map. The caller holds the lock.
func (g *Group) remove(f *flight) {
	f.isChanged.Store(true)
	if g.byKey[f.key] == f {
		delete(g.byKey, f.key)
		g.count.Add(-1)
	}
}

// isCurrent reports whether the key has not changed since the load began.
func (f *flight) isCurrent() bool { return !f.isChanged.Load() }
