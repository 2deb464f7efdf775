package shard

import (
	"unsafe"

	"larder.example/larder/internal/engine/memory"
)

const (
	// spare is the number of segments that are reserved for survivors of an eviction.
	spare = 1
	// The shard compacts a segment with at most almostDeadPercent live bytes before it uses memory
	// that was never used, and a segment with at most sparsePercent before it evicts an item.
	almostDeadPercent = 20
	sparsePercent     = 70
	// Eviction takes segments of the small pool while this pool has more than one in smallPart of the
	// segments of both pools, and otherwise segments of the main pool.
	smallPart = 10
	// A round empties one segment. If bestHalfFromRound rounds together have not reclaimed the bytes
	// of a segment, only the better half of the items survives in the next rounds, and from
	// nothingFromRound rounds on no item.
	bestHalfFromRound = 16
	nothingFromRound  = 64
	// roundsMax is the number of rounds after which the shard gives up and reports that it has no
	// memory.
	roundsMax = 1000
)

// keep is how strictly eviction chooses survivors. If all items of a pool were read often, normal
// eviction could move its records forever without freeing a byte. Then eviction must become
// stricter.
type keep uint8

const (
	// keepNeeded keeps the items that were read often enough.
	keepNeeded keep = iota
	keepBestHalf
	keepNothing
)

// effort is the progress of a writer that makes room: the number of rounds since the bytes of a
// complete segment were last reclaimed, and the bytes reclaimed in these rounds. The more rounds it
// takes, the more of the items in the pool were read.
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

// take takes a segment to which the caller can append. If no segment is free, it makes one free by
// a compaction or by an eviction, whichever costs the cache least. The call may move and remove
// records. It returns false if too many segments are pinned by readers or held by writers.
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
	// A compaction may free nothing: the moved records may take as many segments as they had before,
	// because segments have unused bytes at their ends.
	effort.count((s.free()-before)*s.segmentBytes, s.segmentBytes)
	return true
}

// free returns the number of segments without records that the shard may use.
func (s *Shard) free() int {
	return min(len(s.freed)+len(s.segments)-s.fresh, s.limit-s.inUse())
}

// inUse returns the number of segments that are not free.
func (s *Shard) inUse() int { return s.fresh - len(s.freed) }

// pop takes a segment without records, unless only spare or fewer of them are left. It prefers
// memory that was used before.
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

// lookAhead sets ahead to the memory of the next huge page when the last segment of a huge page is
// taken, so that Unlock requests that memory from the system. Otherwise the first access would
// allocate the memory with the lock held, and other writers would wait for a tenth of a millisecond
// or more.
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

// noteTaken calls Config.Taken for the part of a huge page that belongs to this shard, when the
// last segment of that part is taken.
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
// reader had pinned it when the pins were last read. The second condition is only a hint, which
// avoids emptying segments that would wait in limbo. A reader may pin the segment at any time;
// retire checks the pins again.
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
// The larger an item is, the more often it must have been read to survive. Its reads per byte must
// be at least neededPercent of the reads per byte of all items with reads that recent evictions
// have found.
type policy struct{ reads, readBytes uint64 }

const (
	neededPercent = 30
	// The margin of an item is the size limit for its frequency divided by its size, in eighths. An
	// item at its limit has marginOfLimit, and a smaller item has a higher margin.
	marginOfLimit = 8
	marginMax     = 127
)

// limits contains, for each frequency (the number of reads that the header of a record counts), the
// size of the largest item that survives.
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

// learn adds the reads and the bytes of the items with reads that an eviction has found. When the
// sum of the bytes reaches the memory in use, it halves both sums, so that recent evictions count
// more and the sums follow the current contents of the cache.
func (p *policy) learn(reads, bytes uint64, usedBytes int) {
	p.reads += reads
	if p.readBytes += bytes; p.readBytes >= uint64(usedBytes) {
		p.reads /= 2
		p.readBytes /= 2
	}
}
