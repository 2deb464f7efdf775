package shard

import (
	"unsafe"

	"larder.example/larder/internal/engine/memory"
)

// SegmentsMin is the number of segments that a shard needs: for its index, for each pool, the spare
// segment, and some segments to evict from.
const SegmentsMin = 8

// IndexSegments returns the number of segments that belong to the index permanently. The caller
// holds the mutex.
func (s *Shard) IndexSegments() int { return s.pageCount + s.overflowCount }

// Shrinking is the progress of a change of the limit.
type Shrinking struct{ effort effort }

// Limit sets the number of segments that may be in use. If more are in use, it empties at most one,
// and returns true if the caller must call it again. The caller holds the mutex, and releases it
// between two calls so that others can use the shard. Until enough segments are empty, the limit
// stays one segment above the number in use, so that writers always find a segment.
func (s *Shard) Limit(segments int, progress *Shrinking) (goesOn bool) {
	s.wanted = segments
	s.discardSurplus()
	s.leaveLimbo()
	if s.limit = max(segments, s.inUse()+spare); s.limit == segments {
		return false
	}
	if progress.effort.rounds >= roundsMax || !s.shrink(&progress.effort) {
		// Readers still pin the segments, in callbacks of View. Later changes return the memory, after
		// the callbacks have ended.
		return false
	}
	s.limit = max(segments, s.inUse()+spare)
	return s.limit > segments
}

// shrink empties the segment whose loss costs the cache least. It returns false if every segment
// that it could empty is pinned or held.
func (s *Shard) shrink(effort *effort) bool {
	s.isReclaiming = true
	defer func() { s.isReclaiming = false }()
	s.lookAtPins()
	if effort.keep() == keepNeeded && s.compactEmptiest(sparsePercent, effort) {
		return true
	}
	number, ok := s.victim()
	if ok {
		effort.count(s.evict(number, effort.keep()), s.segmentBytes)
	}
	return ok
}

// discardSurplus returns the memory of the free segments that the shard may not use, because of the
// limit, to the system.
func (s *Shard) discardSurplus() {
	// Keep the start of the list, because the shard takes segments from its end.
	keeps := max(s.wanted-s.inUse(), 0)
	for _, number := range s.freed[:max(len(s.freed)-keeps, 0)] {
		s.discard(number)
	}
}

func (s *Shard) discard(number int32) {
	start := unsafe.Add(s.base, int(number)*s.segmentBytes)
	memory.Discard(unsafe.Slice((*byte)(start), s.segmentBytes))
}
