package shard

import (
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/steps"
)

// The states of a segment.
type state uint8

const (
	// isFree is the state of segments without records.
	isFree state = iota
	// isActive is the state of the segment that a pool appends to.
	isActive
	// isSealed is the state of segments that are full. They are in the queue of their pool.
	isSealed
	// isLimbo is the state of emptied segments that readers still pin. They become free when no reader
	// pins them.
	isLimbo
	// isIndex is the state of segments that contain groups of the index.
	isIndex
)

// A pool is one of the queues of S3-FIFO.
type pool uint8

const (
	small pool = iota
	main
	pools
)

const none = -1

// segment is the state of a segment. Only writers use it, with the mutex held.
type segment struct {
	state state
	pool  pool
	// pending is the number of records that writers are writing without the lock.
	pending int32
	// used is the number of bytes from the start that records fill, and live is the number of bytes
	// of the records that exist.
	used, live int32
	// previous and next are the neighbours in the queue of the pool, or none.
	previous, next int32
	// expires is the earliest millisecond at which a record of the segment may expire, or zero if no
	// record has a deadline.
	expires int64
}

// queue is the list of the sealed segments of a pool, the oldest first.
type queue struct{ first, last int32 }

// space holds the segments of a shard.
type space struct {
	segments []segment
	// limit is the number of segments that may be in use. When the memory limit is lowered, wanted is
	// the new number, and limit falls to it step by step as segments are emptied.
	limit, wanted int
	// The segments from number fresh on were never used. freed and limbo contain the segments that
	// were used and have no records now: freed those that can be reused, limbo those that readers
	// still pin.
	fresh        int
	freed, limbo []int32
	active       [pools]int32
	queues       [pools]queue
	// count is the number of active and sealed segments of each pool.
	count [pools]int
	// pendingSegments is the number of segments with pending records.
	pendingSegments int
	// pinned has a bit for each segment. A bit is set if the segment was pinned when the pins were
	// last read.
	pinned []uint64
	// isReclaiming is true while the shard empties a segment.
	isReclaiming bool
}

func (s *Shard) openSpace(count int) {
	s.segments = make([]segment, count)
	s.limit, s.wanted = count, count
	s.freed = make([]int32, 0, count)
	s.pinned = make([]uint64, (count+63)/64)
	for pool := range pools {
		s.active[pool] = none
		s.queues[pool] = queue{none, none}
	}
}

// seal ends writing to the active segment of a pool.
func (s *Shard) seal(pool pool) {
	number := s.active[pool]
	if number == none {
		return
	}
	s.active[pool] = none
	sealed, queue := &s.segments[number], &s.queues[pool]
	sealed.state = isSealed
	sealed.previous, sealed.next = queue.last, none
	if queue.last == none {
		queue.first = number
	} else {
		s.segments[queue.last].next = number
	}
	queue.last = number
}

// unlink takes a sealed segment out of its queue.
func (s *Shard) unlink(number int32) {
	sealed := &s.segments[number]
	queue := &s.queues[sealed.pool]
	if sealed.previous == none {
		queue.first = sealed.next
	} else {
		s.segments[sealed.previous].next = sealed.next
	}
	if sealed.next == none {
		queue.last = sealed.previous
	} else {
		s.segments[sealed.next].previous = sealed.previous
	}
}

// When a segment is emptied, its generation rises by one of two amounts. isGhost accepts a slot
// whose generation is at most ghostAges lower than the generation of its segment. Raising the
// generation by asGhosts thus makes the slots of the evicted items ghosts. Raising it by forgotten
// puts all slots beyond ghostAges, so that none is a ghost.
const (
	ghostAges = 12
	asGhosts  = 1
	forgotten = ghostAges + 1
)

// isGhost returns true if a slot refers to an item that was recently evicted from the small pool.
func (s *Shard) isGhost(slot record.Slot) bool {
	segment := slot.Segment()
	if slot == 0 || segment >= len(s.generations) {
		return false
	}
	age := int64((s.generations[segment].Load() - slot.Generation()) % record.Generations)
	return age > 0 && age < s.forgottenFrom
}

// retire makes all slots that refer to a segment invalid, and frees the segment. It raises the
// generation, and only then checks the pins. A reader does the opposite: it pins the segment, and
// only then checks the generation. So if both happen at the same time, either the reader finds the
// new generation and ignores the record, or retire finds the pin and puts the segment into limbo.
func (s *Shard) retire(number int32, ages uint32) {
	retired := &s.segments[number]
	s.count[retired.pool]--
	s.live -= int(retired.live)
	retired.live, retired.used, retired.expires = 0, 0, 0
	s.raiseGeneration(int(number), ages)
	steps.At(steps.GenerationRaised)
	isPinned := s.pins.IsPinned(pins.Segment(s.config.Number, int(number)))
	steps.At(steps.PinsScanned)
	if isPinned {
		retired.state = isLimbo
		s.limbo = append(s.limbo, number)
		return
	}
	s.release(number)
}

