package shard

import (
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/steps"
)

// Eviction is S3-FIFO over segments:
//
//	new item ──▶ small ──oldest segment──▶ read often enough? ──yes──▶ main, frequency 0
//	   ▲                                            └─no─▶ evicted, its slot stays as a ghost
//	   └ a ghost? then straight to main
//	main ──oldest segment──▶ read often enough? ──yes──▶ main again, frequency − 1
//	                                  └─no─▶ evicted
//
// S3-FIFO keeps new items in a small queue and moves an item that is read there to the main queue.
// Here it decides about the items of a complete segment at a time: it copies the survivors to the
// tail of the main pool and then empties the segment. Only the survivors require changes of the
// index: the slots of the other items become invalid when the generation of the segment changes.

const frequencies = record.FrequencyMax + 1

// pass is the state of emptying one segment, by an eviction or a compaction. A compaction moves all
// live records and evicts none.
type pass struct {
	// from is the pool of the segment, and to is the pool to which the survivors move.
	from pool
	to   pool
	// evicts is true for an eviction, and false for a compaction.
	evicts bool
	limits limits
	// margin is the lowest margin with which an item survives: see marginOfLimit.
	margin int
	// left is the number of bytes that may still survive.
	left int
	// moved is the number of bytes that have survived.
	moved int
	// reads and readBytes are the sums of the frequencies and of the sizes of the found items that
	// were read.
	reads, readBytes uint64
}

// walk calls visit for each record of a segment until it returns false.
func (s *Shard) walk(
	number int32, visit func(offset int, r record.Record, h record.Header) bool,
) bool {
	used := int(s.segments[number].used)
	for offset := 0; offset < used; {
		r := s.recordAt(int(number), offset)
		h := r.Header()
		if !visit(offset, r, h) {
			return false
		}
		offset += h.Bytes()
	}
	return true
}

// compact moves the live records of a segment to the tail of its pool and frees the segment. It
// returns false if the shard has no memory for them.
func (s *Shard) compact(number int32) bool {
	from := s.segments[number].pool
	pass := pass{from: from, to: from, left: s.segmentBytes}
	if !s.empty(number, &pass) {
		return false
	}
	s.unlink(number)
	s.retire(number, asGhosts)
	return true
}

// evict empties a segment by S3-FIFO. It returns the number of bytes that it has reclaimed.
func (s *Shard) evict(number int32, keep keep) int {
	victim := &s.segments[number]
	used := int(victim.used)
	pass := pass{
		from: victim.pool, to: main, evicts: true,
		limits: s.policy.limits(), margin: marginOfLimit, left: s.segmentBytes,
	}
	switch keep {
	case keepBestHalf:
		s.limitToHalf(number, &pass)
	case keepNothing:
		pass.left = 0
	}
	s.empty(number, &pass)
	s.policy.learn(pass.reads, pass.readBytes, s.fresh*s.segmentBytes)
	s.unlink(number)
	ages := uint32(asGhosts)
	if pass.from == main {
		ages = forgotten
	}
	s.retire(number, ages)
	return used - pass.moved
}

// empty moves or drops all records of a segment.
func (s *Shard) empty(number int32, pass *pass) bool {
	return s.walk(number, func(offset int, r record.Record, h record.Header) bool {
		if h.Has(record.Dead) {
			return true
		}
		return s.pass(number, offset, r, h, pass)
	})
}

// pass moves a record if it survives, and otherwise drops it. It returns false if a compaction has
// no memory to move the record.
func (s *Shard) pass(
	number int32, offset int, r record.Record, h record.Header, pass *pass,
) bool {
	if h.Has(record.Piece) {
		return s.passPiece(number, offset, r, h, pass)
	}
	slot := s.slotAt(number, offset)
	if s.isExpired(r, h) {
		s.drop(slot, r, h, Expired, pass)
		return true
	}
	frequency, bytes := h.Frequency(), s.itemBytes(r, h)
	if pass.evicts && frequency > 0 {
		pass.reads += uint64(frequency)
		pass.readBytes += uint64(bytes)
	}
	if pass.keeps(frequency, bytes, h.Bytes()) {
		if s.move(slot, r, h, pass) {
			return true
		}
		if !pass.evicts {
			return false
		}
	}
	s.drop(slot, r, h, Evicted, pass)
	return true
}

