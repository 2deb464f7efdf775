package bigcache

import (
	"sync/atomic"

	"larder.example/larder"
)

// Stats are statistics since New or ResetStats.
type Stats struct {
	// Hits and Misses count Get, GetWithInfo and Append, which looks for an entry first.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	// DelHits and DelMisses count deletions of existing and of absent entries.
	DelHits   int64 `json:"delete_hits"`
	DelMisses int64 `json:"delete_misses"`
	// Collisions is always 0.
	Collisions int64 `json:"collisions"`
}

// counters has the statistics that package larder does not count, and the values at the last
// ResetStats.
type counters struct {
	delHits, delMisses       atomic.Int64
	appendHits, appendMisses atomic.Int64
	// The reads before ResetStats.
	pastHits, pastMisses atomic.Uint64
}

// Stats returns the statistics, in a few microseconds. It returns zeros for a closed cache.
func (c *BigCache) Stats() Stats {
	if c.closed.Load() {
		return Stats{}
	}
	// Load these before the statistics of the cache. If ResetStats runs in between, the difference is
	// then not negative.
	hits, misses := c.counters.pastHits.Load(), c.counters.pastMisses.Load()
	stats := c.cache.Stats()
	return Stats{
		Hits:      max(int64(stats.Hits-hits), 0) + c.counters.appendHits.Load(),
		Misses:    max(int64(stats.Misses-misses), 0) + c.counters.appendMisses.Load(),
		DelHits:   c.counters.delHits.Load(),
		DelMisses: c.counters.delMisses.Load(),
	}
}

// ResetStats resets the statistics, except the request counts of keys.
func (c *BigCache) ResetStats() error {
	if c.closed.Load() {
		return larder.ErrClosed
	}
	stats := c.cache.Stats()
	c.counters.pastHits.Store(stats.Hits)
	c.counters.pastMisses.Store(stats.Misses)
	c.counters.delHits.Store(0)
	c.counters.delMisses.Store(0)
	c.counters.appendHits.Store(0)
	c.counters.appendMisses.Store(0)
	return nil
}

// countAppend counts an Append, as BigCache does.
func (c *BigCache) countAppend(name string, isFound bool) {
	if !isFound {
		c.counters.appendMisses.Add(1)
		return
	}
	c.counters.appendHits.Add(1)
	c.requests.count(name)
}

// Metadata describes a key.
type Metadata struct {
	// RequestCount is the number of requests of the entry, with StatsEnabled.
	RequestCount uint32
}

// KeyMetadata returns the number of requests of a key, with StatsEnabled.
func (c *BigCache) KeyMetadata(key string) Metadata {
	name, _ := nameOf(key)
	// A read that ends after the removal of its entry leaves a count without an entry.
	if c.requests == nil || !c.cache.Contains(name) {
		return Metadata{}
	}
	return Metadata{RequestCount: c.requests.get(name)}
}

// Len returns the number of entries, including expired ones until they are cleaned up.
func (c *BigCache) Len() int { return c.cache.Len() }

// Capacity returns the memory limit, in bytes. It returns 0 for a closed cache.
func (c *BigCache) Capacity() int { return int(c.cache.Stats().MemoryLimit) }
