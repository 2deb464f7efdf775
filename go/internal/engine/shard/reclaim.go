package shard

import (
	"unsafe"

	"larder.example/larder/internal/engine/memory"
)

const (
	// spare is the number of segments that are reserved for survivors of an eviction.
	spare = 1
	// The shard empties segments with at most this percentage of live bytes before it uses fresh
	// memory, and before it evicts an item.
	almostDeadPercent = 20
	sparsePercent     = 70
	// Eviction takes segments of the small pool while the pool has more than one of this many
	// segments.
	smallPart = 10
	// After this number of rounds that have not reclaimed a complete segment, only the better half of
	// the items survives, or no item.
	bestHalfFromRound = 16
	nothingFromRound  = 64
	// roundsMax is the number of rounds after which the shard gives up and reports that it has no
	// memory.
	roundsMax = 1000
)

// keep is how strictly eviction chooses survivors. Without stricter choices, a pool in which all
// items are hot could move its records forever without freeing a byte.
type keep uint8

const (
	// keepNeeded keeps the items that were read often enough.
	keepNeeded keep = iota
	keepBestHalf
	keepNothing
)

// effort is the progress of a writer that makes room. The number of rounds until the bytes of a
// segment are reclaimed measures how hot a pool is.
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

// take takes a segment for reuse: a free segment, or the segment whose loss costs the cache least.
// The call may move and remove records. It returns false if readers and writers hold too many
// segments.
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
	// If records do not fit in the free ends of segments, moving them may free nothing.
	effort.count((s.free()-before)*s.segmentBytes, s.segmentBytes)
	return true
}

// free returns the number of segments without records that the shard may use.
func (s *Shard) free() int {
	return min(len(s.freed)+len(s.segments)-s.fresh, s.limit-s.inUse())
}

// inUse returns the number of segments that are not free.
func (s *Shard) inUse() int { return s.fresh - len(s.freed) }

// pop takes a segment without records, if there are more than spare of them.
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

// lookAhead requests the memory of the next huge page when the last segment of a huge page is
// taken. Otherwise the first access would allocate the memory with the lock held, and other writers
// would wait for a tenth of a millisecond or more.
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

// noteTaken reports the memory of a huge page when its last segment in this shard is taken.
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

// mayEmpty returns true if a sealed segment may be emptied: no writer is writing to it, and no
// reader had pinned it when the pins were last read. The second condition is only a hint.
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

// policy holds statistics that evictions collect about the items.
//
// The larger an item is, the more often it must have been read to survive: for each of its bytes at
// least neededPercent as often as the items that recent evictions found read.
type policy struct{ reads, readBytes uint64 }

const (
	neededPercent = 30
	// A margin is the distance from the size of an item to the limit for its frequency, in eighths.
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

// learn adds the read items that an eviction has found. When the sum of their bytes reaches the
// memory in use, it halves the sums, so that they follow the current contents of the cache.
func (p *policy) learn(reads, bytes uint64, usedBytes int) {
	p.reads += reads
	if p.readBytes += bytes; p.readBytes >= uint64(usedBytes) {
		p.reads /= 2
		p.readBytes /= 2
	}
}
