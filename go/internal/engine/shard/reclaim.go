package shard

import (
	"unsafe"

	"larder.example/larder/internal/engine/memory"
)

const (
	// spare is the number of segments that only survivors of an eviction take.
	spare = 1
	// Segments with at most this percentage of live bytes are emptied before fresh memory is used,
	// and before an item is evicted.
	almostDeadPercent = 20
	sparsePercent     = 70
	// The small pool is evicted from while it has more than one of this many segments.
	smallPart = 10
	// From these rounds without a whole segment on, only the better half survives, or nothing.
	bestHalfFromRound = 16
	nothingFromRound  = 64
	// roundsMax is the number of rounds after which there is no memory.
	roundsMax = 1000
)

// keep says how strictly eviction chooses survivors. A pool in which all items are hot could move
// its records forever without freeing a byte.
type keep uint8

const (
	// keepNeeded keeps the items that were read often enough.
	keepNeeded keep = iota
	keepBestHalf
	keepNothing
)

// effort is the progress of a writer that makes room. Rounds count until the bytes of a segment are
// reclaimed: they measure how hot a pool is.
type effort struct{ rounds, reclaimed int }

func (e *effort) keep() keep {
	switch {
	case e.rounds < bestHalfFromRound:
		return keepNeeded
	case e.rounds < nothingFromRound:
		return keepBestHalf
	}
	return keepNothing
}

func (e *effort) count(reclaimed, segmentBytes int) {
	e.rounds++
	if e.reclaimed += reclaimed; e.reclaimed >= segmentBytes {
		e.rounds, e.reclaimed = 0, e.reclaimed-segmentBytes
	}
}

// take takes a segment for new use: a free one, or the one that costs the cache least. Records may
// be moved and removed meanwhile. It returns false if readers and writers hold too many segments.
func (s *Shard) take() (int, bool) {
	if s.isReclaiming {
		return s.pop(0)
	}
	s.isReclaiming = true
	defer func() { s.isReclaiming = false }()
	var effort effort
	for range roundsMax {
		s.leaveLimbo()
		if len(s.freed) > 0 {
			if number, ok := s.pop(spare); ok {
				return number, true
			}
		}
		s.lookAtPins()
		if effort.keep() == keepNeeded && s.compactEmptiest(almostDeadPercent, &effort) {
			continue
		}
		if number, ok := s.pop(spare); ok {
			return number, true
		}
		if effort.keep() == keepNeeded && s.compactEmptiest(sparsePercent, &effort) {
			continue
		}
		number, ok := s.victim()
		if !ok {
			return 0, false
		}
		effort.count(s.evict(number, effort.keep()), s.segmentBytes)
	}
	return 0, false
}

// compactEmptiest compacts the segment with the fewest live bytes, if at most a percentage is live.
func (s *Shard) compactEmptiest(percent int, effort *effort) bool {
	number, ok := s.emptiest(percent)
	before := s.free()
	if !ok || !s.compact(number) {
		return false
	}
	// Where records do not fit into the ends of segments, moving them may free nothing.
	effort.count((s.free()-before)*s.segmentBytes, s.segmentBytes)
	return true
}

// free returns the number of segments without records that may be used.
func (s *Shard) free() int {
	return min(len(s.freed)+len(s.segments)-s.fresh, s.limit-s.inUse())
}

// inUse returns the number of segments that are not free.
func (s *Shard) inUse() int { return s.fresh - len(s.freed) }

// pop takes a segment without records if more than a number of them remain.
func (s *Shard) pop(spare int) (int, bool) {
	if s.free() <= spare {
		return 0, false
	}
	if count := len(s.freed); count > 0 {
		number := s.freed[count-1]
		s.freed = s.freed[:count-1]
		return int(number), true
	}
	s.fresh++
	s.lookAhead()
	s.noteTaken()
	return s.fresh - 1, true
}

// lookAhead asks for the memory of the next huge page when the last segment of one is taken. The
// first access would take it under the lock, and other writers would wait for a tenth of a
// millisecond or more.
func (s *Shard) lookAhead() {
	rest := min(len(s.segments)-s.fresh, s.limit-s.inUse()) * s.segmentBytes
	if rest <= 0 {
		return
	}
	next := unsafe.Add(s.base, s.fresh*s.segmentBytes)
	if uintptr(next)%memory.HugePageBytes == 0 {
		s.ahead = unsafe.Slice((*byte)(next), min(rest, memory.HugePageBytes))
	}
}

// noteTaken reports the memory of a huge page whose last segment in this shard was taken.
func (s *Shard) noteTaken() {
	taken := s.fresh * s.segmentBytes
	end := uintptr(s.base) + uintptr(taken)
	ahead := int(-end & (memory.HugePageBytes - 1))
	if s.config.Taken == nil || ahead != 0 && s.fresh < len(s.segments) {
		return
	}
	bytes := min(memory.HugePageBytes-ahead, taken)
	s.config.Taken(unsafe.Slice((*byte)(unsafe.Add(s.base, taken-bytes)), bytes))
}

// mayEmpty returns true if a sealed segment may be emptied: nothing is being written to it, and at
// the last look no reader had pinned it. The second is a hint.
func (s *Shard) mayEmpty(number int32) bool {
	return s.segments[number].pending == 0 && !s.isPinned(number)
}

// emptiest returns the sealed segment with the fewest live bytes, if at most a percentage is live.
func (s *Shard) emptiest(percent int) (int32, bool) {
	found, least := int32(none), int32(s.segmentBytes*percent/100)
	for number := range s.segments[:s.fresh] {
		sealed := &s.segments[number]
		if sealed.state == isSealed && sealed.live <= least && s.mayEmpty(int32(number)) {
			found, least = int32(number), sealed.live-1
		}
	}
	return found, found != none
}

// victim returns the segment that S3-FIFO evicts from next.
func (s *Shard) victim() (int32, bool) {
	order := [pools]pool{main, small}
	if s.count[small]*smallPart > s.count[small]+s.count[main] {
		order = [pools]pool{small, main}
	}
	for _, pool := range order {
		for number := s.queues[pool].first; number != none; number = s.segments[number].next {
			if s.mayEmpty(number) {
				return number, true
			}
		}
	}
	return 0, false
}

// policy is what evictions learn about the items.
//
// The larger an item is, the more often it must have been read to survive: for each of its bytes at
// least neededPercent as often as the items that recent evictions found read.
type policy struct{ reads, readBytes uint64 }

const (
	neededPercent = 30
	// A margin is how far below the limit of its frequency the size of an item is, in eighths.
	marginOfLimit = 8
	marginMax     = 127
)

// limits are the sizes of the largest items that survive, for each frequency.
type limits [frequencies]uint64

func (p *policy) limits() (found limits) {
	for frequency := 1; frequency < frequencies; frequency++ {
		found[frequency] = 1 << 40
		if p.reads > 0 {
			found[frequency] = p.readBytes * 100 * uint64(frequency) / (p.reads * neededPercent)
		}
	}
	return found
}

func (l *limits) margin(frequency, bytes int) int {
	return int(min(l[frequency]*marginOfLimit/uint64(max(bytes, 1)), marginMax))
}

// learn adds the read items that an eviction found. When their bytes are those in use, it halves
// the sums, so that they follow what is stored now.
func (p *policy) learn(reads, bytes uint64, usedBytes int) {
	p.reads += reads
	if p.readBytes += bytes; p.readBytes >= uint64(usedBytes) {
		p.reads /= 2
		p.readBytes /= 2
	}
}
