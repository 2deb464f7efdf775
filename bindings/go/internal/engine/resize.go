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
	e.resizing.Lock()
	defer e.resizing.Unlock()
	if e.closed.Load() {
		return ErrClosed
	}
	least := e.memoryLeast()
	if bytes < least || bytes > e.config.MemoryBytesMax {
		return fmt.Errorf("%w: %d bytes, not %d to %d", ErrMemory, bytes, least, e.config.MemoryBytesMax)
	}
	if e.memoryBytes.Swap(bytes) > bytes {
		e.collapser.turnOff()
	}
	return e.setLimits(bytes)
}

// setLimits has the shards keep a bound.
func (e *Engine) setLimits(bytes int64) error {
	segments := e.segmentsOf(bytes)
	e.limitItems(shard.ItemMax(segments, e.geometry.segmentBytes))
	for number := range e.shards {
		var progress shard.Shrinking
		for goesOn := true; goesOn; {
			cell, ok := e.begin()
			if !ok {
				return ErrClosed
			}
			s := &e.shards[number]
			s.Lock()
			goesOn = s.Limit(segments, &progress)
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
	e.memoryBytes.Store(bytes)
	return e.setLimits(bytes)
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
