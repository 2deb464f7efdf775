// Package bigcache has the exported API of BigCache v3 on a Larder cache, for programs that want to change an import and
// nothing else.
//
// What is better: the memory limit is one for all that the cache takes; entries that are overwritten or deleted give their
// memory back; what is evicted is what is wanted least, one entry at a time; an expired entry is never got; two keys never
// share an entry; callbacks may use the cache; Close may be called twice.
//
// What is other: callbacks are called shortly after the removal, by a goroutine of the cache's own, and get no entry longer
// than 16 KiB; a CleanWindow is a second at least; GetWithInfo never says Expired, for what has is not there any more;
// Stats has no collisions.
package bigcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"larder"
)

// Errors, by the names that they have in BigCache.
var (
	// ErrEntryNotFound says that there is no entry for the key.
	ErrEntryNotFound = errors.New("Entry not found")
	// ErrEntryTooBig says that an entry is longer than the cache takes. BigCache has the text, not the name.
	ErrEntryTooBig = errors.New("entry is bigger than max shard size")
)

// RemoveReason says why an entry was removed.
type RemoveReason uint32

// The reasons.
const (
	// Expired: its LifeWindow was over.
	Expired = RemoveReason(1)
	// NoSpace: its memory was needed.
	NoSpace = RemoveReason(2)
	// Deleted by Delete.
	Deleted = RemoveReason(3)
)

// Response is what is known of an entry that was got.
type Response struct {
	EntryStatus RemoveReason
}

// Metadata is what is known of a key.
type Metadata struct {
	// RequestCount is how often the entry was got, with StatsEnabled.
	RequestCount uint32
}

// Stats are statistics.
type Stats struct {
	Hits       int64 `json:"hits"`
	Misses     int64 `json:"misses"`
	DelHits    int64 `json:"delete_hits"`
	DelMisses  int64 `json:"delete_misses"`
	Collisions int64 `json:"collisions"`
}

// BigCache is a cache.
type BigCache struct {
	cache     *larder.Cache
	config    Config
	memoryMax int64
	// Held while the memory grows.
	growing sync.Mutex
	memory  atomic.Int64

	requests            requests
	delHits, delMisses  atomic.Int64
	hitsBase, missBase  atomic.Uint64
	closed              chan struct{}
	closeOnce           sync.Once
	stopWatchingContext func() bool
}

// NewBigCache is New with a context that never ends.
//
// Deprecated: use New.
func NewBigCache(config Config) (*BigCache, error) {
	return New(context.Background(), config)
}

// New opens a cache, which is closed when the context ends.
func New(ctx context.Context, config Config) (*BigCache, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Hasher == nil {
		config.Hasher = newDefaultHasher()
	}
	c := &BigCache{config: config, closed: make(chan struct{})}
	options, memoryMax := sizes(&config)
	if config.calls() || config.StatsEnabled {
		options.OnRemoval = c.removed
	}
	cache, err := larder.Open(options)
	if err != nil {
		return nil, err
	}
	c.cache, c.memoryMax = cache, memoryMax
	c.memory.Store(options.Memory)
	if config.CleanWindow > 0 {
		go c.clean()
	}
	c.stopWatchingContext = context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, nil
}

func (c *Config) calls() bool {
	return c.OnRemove != nil || c.OnRemoveWithMetadata != nil || c.OnRemoveWithReason != nil
}

