package shard

import (
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/steps"
)

// The states of a segment.
type state uint8

const (
	// isFree is the state of segments that hold nothing.
	isFree state = iota
	// isActive is the state of the segment that a pool appends to.
	isActive
	// isSealed is the state of segments that are full. They are in the queue of their pool.
	isSealed
	// isLimbo is the state of emptied segments that readers have pinned.
	isLimbo
	// isIndex is the state of segments that hold groups of the index.
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

// segment is what writers know about a segment.
type segment struct {
	state state
	pool  pool
	// pending is the number of records that are being written without the lock.
	pending int32
	// used is the bytes from the start that records fill, and live the bytes of those that exist.
	used, live int32
	// Neighbours in the queue of the pool.
	previous, next int32
	// expires is a millisecond before which no record expires, or zero if none ever does.
	expires int64
}

// queue is the sealed segments of a pool, the oldest one first.
type queue struct{ first, last int32 }

// space is the segments of a shard.
type space struct {
	segments []segment
	// limit is the number of segments that may be in use, and wanted is what it falls to.
	limit, wanted int
	// Segments from fresh on were never used. freed and limbo are the other ones without records.
	fresh        int
	freed, limbo []int32
	active       [pools]int32
	queues       [pools]queue
	// count is the number of active and sealed segments of each pool.
	count [pools]int
	// pendingSegments is the number of segments with pending records.
	pendingSegments int
	// pinned has a bit for each segment that was pinned at the last look.
	pinned []uint64
	// isReclaiming is true while a segment is emptied.
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

// seal ends the writing to a pool's active segment.
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

// How far the generation of a segment rises: by one if its slots are to serve as ghosts, otherwise
// past all ghosts.
const (
	ghostAges = 12
	asGhosts  = 1
	forgotten = ghostAges + 1
)

// isGhost returns true if a slot names an item that was evicted from the small pool lately.
func (s *Shard) isGhost(slot record.Slot) bool {
	segment := slot.Segment()
	if slot == 0 || segment >= len(s.generations) || s.config.NoGhosts {
		return false
	}
	age := (s.generations[segment].Load() - slot.Generation()) % record.Generations
	return age != 0 && age <= ghostAges
}

// retire ends all records of a segment. It raises the generation, and only then looks at the pins:
// a reader pins first, and then looks at the generation, so that one of the two notices the other.
// A segment that is pinned waits in limbo.
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

// release makes a segment free that no reader has pinned.
func (s *Shard) release(number int32) {
	s.segments[number].state = isFree
	s.freed = append(s.freed, number)
	if s.inUse() >= s.wanted {
		s.discard(number)
	}
}

// raiseGeneration raises the generation of a segment. Before it starts again from zero, it clears
// the slots that name the segment: one of them may have been there since the last time.
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

// leaveLimbo frees the segments in limbo that no reader has pinned any longer.
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

// isPinned returns true if the segment was pinned at the last look.
func (s *Shard) isPinned(number int32) bool { return s.pinned[number/64]>>(number%64)&1 != 0 }

// room is memory for a record.
type room struct {
	segment int32
	offset  int32
	record  record.Record
	bytes   int
}

// reserve takes memory for a record at the tail of a pool. If it returns moved, other records may
// have been moved or removed meanwhile.
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

// open gives a pool an active segment with this much room.
func (s *Shard) open(pool pool, bytes int) bool {
	s.seal(pool)
	number, ok := s.take()
	if !ok {
		return false
	}
	// Survivors may have opened one meanwhile.
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

// hold keeps a segment from being emptied while a record is written to it, and letGo ends that.
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

// slotOf returns the word that names a record in memory that was reserved.
func (s *Shard) slotOf(hash uint64, r room) record.Slot {
	generation := s.generations[r.segment].Load()
	return record.MakeSlot(s.tag(hash), generation, int(r.segment), int(r.offset))
}

// kill marks a record dead: it was removed, replaced, or never published.
func (s *Shard) kill(segment int32, r record.Record, h record.Header) {
	r.Mark(record.Dead, 0)
	s.forget(segment, h)
}

// forget takes the bytes of a record off the accounts.
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
