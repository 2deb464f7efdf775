package bigcache

import (
	"sync/atomic"

	"larder.example/larder"
)

// Stats are statistics since New or ResetStats.
type Stats struct {
	// Hits and Misses count Get and GetWithInfo.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	// DelHits and DelMisses count deletions of existing and of absent entries.
	DelHits   int64 `json:"delete_hits"`
	DelMisses int64 `json:"delete_misses"`
	// Collisions is always 0.
	Collisions int64 `json:"collisions"`
}

// counters complement the statistics of the cache.
type counters struct {
	delHits, delMisses atomic.Int64
	// Reads that the cache counts but Stats omits: those of iterators, and all before ResetStats.
	excludedHits, excludedMisses atomic.Uint64
}

// Stats returns the statistics, in a few microseconds; zeros for a closed cache.
func (c *BigCache) Stats() Stats {
	if c.isClosed() {
		return Stats{}
	}
	// Load these first, so that the difference never excludes a read that is not counted yet.
	hits, misses := c.counters.excludedHits.Load(), c.counters.excludedMisses.Load()
	stats := c.cache.Stats()
	return Stats{
		Hits:      max(int64(stats.Hits-hits), 0),
		Misses:    max(int64(stats.Misses-misses), 0),
		DelHits:   c.counters.delHits.Load(),
		DelMisses: c.counters.delMisses.Load(),
	}
}

// ResetStats resets the statistics, except the request counts of keys.
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

// Metadata describes a key.
type Metadata struct {
	// RequestCount is the number of requests of the entry, with StatsEnabled.
	RequestCount uint32
}

// KeyMetadata returns the number of requests of a key, with StatsEnabled.
func (c *BigCache) KeyMetadata(key string) Metadata {
	name, _ := nameOf(key)
	// The callback for a removed entry may not have run yet.
	if c.requests == nil || !c.cache.Contains(name) {
		return Metadata{}
	}
	return Metadata{RequestCount: c.requests.get(name)}
}

// Len returns the number of entries, including expired ones until they are cleaned up.
func (c *BigCache) Len() int { return c.cache.Len() }

// Capacity returns the memory in use, in bytes.
func (c *BigCache) Capacity() int { return int(c.cache.Stats().MemoryUsed) }
