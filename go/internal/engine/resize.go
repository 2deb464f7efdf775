package engine

import (
	"fmt"

	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/shard"
)

// SetMemory changes the bound of the memory, up to Config.MemoryBytesMax. A lower one evicts items,
// a segment at a time, and returns their memory to the system; memory that callbacks of View use
// follows when they end. Tables and index keep their size, and no more small pages become huge
// ones.
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

// bound sets the bound of the memory and of items, and returns the former one.
func (e *Engine) bound(bytes int64) (former int64) {
	e.resizing.Lock()
	defer e.resizing.Unlock()
	e.limitItems(shard.ItemMax(e.segmentsOf(bytes), e.geometry.segmentBytes))
	return e.memoryBytes.Swap(bytes)
}

// keepBound has the shards keep the bound. It holds no lock while it reports removals, whose
// callbacks may change the bound: each step looks at it under the lock of the shard, so that the
// last one holds.
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

// openBelowMax sets the first bound of a cache, which is empty.
func (e *Engine) openBelowMax(bytes int64) error {
	if least := e.memoryLeast(); bytes < least {
		return fmt.Errorf("%w: %d bytes, not %d to %d", ErrMemory, bytes, least, e.config.MemoryBytesMax)
	}
	e.bound(bytes)
	return e.keepBound()
}

// limitItems sets the limit of items to that of the configuration, or to the largest possible.
func (e *Engine) limitItems(most int) {
	if asked := e.config.ItemMax; asked != 0 {
		most = min(most, asked)
	}
	e.itemMax.Store(int64(most))
}

// segmentsOf returns the number of segments of a shard with which the cache keeps a bound.
func (e *Engine) segmentsOf(memoryBytes int64) int {
	g := e.geometry
	beside := besideShards(e.config.MemoryBytesMax) + g.shards*shard.TableBytes(g.segments)
	return min((int(memoryBytes)-beside)/g.shards/g.segmentBytes, g.segments)
}

// memoryLeast returns the lowest bound: the index takes at most half of each shard.
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
