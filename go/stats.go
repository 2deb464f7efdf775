package larder

import "strconv"

// Stats are the statistics of a cache since it was opened. [Cache.String] publishes them with
// package expvar, and package larder/prometheus publishes them with Prometheus.
type Stats struct {
	// Hits and Misses count the keys of all reads.
	Hits, Misses uint64
	// Items is the number of items now; Stored counts all stores.
	Items, Stored uint64
	// Evictions counts items that were removed to free memory; Expired counts expired items that
	// were found.
	Evictions, Expired uint64
	// MemoryLimit, MemoryUsed, ItemBytes and IndexBytes are in bytes. MemoryLimit is
	// [Options.Memory], and MemoryUsed is the part of it in use. That part includes ItemBytes, the
	// memory of the items with their metadata, and IndexBytes, the memory of the index.
	MemoryLimit, MemoryUsed, ItemBytes, IndexBytes uint64
}

// HitRate returns the ratio of hits to reads, from 0 to 1. It returns 0 before the first read.
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

// String returns the statistics as JSON. With it, a Cache is a variable of package expvar. This
// package does not import expvar, because expvar registers a handler and links an HTTP server:
//
//	expvar.Publish("cache", cache)
func (c *Cache) String() string {
	s := c.Stats()
	// Package encoding/json would be a quarter of a program that needs it only here.
	text := []byte{'{'}
	for _, field := range []struct {
		name  string
		value uint64
	}{
		{"Hits", s.Hits}, {"Misses", s.Misses}, {"Items", s.Items}, {"Stored", s.Stored},
		{"Evictions", s.Evictions}, {"Expired", s.Expired}, {"MemoryLimit", s.MemoryLimit},
		{"MemoryUsed", s.MemoryUsed}, {"ItemBytes", s.ItemBytes}, {"IndexBytes", s.IndexBytes},
	} {
		text = append(strconv.AppendQuote(text, field.name), ':')
		text = append(strconv.AppendUint(text, field.value, 10), ',')
	}
	text = append(text, `"HitRate":`...)
	return string(append(strconv.AppendFloat(text, s.HitRate(), 'g', -1, 64), '}'))
}
