package larder

import "encoding/json"

// Stats are the statistics of a cache since it was opened. [Cache.String] publishes them with
// package expvar, package larder/prometheus with Prometheus.
type Stats struct {
	// Hits and Misses count the keys of all gets.
	Hits, Misses uint64
	// Items is the number of items now; Stored counts all stores.
	Items, Stored uint64
	// Evictions counts items that were removed to free memory; Expired counts expired items that
	// were found.
	Evictions, Expired uint64
	// MemoryLimit, MemoryUsed, ItemBytes and IndexBytes are in bytes: [Options.Memory], the part of
	// it in use, and in that the memory of the items with their metadata, and of the index.
	MemoryLimit, MemoryUsed, ItemBytes, IndexBytes uint64
}

// HitRate returns the ratio of hits to gets, from 0 to 1; 0 if there were no gets.
func (s Stats) HitRate() float64 {
	if s.Hits+s.Misses == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats returns the statistics, in a few microseconds. It returns zeros for a closed cache.
func (c *Cache) Stats() Stats {
	if c.openError() != nil {
		return Stats{}
	}
	s := c.core().Stats()
	return Stats{
		Hits: s.Hits, Misses: s.Misses, Items: uint64(s.Items), Stored: s.Sets,
		Evictions: s.Evictions, Expired: s.Expired, MemoryLimit: uint64(s.MemoryBytes),
		MemoryUsed: uint64(s.UsedBytes), ItemBytes: uint64(s.LiveBytes), IndexBytes: uint64(s.IndexBytes),
	}
}

// Len returns the number of items, including expired ones that have not been found yet. It returns
// 0 for a closed cache.
func (c *Cache) Len() int {
	if c.openError() != nil {
		return 0
	}
	return c.core().Len()
}

// String returns the statistics as JSON. By it a cache is a variable of package expvar, which this
// package does not import, because expvar registers a handler and links an HTTP server:
//
//	expvar.Publish("cache", cache)
func (c *Cache) String() string {
	stats := c.Stats()
	text, err := json.Marshal(struct {
		Stats
		HitRate float64
	}{stats, stats.HitRate()})
	if err != nil {
		// Numbers have no errors.
		panic(err)
	}
	return string(text)
}
