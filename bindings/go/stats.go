//go:build linux && cgo

package larder

/*
#include <larder.h>

#cgo noescape larder_length
#cgo nocallback larder_length
*/
import "C"

import "unsafe"

// Stats are the statistics of a cache, from its opening on.
type Stats struct {
	// Hits and Misses of all gets, a key each.
	Hits, Misses uint64
	// Items that are stored now, and Stored ever.
	Items, Stored uint64
	// Evictions for want of memory, and Expired items that were come across.
	Evictions, Expired uint64
	// Refused counts stores that failed, being too large or for want of memory.
	Refused uint64
	// MemoryLimit, MemoryUsed, ItemBytes and IndexBytes say where the memory is.
	MemoryLimit, MemoryUsed, ItemBytes, IndexBytes uint64
	// RemovalsLost is how many items [Options.OnRemoval] was too slow for.
	RemovalsLost uint64
	// Named are all statistics by the names that larderd has for them: docs/stats.md.
	Named map[string]uint64
}

// HitRate is the part of gets that were hits, from 0 to 1.
func (s *Stats) HitRate() float64 {
	if s.Hits+s.Misses == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats tells the statistics, in some microseconds. Of a closed or connected cache there are none.
func (c *Cache) Stats() (stats Stats) {
	if c.remote != nil {
		return stats
	}
	calls := c.gate.enter()
	if calls == nil {
		return stats
	}
	defer calls.Add(-1)
	var memory C.larder_memory
	if C.larder_memory_of(c.handle, &memory) != C.LARDER_OK {
		return stats
	}
	stats.MemoryLimit, stats.MemoryUsed = uint64(memory.limit), uint64(memory.used)
	stats.ItemBytes, stats.IndexBytes = uint64(memory.items), uint64(memory.index)
	stats.Named = c.named()
	stats.Hits, stats.Misses = stats.Named["get_hits"], stats.Named["get_misses"]
	stats.Items, stats.Stored = stats.Named["curr_items"], stats.Named["total_items"]
	stats.Evictions, stats.Expired = stats.Named["evictions"], stats.Named["reclaimed"]
	stats.Refused = stats.Named["store_too_large"] + stats.Named["store_no_memory"]
	if c.removals != nil {
		stats.RemovalsLost = c.removals.lost()
	}
	return stats
}

func (c *Cache) named() map[string]uint64 {
	var count C.size_t
	C.larder_stats(c.handle, nil, 0, &count)
	if count == 0 {
		return nil
	}
	stats := make([]C.larder_stat, count)
	C.larder_stats(c.handle, unsafe.SliceData(stats), count, &count)
	named := make(map[string]uint64, len(stats))
	for _, stat := range stats[:min(int(count), len(stats))] {
		named[C.GoString(stat.name)] = uint64(stat.value)
	}
	return named
}

// Len is how many items are stored; those that expired count until they are come across. It is 0 for a closed or connected
// cache.
func (c *Cache) Len() int {
	if c.remote != nil {
		return 0
	}
	calls := c.gate.enter()
	if calls == nil {
		return 0
	}
	defer calls.Add(-1)
	var items C.uint64_t
	C.larder_length(c.handle, &items)
	return int(items)
}

// Clear makes everything that is stored so far invisible, at once.
func (c *Cache) Clear() error {
	if c.remote != nil {
		return ErrUnsupported
	}
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	c.flights.forgetPrefix("")
	return statusError(C.larder_clear(c.handle))
}

// Maintain takes back memory of items that expired or were cleared, in some milliseconds at most. Nothing depends on it
// being called.
func (c *Cache) Maintain() error {
	if c.remote != nil {
		return ErrUnsupported
	}
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	return statusError(C.larder_maintain(c.handle))
}

// SetMemory sets another limit, in bytes, up to [Options.MemoryMax]. What is too much is evicted.
func (c *Cache) SetMemory(limit int64) error {
	if c.remote != nil {
		return ErrUnsupported
	}
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	return statusError(C.larder_set_memory(c.handle, C.uint64_t(limit)))
}
