package bigcache

import (
	"sync/atomic"

	"larder"
)

// Stats are statistics, from New or ResetStats on.
type Stats struct {
	// Hits and Misses of Get and GetWithInfo.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	// DelHits and DelMisses are deletions of what was there and what was not.
	DelHits   int64 `json:"delete_hits"`
	DelMisses int64 `json:"delete_misses"`
	// Collisions is always 0.
	Collisions int64 `json:"collisions"`
}

// counters are what the statistics are made of, beside those of the cache.
type counters struct {
	delHits, delMisses atomic.Int64
	// What the cache counts and is not told: reads of iterators, and all before ResetStats.
	excludedHits, excludedMisses atomic.Uint64
}

// Stats tells the statistics, in some microseconds. Of a closed cache there are none.
func (c *BigCache) Stats() Stats {
	if c.isClosed() {
		return Stats{}
	}
	// First those that are taken away, so that none of them is taken away uncounted.
	hits, misses := c.counters.excludedHits.Load(), c.counters.excludedMisses.Load()
	stats := c.cache.Stats()
	return Stats{
		Hits:      max(int64(stats.Hits-hits), 0),
		Misses:    max(int64(stats.Misses-misses), 0),
		DelHits:   c.counters.delHits.Load(),
		DelMisses: c.counters.delMisses.Load(),
	}
}

// ResetStats has the statistics begin anew, but for the request counts of the keys.
func (c *BigCache) ResetStats() error {
	if c.isClosed() {
		return larder.ErrClosed
	}
	stats := c.cache.Stats()
	c.counters.excludedHits.Store(stats.Hits)
	c.counters.excludedMisses.Store(stats.Misses)
	c.counters.delHits.Store(0)
	c.counters.delMisses.Store(0)
	return nil
}

// Metadata is what is known of a key.
type Metadata struct {
	// RequestCount is how often the entry was got, with StatsEnabled.
	RequestCount uint32
}

// KeyMetadata tells how often the entry of a key was got, with StatsEnabled.
func (c *BigCache) KeyMetadata(key string) Metadata {
	name, _ := nameOf(key)
	// Who was removed may not have been told yet.
	if c.requests == nil || !c.cache.Contains(name) {
		return Metadata{}
	}
	return Metadata{RequestCount: c.requests.get(name)}
}

// Len is the number of entries; those that have expired count until they are cleaned up.
func (c *BigCache) Len() int { return c.cache.Len() }

// Capacity is the memory that is in use, in bytes.
func (c *BigCache) Capacity() int { return int(c.cache.Stats().MemoryUsed) }