// slotAt returns a slot word that refers to a record, without its tag.
func (s *Shard) slotAt(number int32, offset int) record.Slot {
	return record.MakeSlot(0, s.generations[number].Load(), int(number), offset)
}

func (s *Shard) itemBytes(r record.Record, h record.Header) int {
	if h.Has(record.Large) {
		return r.LargeBytes(h)
	}
	return h.Bytes()
}

func (p *pass) keeps(frequency, itemBytes, recordBytes int) bool {
	if !p.evicts {
		return true
	}
	return recordBytes <= p.left && p.limits.margin(frequency, itemBytes) >= p.margin
}

func (p *pass) frequencyAfter(frequency int) int {
	switch {
	case !p.evicts:
		return frequency
	case p.from == small:
		return 0
	}
	return max(frequency-1, 0)
}

// drop removes an item without changing its slot, which becomes invalid when the caller retires the
// segment. In an eviction it does not even mark the record as dead, because all records of the
// segment become invalid together. Two cases need the mark: a compaction may still fail and leave
// the segment in use, and the pieces of a large value may be in other segments.
func (s *Shard) drop(
	slot record.Slot, r record.Record, h record.Header, reason Reason, pass *pass,
) {
	s.report(r, h, reason)
	if pass.evicts && !h.Has(record.Large) {
		s.forget(int32(slot.Segment()), h)
	} else {
		s.bury(slot, r, h)
	}
	s.items--
	if reason == Expired {
		s.stats.Expired++
	} else {
		s.stats.Evictions++
	}
}

// copyOut copies a record to the tail of a pool. Only after that may the caller store a word that
// refers to the copy.
func (s *Shard) copyOut(r record.Record, h record.Header, pass *pass) (room, bool) {
	bytes := h.Bytes()
	room, ok := s.reserveForSurvivor(pass.to, bytes)
	if !ok {
		return room, false
	}
	s.copy(room.record.All(h), r.All(h))
	room.record.SetHeader(h.WithFrequency(pass.frequencyAfter(h.Frequency())))
	pass.left -= bytes
	pass.moved += bytes
	s.stats.Relocated += uint64(bytes)
	s.noteDeadline(room.segment, room.record.Deadline(h))
	return room, true
}

// move copies an item's record to the tail of the pool and stores its new place in the index.
func (s *Shard) move(slot record.Slot, r record.Record, h record.Header, pass *pass) bool {
	hash := s.hash(r.Key(h))
	s.ExpectGroup(hash)
	room, ok := s.copyOut(r, h, pass)
	if !ok {
		return false
	}
	old := record.MakeSlot(s.tag(hash), slot.Generation(), slot.Segment(), slot.Offset())
	store(s.find(hash, old), s.slotOf(hash, room))
	steps.At(steps.RecordMoved)
	s.kill(int32(slot.Segment()), r, h)
	return true
}

// reserveForSurvivor reserves memory from the available segments, including the spare segment.
func (s *Shard) reserveForSurvivor(pool pool, bytes int) (room, bool) {
	number := s.active[pool]
	if number == none || int(s.segments[number].used)+bytes > s.segmentBytes {
		taken, ok := s.pop(0)
		if !ok {
			return room{}, false
		}
		s.seal(pool)
		number = int32(taken)
		s.activate(pool, number)
	}
	return s.append(number, &s.segments[number], bytes), true
}

// limitToHalf raises the margin that items need to survive, so that about half of the bytes in the
// segment survive: those of the items that were read most often for their size.
func (s *Shard) limitToHalf(number int32, pass *pass) {
	var bytes [marginMax + 1]int
	s.walk(number, func(_ int, r record.Record, h record.Header) bool {
		if !h.Has(record.Dead) && !h.Has(record.Piece) {
			bytes[pass.limits.margin(h.Frequency(), s.itemBytes(r, h))] += h.Bytes()
		}
		return true
	})
	pass.left = s.segmentBytes / 2
	above := 0
	for margin := marginMax; margin >= marginOfLimit; margin-- {
		if above += bytes[margin]; above > pass.left {
			pass.margin = margin
			return
		}
	}
}

// noteDeadline lowers the earliest deadline of a segment to the deadline of one of its records, if
// that is earlier.
func (s *Shard) noteDeadline(number int32, deadline int64) {
	if noted := &s.segments[number].expires; deadline != 0 && (*noted == 0 || deadline < *noted) {
		*noted = deadline
	}
}
