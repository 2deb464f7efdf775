//go:build linux && cgo

package shared

/*
#include <larder.h>

#cgo noescape larder_length
#cgo nocallback larder_length
*/
import "C"

import "unsafe"

// Stats are the statistics of a cache since it was opened.
type Stats struct {
	// Hits and Misses count the keys of all reads.
	Hits, Misses uint64
	// Items is the number of items now; Stored counts all stores.
	Items, Stored uint64
	// Evictions counts items that were removed to free memory; Expired counts expired items that
	// were found.
	Evictions, Expired uint64
	// Refused counts stores that failed because the item was too large or memory was short.
	Refused uint64
	// MemoryLimit, MemoryUsed, ItemBytes and IndexBytes are in bytes.
	MemoryLimit, MemoryUsed, ItemBytes, IndexBytes uint64
	// RemovalsLost counts removals that were dropped because [Options.OnRemove] was too slow.
	RemovalsLost uint64
	// Named holds all statistics by the names that larderd uses: docs/stats.md.
	Named map[string]uint64
}

// HitRate returns the ratio of hits to reads, from 0 to 1. It returns 0 before the first read.
func (s Stats) HitRate() float64 {
	if s.Hits+s.Misses == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats returns the statistics, in a few microseconds. It returns zeros for a closed cache.
func (c *Cache) Stats() (stats Stats) {
	calls, err := c.enter()
	if err != nil {
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

// Len returns the number of items, including expired ones that have not been found yet. With a disk
// tier it counts the items in memory; "tier_items" of [Stats.Named] is the number of items on the
// disk. It returns 0 for a closed cache.
func (c *Cache) Len() int {
	calls, err := c.enter()
	if err != nil {
		return 0
	}
	defer calls.Add(-1)
	var items C.uint64_t
	C.larder_length(c.handle, &items)
	return int(items)
}

// Clear removes all items, in constant time. Their memory is reclaimed later. With a disk tier
// Clear can fail as a store can; then all items stay.
func (c *Cache) Clear() error {
	calls, err := c.enter()
	if err != nil {
		return err
	}
	defer calls.Add(-1)
	c.loads.ForgetPrefix("")
	return statusError(C.larder_clear(c.handle))
}

// Maintain reclaims the memory of expired and cleared items, for a few milliseconds at most.
// Calling it is optional.
func (c *Cache) Maintain() error {
	calls, err := c.enter()
	if err != nil {
		return err
	}
	defer calls.Add(-1)
	return statusError(C.larder_maintain(c.handle))
}

// SetMemory sets the memory limit, in bytes, up to [Options.MemoryMax]. A lower limit evicts items.
func (c *Cache) SetMemory(limit int64) error {
	calls, err := c.enter()
	if err != nil {
		return err
	}
	defer calls.Add(-1)
	return statusError(C.larder_set_memory(c.handle, C.uint64_t(limit)))
}