// release frees a segment that no reader has pinned.
func (s *Shard) release(number int32) {
	s.segments[number].state = isFree
	s.freed = append(s.freed, number)
	if s.inUse() >= s.wanted {
		s.discard(number)
	}
}

// raiseGeneration raises the generation of a segment. A generation has few bits, so it starts again
// from zero after some time. An old invalid slot would then become valid again, so raiseGeneration
// first clears all slots that refer to the segment.
func (s *Shard) raiseGeneration(number int, ages uint32) {
	generation := &s.generations[number]
	raised := generation.Load() + ages
	if raised >= record.Generations {
		s.wraps.Add(1)
		s.clearSlotsOf(number)
		raised = 0
	}
	generation.Store(raised)
}

func (s *Shard) clearSlotsOf(number int) {
	groups := groupsOf(s.level.Load())
	for at := range groups {
		s.chain(s.groupIn(s.pages, at), func(at *uint64, slot record.Slot) {
			if slot.Segment() == number {
				store(at, 0)
			}
		})
	}
}

// leaveLimbo frees the segments in limbo that no reader pins any longer.
func (s *Shard) leaveLimbo() {
	if len(s.limbo) == 0 {
		return
	}
	s.lookAtPins()
	waiting := s.limbo[:0]
	for _, number := range s.limbo {
		if s.isPinned(number) {
			waiting = append(waiting, number)
			continue
		}
		s.release(number)
	}
	s.limbo = waiting
}

func (s *Shard) lookAtPins() {
	clear(s.pinned)
	s.pins.Each(s.config.Number, func(segment int) { s.pinned[segment/64] |= 1 << (segment % 64) })
}

// isPinned returns true if the segment was pinned when lookAtPins has read the pins.
func (s *Shard) isPinned(number int32) bool { return s.pinned[number/64]>>(number%64)&1 != 0 }

// room is memory for a record.
type room struct {
	segment int32
	offset  int32
	record  record.Record
	bytes   int
}

// reserve takes memory for a record at the tail of a pool. If moved is true, the call may have
// moved or removed other records to make room, and the caller must repeat its lookups.
func (s *Shard) reserve(pool pool, bytes int) (found room, moved, ok bool) {
	if number := s.active[pool]; number != none {
		if active := &s.segments[number]; int(active.used)+bytes <= s.segmentBytes {
			return s.append(number, active, bytes), false, true
		}
	}
	if ok := s.open(pool, bytes); !ok {
		return room{}, true, false
	}
	number := s.active[pool]
	return s.append(number, &s.segments[number], bytes), true, true
}

func (s *Shard) append(number int32, active *segment, bytes int) room {
	offset := active.used
	active.used += int32(bytes)
	active.live += int32(bytes)
	s.live += bytes
	room := room{number, offset, s.recordAt(int(number), int(offset)), bytes}
	s.tail = room.record.Address() + uintptr(bytes)
	return room
}

// open makes sure that a pool has an active segment with room for this number of bytes.
func (s *Shard) open(pool pool, bytes int) bool {
	s.seal(pool)
	number, ok := s.take()
	if !ok {
		return false
	}
	// To free a segment, take may have evicted another one, and its surviving records may have opened
	// a new active segment of this pool.
	if active := s.active[pool]; active != none {
		if int(s.segments[active].used)+bytes <= s.segmentBytes {
			s.freed = append(s.freed, int32(number))
			return true
		}
		s.seal(pool)
	}
	s.activate(pool, int32(number))
	return true
}

func (s *Shard) activate(pool pool, number int32) {
	s.segments[number] = segment{state: isActive, pool: pool}
	s.active[pool] = number
	s.count[pool]++
}

// hold prevents the shard from emptying a segment while a writer fills a record in it without the
// mutex, or until a large value is published. Each hold needs one letGo.
func (s *Shard) hold(number int32) {
	held := &s.segments[number]
	if held.pending++; held.pending == 1 {
		s.pendingSegments++
	}
}

func (s *Shard) letGo(number int32) {
	held := &s.segments[number]
	if held.pending--; held.pending == 0 {
		s.pendingSegments--
	}
}

// slotOf returns the word that refers to a record in reserved memory.
func (s *Shard) slotOf(hash uint64, r room) record.Slot {
	generation := s.generations[r.segment].Load()
	return record.MakeSlot(s.tag(hash), generation, int(r.segment), int(r.offset))
}

// kill marks a record as dead: it was removed, replaced, or never published.
func (s *Shard) kill(segment int32, r record.Record, h record.Header) {
	r.Mark(record.Dead, 0)
	s.forget(segment, h)
}

// forget subtracts the bytes of a record from the counters of its segment and of the shard.
func (s *Shard) forget(segment int32, h record.Header) {
	bytes := h.Bytes()
	s.segments[segment].live -= int32(bytes)
	s.live -= bytes
}

// bury kills the record of an item and the pieces of its value.
func (s *Shard) bury(slot record.Slot, r record.Record, h record.Header) {
	if h.Has(record.Large) {
		s.killPieces(r, h)
	}
	s.kill(int32(slot.Segment()), r, h)
}