// clean cleans up what has expired.
func (c *BigCache) clean() {
	ticker := time.NewTicker(c.config.CleanWindow)
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

// Close gives the memory back. Closing twice does nothing.
func (c *BigCache) Close() error {
	var err error
	c.closeOnce.Do(func() {
		close(c.closed)
		c.stopWatchingContext()
		err = c.cache.Close()
	})
	return err
}

// Get gives the entry of a key, or ErrEntryNotFound.
func (c *BigCache) Get(key string) ([]byte, error) {
	name, framed := nameOf(key)
	value, _, err := c.cache.GetInto(nil, name)
	if err == nil && framed {
		value, err = unframe(value, key)
	}
	if err != nil {
		return nil, named(err)
	}
	if value == nil {
		value = []byte{}
	}
	c.requests.count(c, key)
	return value, nil
}

// GetWithInfo is Get.
func (c *BigCache) GetWithInfo(key string) ([]byte, Response, error) {
	entry, err := c.Get(key)
	return entry, Response{}, err
}

// Set stores an entry.
func (c *BigCache) Set(key string, entry []byte) error {
	name, framed := nameOf(key)
	if framed {
		entry = frame(key, entry)
	}
	return c.store(func() error { return c.cache.Set(name, entry, c.config.LifeWindow) })
}

// Append puts bytes behind an entry, or stores them where there is none. The entry keeps its time.
func (c *BigCache) Append(key string, entry []byte) error {
	name, framed := nameOf(key)
	for {
		var done bool
		err := c.store(func() (err error) {
			done, err = c.cache.Append(name, entry)
			return err
		})
		if err != nil || done {
			return err
		}
		whole := entry
		if framed {
			whole = frame(key, entry)
		}
		err = c.store(func() (err error) {
			done, err = c.cache.Add(name, whole, c.config.LifeWindow)
			return err
		})
		if err != nil || done {
			return err
		}
		// Somebody else has stored one in between.
	}
}

// store stores, with more memory where that is what it takes.
func (c *BigCache) store(do func() error) error {
	for {
		memory := c.memory.Load()
		err := do()
		if errors.Is(err, larder.ErrNoMemory) && c.grow(memory) {
			continue
		}
		return named(err)
	}
}

// grow raises the limit, if it is still what it was; false where it has reached its end.
func (c *BigCache) grow(seen int64) bool {
	c.growing.Lock()
	defer c.growing.Unlock()
	memory := c.memory.Load()
	if memory != seen {
		return true
	}
	next := min(memory+memory/2, c.memoryMax)
	if next <= memory || c.cache.SetMemory(next) != nil {
		return false
	}
	c.memory.Store(next)
	return true
}

// Delete removes the entry of a key, or says ErrEntryNotFound.
func (c *BigCache) Delete(key string) error {
	name, _ := nameOf(key)
	done, err := c.cache.Delete(name)
	switch {
	case err != nil:
		return named(err)
	case !done:
		c.delMisses.Add(1)
		return ErrEntryNotFound
	}
	c.delHits.Add(1)
	c.requests.forget(c, key)
	return nil
}

// Reset removes all entries.
func (c *BigCache) Reset() error {
	c.requests.reset()
	if err := c.cache.Clear(); err != nil {
		return err
	}
	// Until then they are counted.
	return c.cache.Maintain()
}

// ResetStats has the statistics begin anew.
func (c *BigCache) ResetStats() error {
	stats := c.cache.Stats()
	c.hitsBase.Store(stats.Hits)
	c.missBase.Store(stats.Misses)
	c.delHits.Store(0)
	c.delMisses.Store(0)
	c.requests.reset()
	return nil
}

// Len is the number of entries; those that have expired count until they are cleaned up.
func (c *BigCache) Len() int { return c.cache.Len() }

// Capacity is the memory that is taken, in bytes.
func (c *BigCache) Capacity() int { return int(c.cache.Stats().MemoryUsed) }

// Stats tells the statistics.
func (c *BigCache) Stats() Stats {
	stats := c.cache.Stats()
	return Stats{
		Hits:      int64(stats.Hits - c.hitsBase.Load()),
		Misses:    int64(stats.Misses - c.missBase.Load()),
		DelHits:   c.delHits.Load(),
		DelMisses: c.delMisses.Load(),
	}
}

// KeyMetadata tells how often a key was requested, with StatsEnabled.
func (c *BigCache) KeyMetadata(key string) Metadata {
	return Metadata{RequestCount: c.requests.of(c, key)}
}

// removed hears of all that leaves the cache.
func (c *BigCache) removed(removal larder.Removal) {
	reason, is := map[larder.Reason]RemoveReason{
		larder.Expired: Expired, larder.Evicted: NoSpace, larder.Deleted: Deleted,
	}[removal.Reason]
	if !is {
		// BigCache calls nobody for what is overwritten or reset.
		return
	}
	key, entry := removal.Key, removal.Value
	if isFramed(key) {
		var ok bool
		if key, entry, ok = open(entry); !ok {
			return
		}
	}
	switch {
	case c.config.OnRemoveWithMetadata != nil:
		c.config.OnRemoveWithMetadata(key, entry, c.KeyMetadata(key))
	case c.config.OnRemove != nil:
		c.config.OnRemove(key, entry)
	case c.config.OnRemoveWithReason != nil:
		if c.config.filter == 0 || c.config.filter&(1<<uint(reason)) != 0 {
			c.config.OnRemoveWithReason(key, entry, reason)
		}
	}
	c.requests.forget(c, key)
}

// named is an error of the cache's as BigCache has it.
func named(err error) error {
	switch {
	case errors.Is(err, larder.ErrNotFound):
		return ErrEntryNotFound
	case errors.Is(err, larder.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrEntryTooBig, err)
	}
	return err
}
