package shard

import (
	"fmt"

	"larder.example/larder/internal/engine/record"
)

// Check compares the counters with the contents, and returns the first difference. It is for tests
// in which no other operation is in progress.
func (s *Shard) Check() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	items := 0
	var failure error
	for number := range groupsOf(s.level.Load()) {
		s.chain(s.groupIn(s.pages, number), func(_ *uint64, slot record.Slot) {
			if !s.isLive(slot) {
				return
			}
			items++
			r := s.record(slot)
			h := r.Header()
			if h.Has(record.Dead | record.Unpublished | record.Piece) {
				failure = fmt.Errorf("the index names a record with header %x", h)
			}
			hash := s.hash(r.Key(h))
			if s.tag(hash) != slot.Tag() || groupNumber(s.level.Load(), hash) != number {
				failure = fmt.Errorf("key %q is in group %d", r.Key(h), number)
			}
		})
	}
	if failure == nil && items != s.items {
		failure = fmt.Errorf("%d items, counted %d", items, s.items)
	}
	if failure == nil {
		failure = s.checkSegments()
	}
	return failure
}

func (s *Shard) checkSegments() error {
	all := 0
	for number := range s.segments {
		segment, live := &s.segments[number], 0
		if segment.state == isActive || segment.state == isSealed {
			s.walk(int32(number), func(_ int, r record.Record, h record.Header) bool {
				if !h.Has(record.Dead) {
					live += h.Bytes()
				}
				return true
			})
		}
		if all += live; live != int(segment.live) || segment.pending != 0 {
			return fmt.Errorf("segment %d has %d live bytes, counted %+v", number, live, *segment)
		}
	}
	if all != s.live {
		return fmt.Errorf("%d live bytes, counted %d", all, s.live)
	}
	return nil
}
