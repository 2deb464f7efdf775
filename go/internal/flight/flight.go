// Package flight runs the loaders of caches. A load is one call of a loader, the function of the
// program that fetches the value of a key. All callers that request the value of a key at the same
// time share one load. A change of the key during the load takes precedence: the result of the load
// is then not stored.
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
	// BeginLoad records the state of a key before its loader runs. It returns no attempt in two cases,
	// in which the loader does not run: another load has stored the value since the caller read the
	// key, and BeginLoad returns that value; or BeginLoad returns an error.
	BeginLoad(key string) (attempt Attempt, value []byte, err error)
}

// Attempt is the part of a load that the cache implements: what happens to the result. After the
// loader, one of its two methods is called once.
type Attempt interface {
	// Keep stores the loaded value if the key has not changed since BeginLoad. isCurrent returns
	// false after a change has begun; see Config.Waits.
	Keep(value []byte, ttl time.Duration, isCurrent func() bool)
	// Cancel is called instead of Keep if the result must not be stored. It releases the reservation
	// (the mark that the key is being loaded) if BeginLoad has made one.
	Cancel()
}

// Config describes the loads of a cache.
type Config struct {
	// Timeout limits the duration of a load.
	Timeout time.Duration
	// Waits makes a change of a key wait while Keep is storing a loaded value for it. Without Waits
	// such a change can begin during Keep, so Keep must call isCurrent and store the value in the same
	// critical section. A cache that runs callbacks in its stores must not set Waits, because the
	// callbacks may change the key.
	Waits bool
	// ErrTimeout is the error of a load that exceeds the timeout. ErrClosed is the error of a load
	// that ends because the cache is closed. ErrRecursive is the error of a request that would never
	// end: a loader requests its own key, or a key whose load waits for the loader's own load.
	ErrTimeout, ErrClosed, ErrRecursive error
	// Panicked returns the error of a loader that has panicked; value is nil after runtime.Goexit.
	Panicked func(value any, stack []byte) error
}

// Group contains the loads in progress (in flight) of one cache, by key.
type Group struct {
	cache  Cache
	config Config
	// ctx ends when the cache is closed.
	ctx context.Context
	end context.CancelFunc
	// count is the number of loads in byKey. While it is 0, a change of a key does not need the lock.
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

// Close ends all loads. A load that begins later ends immediately.
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

// abandon is called for the load of a key that is about to change; f is nil if the key has no load.
// It prevents the load from storing its result. If the store has already begun, it only makes
// isCurrent return false. The caller holds the lock.
func (g *Group) abandon(f *flight) {
	switch {
	case f == nil:
	case f.kept == nil:
		g.remove(f)
	default:
		f.isChanged.Store(true)
	}
}

// wait is called after abandon. If the store of the result has already begun and Config.Waits is
// set, it waits until the store has ended.
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
	// unlink stops the timer of the timeout, and makes the load independent of the context of the
	// group.
	unlink func() bool
	// done is closed at the end of the load. value and err are set before the store of the value
	// begins.
	done  chan struct{}
	value []byte
	err   error
	// waiting is the number of callers that wait for the load. refresh is true if the load refreshes a
	// value that callers can still read, so that it continues without callers. Both are guarded by the
	// lock.
	waiting int
	refresh bool
	// kept is nil until the store of the result begins, and is closed when the store has ended. It is
	// guarded by the lock until it is set.
	kept chan struct{}
	// isChanged is true after a change of the key, and after the load was removed from the group.
	isChanged atomic.Bool
}

// join returns the load of a key, and starts it if it is not running. A refresh does not count as a
// waiting caller. isLoaded is true if the load already has its value and is storing it. Then the
// caller must take the value and not wait for the end of the load: the store may call a callback of
// the program, and the caller may be that callback.
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

// wait blocks until the load ends and returns a copy of its value. It returns early if ctx ends, or
// if the context of the load ends. If the caller is itself a loader (ctx then belongs to its load),
// and this load waits for that load, neither would end; wait then returns an error immediately.
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
		// The context of a load also ends when the load has finished, and select chooses at random.
		// Return the result then.
		if f.isDone() {
			break
		}
		// The loader may ignore its context and continue in the background. Drop the load, so that the
		// next caller starts another one.
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

// leave is called when a caller stops waiting early. If no callers are left, it cancels the load,
// unless the load is a refresh or is storing its result.
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

// finish ends a load. If the load has succeeded and its key has not changed, it calls keep, which
// stores the value. Then it wakes the callers. No lock is held during keep.
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

// drop removes a load from the group, so that the next caller starts another load. It does nothing
// if the load is storing its result.
func (g *Group) drop(f *flight) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if f.kept == nil {
		g.remove(f)
	}
}

// remove removes a load from the group, after which the load does not store its result. The caller
// holds the lock.
func (g *Group) remove(f *flight) {
	f.isChanged.Store(true)
	if g.byKey[f.key] == f {
		delete(g.byKey, f.key)
		g.count.Add(-1)
	}
}

// isCurrent reports whether the key has not changed since the load began.
func (f *flight) isCurrent() bool { return !f.isChanged.Load() }
