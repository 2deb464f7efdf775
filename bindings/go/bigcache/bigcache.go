package bigcache

import (
	"context"
	"errors"
	"sync"
	"time"

	"larder.example/larder"
)

// Errors, with BigCache's texts.
var (
	// ErrEntryNotFound means that there is no entry for the key.
	ErrEntryNotFound = errors.New("Entry not found")
	// ErrEntryTooBig means that an entry exceeds the limit. BigCache has the text, but no name for
	// it.
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
	life     time.Duration
	counters counters
	requests *requests

	closed    chan struct{}
	closeOnce sync.Once
	// Detaches the cache from the end of the context.
	stopWatching func() bool
}

// NewBigCache is New with a context that does not end.
//
// Deprecated: use New.
func NewBigCache(config Config) (*BigCache, error) {
	return New(context.Background(), config)
}

// New opens a cache that is closed when the context ends. An error names the invalid field, or is
// [larder.ErrNotOpened].
func New(ctx context.Context, config Config) (*BigCache, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Hasher == nil {
		config.Hasher = newDefaultHasher()
	}
	c := &BigCache{config: config, life: config.LifeWindow, closed: make(chan struct{})}
	if config.StatsEnabled {
		c.requests = newRequests(c.Len)
	}
	options := memoryOptions(&config)
	if config.CleanWindow > 0 {
		options.Sweep = max(config.CleanWindow, time.Second)
	}
	if config.hasCallback() {
		options.OnRemove = c.onRemove
	}
	cache, err := larder.Open(options)
	if err != nil {
		return nil, err
	}
	c.cache = cache
	c.stopWatching = context.AfterFunc(ctx, func() { _ = c.end() })
	return c, nil
}

// Close releases the memory. Closing a closed cache has no effect.
func (c *BigCache) Close() error {
	c.stopWatching()
	return c.end()
}

func (c *BigCache) end() (err error) {
	c.closeOnce.Do(func() {
		close(c.closed)
		err = c.cache.Close()
	})
	return err
}

func (c *BigCache) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Get returns a copy of the entry of a key, or ErrEntryNotFound.
func (c *BigCache) Get(key string) ([]byte, error) {
	name, framed := nameOf(key)
	entry, ok := c.cache.Get(name)
	if ok && framed {
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
	if c.isClosed() {
		return larder.ErrClosed
	}
	return ErrEntryNotFound
}

// GetWithInfo is Get with an empty Response.
func (c *BigCache) GetWithInfo(key string) ([]byte, Response, error) {
	entry, err := c.Get(key)
	return entry, Response{}, err
}

// Set stores a copy of an entry. If it fails with ErrEntryTooBig, the previous entry of the key is
// gone.
func (c *BigCache) Set(key string, entry []byte) error {
	name, framed := nameOf(key)
	if framed {
		entry = frame(key, entry)
	}
	return storeError(c.cache.Set(name, entry, c.life))
}

// Append adds bytes to the end of an entry, or stores them if there is none. The entry then lives
// for another LifeWindow. If it would be too big, Append returns ErrEntryTooBig and does not change
// it.
func (c *BigCache) Append(key string, entry []byte) error {
	name, framed := nameOf(key)
	whole := entry
	if framed {
		whole = frame(key, entry)
	}
	for {
		if done, err := c.cache.Append(name, entry); err != nil {
			return storeError(err)
		} else if done {
			return c.renew(name)
		}
		if done, err := c.cache.Add(name, whole, c.life); err != nil || done {
			return storeError(err)
		}
		// Another goroutine has stored an entry meanwhile.
	}
}

// storeError converts the error of a store.
func storeError(err error) error {
	if errors.Is(err, larder.ErrTooLarge) {
		return ErrEntryTooBig
	}
	return err
}

// renew extends the life of an entry by a LifeWindow, if the entry exists.
func (c *BigCache) renew(name string) error {
	if c.life == 0 {
		return nil
	}
	_, err := c.cache.Touch(name, c.life)
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
