package bigcache

import (
	"context"
	"errors"
	"sync"
	"time"

	"larder"
)

// Errors, with the words that they have in BigCache.
var (
	// ErrEntryNotFound says that there is no entry for the key.
	ErrEntryNotFound = errors.New("Entry not found")
	// ErrEntryTooBig says that an entry is longer than the cache takes. BigCache has the words, not the name.
	ErrEntryTooBig = errors.New("entry is bigger than max shard size")
)

// Response is what is known of an entry that was got.
type Response struct {
	// EntryStatus is 0: an entry that has expired is not got.
	EntryStatus RemoveReason
}

// BigCache is a cache. Its methods may be called by any number of goroutines.
type BigCache struct {
	cache    *larder.Cache
	config   Config
	life     time.Duration
	memory   memory
	counters counters
	requests *requests

	closed    chan struct{}
	closeOnce sync.Once
	// Has the end of the context close it no more.
	stopWatching func() bool
}

// NewBigCache is New with a context that never ends.
//
// Deprecated: use New.
func NewBigCache(config Config) (*BigCache, error) {
	return New(context.Background(), config)
}

// New opens a cache, which is closed when the context ends. An error names the field that is wrong, or is
// [larder.ErrNotOpened].
func New(ctx context.Context, config Config) (*BigCache, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Hasher == nil {
		config.Hasher = newDefaultHasher()
	}
	c := &BigCache{config: config, life: config.life(), closed: make(chan struct{})}
	if config.StatsEnabled {
		c.requests = newRequests(c.Len)
	}
	options := memoryOptions(&config)
	if config.hasCallback() {
		options.OnRemoval = c.onRemoval
	}
	cache, err := larder.Open(options)
	if err != nil {
		return nil, err
	}
	c.cache = cache
	c.memory.max = options.MemoryMax
	c.memory.limit.Store(options.Memory)
	if config.CleanWindow > 0 {
		go c.clean()
	}
	c.stopWatching = context.AfterFunc(ctx, func() { _ = c.end() })
	return c, nil
}

// clean cleans up what has expired, until the cache is closed.
func (c *BigCache) clean() {
	ticker := time.NewTicker(max(c.config.CleanWindow, time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-ticker.C:
			_ = c.cache.Maintain()
		}
	}
}

// Close gives the memory back. Closing a closed cache does nothing.
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

// Get gives a copy of the entry of a key, or ErrEntryNotFound.
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

// missing is why there is no entry.
func (c *BigCache) notFoundError() error {
	if c.isClosed() {
		return larder.ErrClosed
	}
	return ErrEntryNotFound
}

// GetWithInfo is Get.
func (c *BigCache) GetWithInfo(key string) ([]byte, Response, error) {
	entry, err := c.Get(key)
	return entry, Response{}, err
}

// Set stores a copy of an entry. Where it fails, with ErrEntryTooBig, there is no entry for the key any more.
func (c *BigCache) Set(key string, entry []byte) error {
	name, framed := nameOf(key)
	if framed {
		entry = frame(key, entry)
	}
	return c.memory.store(c.cache, func() error { return c.cache.Set(name, entry, c.life) })
}

// Append puts bytes behind an entry, or stores them where there is none. The entry lives for a LifeWindow from then on. Where
// it would become too big, the error is ErrEntryTooBig, and it stays as it was.
func (c *BigCache) Append(key string, entry []byte) error {
	name, framed := nameOf(key)
	whole := entry
	if framed {
		whole = frame(key, entry)
	}
	return c.memory.store(c.cache, func() error {
		for {
			if done, err := c.cache.Append(name, entry); err != nil {
				return err
			} else if done {
				return c.renew(name)
			}
			if done, err := c.cache.Add(name, whole, c.life); err != nil || done {
				return err
			}
			// Somebody else has stored one in between.
		}
	})
}

// renew has an entry live for another LifeWindow, if it has not been removed.
func (c *BigCache) renew(name string) error {
	if c.life == 0 {
		return nil
	}
	_, err := c.cache.Touch(name, c.life)
	return err
}

// Delete removes the entry of a key, or says ErrEntryNotFound.
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

// Reset removes all entries, of which no callback is told.
func (c *BigCache) Reset() error {
	c.requests.reset()
	if err := c.cache.Clear(); err != nil {
		return err
	}
	// Until then they are counted.
	return c.cache.Maintain()
}
