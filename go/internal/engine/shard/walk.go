package shard

import (
	"math/bits"
	"strings"

	"larder.example/larder/internal/engine/record"
)

// Level returns the current level of the index, for AppendKeys.
func (s *Shard) Level() uint64 { return s.level.Load() }

// Groups returns the number of groups at a level.
func Groups(level uint64) int { return int(groupsOf(level)) }

// AppendKeys appends the keys of items that begin with a prefix, for one group of the index at an
// earlier level: the level at which a walk over all groups began. Since then the group may have
// been split, and the groups that it was split into may have been split again. AppendKeys visits
// all of them, and no others. A walk over all groups of the earlier level therefore returns each
// item that exists during the complete walk exactly once, although the index grows.
func (s *Shard) AppendKeys(keys []string, level uint64, number int, prefix string) []string {
	then := groupsOf(level)
	half := uint(1) << (bits.Len(then) - 1)
	step := half
	if uint(number) < then-half || uint(number) >= half {
		step = 2 * half
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := groupsOf(s.level.Load())
	for at := uint(number); at < now; at += step {
		s.chain(s.groupIn(s.pages, at), func(_ *uint64, slot record.Slot) {
			if !s.isLive(slot) {
				return
			}
			r := s.record(slot)
			h := r.Header()
			key := r.Key(h)
			if len(key) < len(prefix) || s.isExpired(r, h) {
				return
			}
			if text := string(key); strings.HasPrefix(text, prefix) {
				keys = append(keys, text)
			}
		})
	}
	return keys
}

// Segments returns the number of segments, for Sweep.
func (s *Shard) Segments() int { return len(s.segments) }

// Sweep removes the expired items of a segment. The caller holds the mutex.
func (s *Shard) Sweep(number int) {
	swept := &s.segments[number]
	if swept.state != isActive && swept.state != isSealed || swept.expires == 0 {
		return
	}
	if swept.expires > s.config.Now() {
		return
	}
	swept.expires = 0
	s.walk(int32(number), func(offset int, r record.Record, h record.Header) bool {
		if h.Has(record.Dead|record.Piece) || !h.Has(record.HasDeadline) {
			return true
		}
		if h.Has(record.Unpublished) || !s.isExpired(r, h) {
			// The segment records the deadline of an unpublished record when the record is published.
			if !h.Has(record.Unpublished) {
				s.noteDeadline(int32(number), r.Deadline(h))
			}
			return true
		}
		hash := s.hash(r.Key(h))
		slot := record.MakeSlot(s.tag(hash), s.generations[number].Load(), number, offset)
		s.remove(&place{at: s.find(hash, slot), slot: slot, record: r, header: h}, Expired)
		return true
	})
}

// Clear removes all items. Its duration depends only on the number of segments, unless the shard
// reports removals. The caller holds the mutex.
func (s *Shard) Clear() {
	for pool := range pools {
		s.seal(pool)
	}
	for pool := range pools {
		for number := s.queues[pool].first; number != none; {
			next := s.segments[number].next
			s.clearSegment(number)
			number = next
		}
	}
	s.items = 0
}

func (s *Shard) clearSegment(number int32) {
	cleared := &s.segments[number]
	if cleared.pending == 0 && !s.config.Reports {
		s.unlink(number)
		s.retire(number, forgotten)
		return
	}
	s.walk(number, func(offset int, r record.Record, h record.Header) bool {
		if h.Has(record.Dead | record.Unpublished) {
			return true
		}
		if !h.Has(record.Piece) {
			s.report(r, h, Cleared)
		}
		return true
	})
	if cleared.pending == 0 {
		s.unlink(number)
		s.retire(number, forgotten)
		return
	}
	// Keep the records that are still being written: their writers publish them after the clear, with
	// slots that contain the new generation.
	s.walk(number, func(_ int, r record.Record, h record.Header) bool {
		if !h.Has(record.Dead | record.Unpublished) {
			s.kill(number, r, h)
		}
		return true
	})
	s.raiseGeneration(int(number), forgotten)
}
