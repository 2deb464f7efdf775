package bigcache

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"weak"

	"larder.example/larder"
)

// Errors of this package. They have the same texts as in BigCache.
var (
	// ErrEntryNotFound means that the key has no entry.
	ErrEntryNotFound = errors.New("Entry not found")
	// ErrEntryTooBig means that an entry exceeds the limit. BigCache has an error with this text, but
	// does not export it.
	ErrEntryTooBig = errors.New("entry is bigger than max shard size")
)

// Response describes an entry.
type Response struct {
	// EntryStatus is always 0: expired entries are not returned.
	EntryStatus RemoveReason
}

// BigCache is a cache. It is safe for concurrent use.
type BigCache struct {
	cache    *larder.Cache
	config   Config
	now      func() time.Time
	counters counters
	requests *requests
	closed   atomic.Bool
	// stopCleaning ends the goroutine that removes expired entries.
	stopCleaning context.CancelFunc
}

// NewBigCache is like New, with a context that does not end.
//
// Deprecated: use New.
func NewBigCache(config Config) (*BigCache, error) {
	return New(context.Background(), config)
}

// New opens a cache. When the context ends, the cache stops its regular removal of expired entries.
// It can still be used until Close, like a BigCache. It never returns an expired entry. After the
// end of the context, the callbacks report an expired entry only when a call finds it, or when its
// memory is needed. The garbage collector closes an unreachable cache, unless a callback refers to
// it. An error names the invalid field, or is [larder.ErrNotOpened].
func New(ctx context.Context, config Config) (*BigCache, error) {
	return open(ctx, config, time.Now)
}

// open is like New, with a clock that tests replace.
func open(ctx context.Context, config Config, now func() time.Time) (*BigCache, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Hasher == nil {
		config.Hasher = newDefaultHasher()
	}
	options := larder.Options{Memory: config.memory(), TTL: config.LifeWindow, Clock: now}
	c := &BigCache{config: config, now: now, stopCleaning: func() {}}
	if config.StatsEnabled {
		c.requests = newRequests()
	}
	if config.hasCallback() {
		// OnRemove must not refer to the cache c: the engine keeps the reporter reachable, and the
		// garbage collector should close an unreachable cache.
		options.OnRemove = (&reporter{config, c.requests}).onRemove
	}
	cache, err := larder.Open(options)
	if err != nil {
		return nil, err
	}
	c.cache = cache
	c.requests.countEntriesOf(cache)
	if config.CleanWindow > 0 {
		ctx, c.stopCleaning = context.WithCancel(ctx)
		go clean(ctx, c.stopCleaning, weak.Make(cache), config.CleanWindow)
	}
	return c, nil
}

// clean removes expired entries at the interval window until the context ends, and then calls done.
// It holds only a weak pointer to the cache, so that the garbage collector can close an unreachable
// cache.
func clean(ctx context.Context, done func(), cache weak.Pointer[larder.Cache], window time.Duration) {
	defer done()
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			if open := cache.Value(); open == nil || open.Maintain() != nil {
				return
			}
		}
	}
}

// Close releases the memory. Closing a closed cache has no effect.
func (c *BigCache) Close() error {
	c.stopCleaning()
	c.closed.Store(true)
	return c.cache.Close()
}

// Get returns a copy of the entry of a key, or ErrEntryNotFound.
func (c *BigCache) Get(key string) ([]byte, error) {
	name, isFramed := nameOf(key)
	entry, ok := c.cache.Get(name)
	if ok && isFramed {
		entry, ok = unframe(entry, key)
	}
	if !ok {
		return nil, c.notFoundError()
	}
	c.requests.count(name)
	return entry, nil
}

// notFoundError returns the error for an absent entry.
func (c *BigCache) notFoundError() error {
	if c.closed.Load() {
		return larder.ErrClosed
	}
	return ErrEntryNotFound
}

// GetWithInfo is like Get, and also returns an empty Response.
func (c *BigCache) GetWithInfo(key string) ([]byte, Response, error) {
	entry, err := c.Get(key)
	return entry, Response{}, err
}

// Set stores a copy of an entry. If it fails with ErrEntryTooBig, it has removed the previous entry
// of the key.
func (c *BigCache) Set(key string, entry []byte) error {
	name, isFramed := nameOf(key)
	if isFramed {
		entry = frame(key, entry)
	}
	return storeError(c.cache.Set(name, entry, 0))
}

// Append adds bytes to the end of an entry, or stores them if the key has no entry. The entry then
// lives for another LifeWindow. If it would be too big, Append returns ErrEntryTooBig and does not
// change it.
func (c *BigCache) Append(key string, entry []byte) error {
	name, isFramed := nameOf(key)
	found := false
	err := c.cache.Update(name, func(whole []byte, item *larder.Item, isFound bool) ([]byte, larder.Decision) {
		// Update may call this function several times, and the last call counts. So reset found each
		// time.
		if found = isFound; !isFound && isFramed {
			whole = frame(key, nil)
		}
		item.TTL = 0
		return append(whole, entry...), larder.StoreItem
	})
	if !c.closed.Load() {
		c.countAppend(name, found)
	}
	return storeError(err)
}

// storeError converts the error of a store.
func storeError(err error) error {
	if errors.Is(err, larder.ErrTooLarge) {
		return ErrEntryTooBig
	}
	return err
}

// Delete removes the entry of a key, or returns ErrEntryNotFound.
func (c *BigCache) Delete(key string) error {
	name, _ := nameOf(key)
	done, err := c.cache.Delete(name)
	switch {
	case err != nil:
		return err
	case !done:
		c.counters.delMisses.Add(1)
		return ErrEntryNotFound
	}
	c.counters.delHits.Add(1)
	return nil
}

// Reset removes all entries, without callbacks.
func (c *BigCache) Reset() error {
	c.requests.reset()
	return c.cache.Clear()
}
