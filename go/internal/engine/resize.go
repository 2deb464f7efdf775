package engine

import (
	"fmt"

	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/shard"
)

// SetMemory changes the memory limit, up to Config.MemoryBytesMax. A lower limit evicts items, a
// segment at a time, and returns their memory to the system. Memory in use by callbacks of View is
// returned when they end. Tables and index keep their size. After the first call that lowers the
// limit, the cache makes no more huge pages.
func (e *Engine) SetMemory(bytes int64) error {
	if e.closed.Load() {
		return ErrClosed
	}
	least := e.memoryLeast()
	if bytes < least || bytes > e.config.MemoryBytesMax {
		return fmt.Errorf("%w: %d bytes, not %d to %d", ErrMemory, bytes, least, e.config.MemoryBytesMax)
	}
	if e.bound(bytes) > bytes {
		e.collapser.turnOff()
	}
	return e.keepBound()
}

// bound sets the memory limit and the size of the largest item, and returns the previous memory
// limit.
func (e *Engine) bound(bytes int64) (former int64) {
	e.resizing.Lock()
	defer e.resizing.Unlock()
	e.limitItems(shard.ItemMax(e.segmentsOf(bytes), e.geometry.segmentBytes))
	return e.memoryBytes.Swap(bytes)
}

// keepBound applies the memory limit to the shards. It holds no lock while it reports removals, so
// callbacks may change the limit. Each step loads the limit with the lock of the shard held, so
// that the last limit takes effect.
func (e *Engine) keepBound() error {
	for number := range e.shards {
		var progress shard.Shrinking
		for goesOn := true; goesOn; {
			cell, ok := e.begin()
			if !ok {
				return ErrClosed
			}
			s := &e.shards[number]
			s.Lock()
			goesOn = s.Limit(e.segmentsOf(e.memoryBytes.Load()), &progress)
			removals := s.Unlock()
			e.end(cell, pins.None)
			e.report(removals)
		}
	}
	return nil
}

// openBelowMax sets the first memory limit of an empty cache.
func (e *Engine) openBelowMax(bytes int64) error {
	if least := e.memoryLeast(); bytes < least {
		return fmt.Errorf("%w: %d bytes, not %d to %d", ErrMemory, bytes, least, e.config.MemoryBytesMax)
	}
	e.bound(bytes)
	return e.keepBound()
}

// limitItems sets the limit of items to Config.ItemMax, or to the largest possible value.
func (e *Engine) limitItems(most int) {
	if asked := e.config.ItemMax; asked != 0 {
		most = min(most, asked)
	}
	e.itemMax.Store(int64(most))
}

// segmentsOf returns the number of segments of a shard for a memory limit.
func (e *Engine) segmentsOf(memoryBytes int64) int {
	g := e.geometry
	beside := besideShards(e.config.MemoryBytesMax) + g.shards*shard.TableBytes(g.segments)
	return min((int(memoryBytes)-beside)/g.shards/g.segmentBytes, g.segments)
}

// memoryLeast returns the lowest possible memory limit. The index may use at most half of each
// shard.
func (e *Engine) memoryLeast() int64 {
	g, segments := e.geometry, min(shard.SegmentsMin, e.geometry.segments)
	for number := range e.shards {
		s := &e.shards[number]
		s.Lock()
		segments = max(segments, 2*s.IndexSegments())
		e.report(s.Unlock())
	}
	beside := besideShards(e.config.MemoryBytesMax) + g.shards*shard.TableBytes(g.segments)
	least := int64(beside) + int64(g.shards)*int64(segments)*int64(g.segmentBytes)
	return min(max(least, MemoryMin), e.config.MemoryBytesMax)
}
