package shard

import (
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
)

// A value that would fill more than half of a segment is stored in pieces, each in a separate
// record. The item's record contains the list of the words that refer to the pieces. When an
// eviction moves a piece, it stores the new place of the piece in that list. A reader compares the
// generation in each word with the generation of the piece's segment.

// pieceBytes returns the number of bytes of a value that a piece contains: a piece takes a
// sixteenth of a segment. With larger pieces, more space at the end of segments would be unused.
func (s *Shard) pieceBytes() int { return s.segmentBytes/16 - 2*record.HeaderBytes }

// ItemMax returns the size of the largest value for a key of the maximum length, in a shard with
// this number of segments.
func ItemMax(segments, segmentBytes int) int { return segments * segmentBytes / 8 }

func (s *Shard) itemMax() int { return ItemMax(s.wanted, s.segmentBytes) }

// putLarge stores a large value.
func (s *Shard) putLarge(r *Request, found *place) (uint64, error) {
	size := s.pieceBytes()
	count := (len(r.Value) + size - 1) / size
	h := s.header(r, record.ListBytes(count), record.Unpublished|record.Large)
	if len(r.Value) > s.itemMax() || h.Bytes() > s.segmentBytes/2 {
		return 0, ErrTooLarge
	}
	pool := s.poolOf(found)
	rooms, ok := s.putPieces(r, pool, size)
	// The shard must not empty the segment of a piece before the item is published. Until then no item
	// in the index contains the piece, so the shard would drop it.
	defer func() {
		for _, room := range rooms {
			s.letGo(room.segment)
		}
	}()
	head := room{}
	if ok {
		head, _, ok = s.reserve(pool, h.Bytes())
	}
	if !ok {
		for _, room := range rooms {
			s.kill(room.segment, room.record, room.record.Header())
		}
		return 0, s.giveUp(r)
	}
	token := s.nextToken(r)
	head.record.SetHeader(h)
	head.record.Fill(h, r.Key, r.Deadline, token, r.Flags)
	head.record.SetLargeBytes(h, len(r.Value))
	for at, room := range rooms {
		head.record.SetPieceAt(h, at, s.slotOf(r.Hash, room))
	}
	s.present(r.Hash, r.Key, found)
	if err := s.judge(r, found); err != nil {
		s.bury(s.slotOf(r.Hash, head), head.record, h)
		return 0, err
	}
	s.publish(r, found, head, h)
	return token, nil
}

// putPieces writes the pieces of a value. It holds their segments.
func (s *Shard) putPieces(r *Request, pool pool, size int) ([]room, bool) {
	var rooms []room
	for at := 0; at < len(r.Value); at += size {
		part := r.Value[at:min(at+size, len(r.Value))]
		h := record.MakeHeader(0, len(part), record.Piece|record.HasToken)
		room, _, ok := s.reserve(pool, h.Bytes())
		if !ok {
			return rooms, false
		}
		s.hold(room.segment)
		room.record.SetHeader(h)
		room.record.Fill(h, "", 0, r.Hash, 0)
		s.copy(room.record.Value(h), part)
		rooms = append(rooms, room)
	}
	return rooms, true
}

// killPieces marks the pieces of an item as dead.
func (s *Shard) killPieces(r record.Record, h record.Header) {
	for at := range record.PieceCount(h) {
		slot := r.PieceAt(h, at)
		if s.isLive(slot) {
			piece := s.record(slot)
			s.kill(int32(slot.Segment()), piece, piece.Header())
		}
	}
}

// passPiece moves a piece if its item survives, and otherwise removes the complete item. It returns
// false if a compaction has no memory to move the piece.
func (s *Shard) passPiece(
	number int32, offset int, piece record.Record, h record.Header, pass *pass,
) bool {
	named := s.slotAt(number, offset)
	owner, at := s.owner(piece.Token(h), named)
	if !owner.isFound() {
		s.kill(number, piece, h)
		return true
	}
	frequency, bytes := owner.header.Frequency(), owner.record.LargeBytes(owner.header)
	if pass.keeps(frequency, bytes, h.Bytes()) && !s.isExpired(owner.record, owner.header) {
		if room, ok := s.copyOut(piece, h, pass); ok {
			owner.record.SetPieceAt(owner.header, at, s.slotOf(piece.Token(h), room))
			s.kill(number, piece, h)
			return true
		}
		if !pass.evicts {
			return false
		}
	}
	if s.isExpired(owner.record, owner.header) {
		s.remove(&owner, Expired)
		return true
	}
	s.remove(&owner, Evicted)
	s.stats.Evictions++
	return true
}

// owner finds the item that a piece belongs to, and the number of the piece.
func (s *Shard) owner(hash uint64, piece record.Slot) (found place, number int) {
	tag := s.tag(hash)
	s.chain(s.group(s.level.Load(), hash), func(at *uint64, slot record.Slot) {
		if found.isFound() || slot.Tag() != tag || !s.isLive(slot) {
			return
		}
		r := s.record(slot)
		h := r.Header()
		if !h.Has(record.Large) {
			return
		}
		for place := range record.PieceCount(h) {
			if withoutTag(r.PieceAt(h, place)) == piece {
				found.at, found.slot, found.record, found.header = at, slot, r, h
				number = place
				return
			}
		}
	})
	return found, number
}

func withoutTag(slot record.Slot) record.Slot {
	return record.MakeSlot(0, slot.Generation(), slot.Segment(), slot.Offset())
}

// AppendValue appends the value of an item to dst. The caller holds the mutex.
func (s *Shard) AppendValue(dst []byte, r record.Record, h record.Header) []byte {
	if !h.Has(record.Large) {
		return append(dst, r.Value(h)...)
	}
	for at := range record.PieceCount(h) {
		piece := s.record(r.PieceAt(h, at))
		dst = append(dst, piece.Value(piece.Header())...)
	}
	return dst
}

// ReadLarge appends a large value to dst without the lock. It returns false if the item has changed
// during the read; the caller then searches again. After the call, the cell may pin another
// segment.
func (s *Shard) ReadLarge(dst []byte, cell *pins.Cell, found *Found) ([]byte, bool) {
	wraps := s.wraps.Load()
	// Check that the item still exists, after wraps is loaded. Writers update the list of an item only
	// while the item exists. The words in the list of a removed item may be so old that the
	// generations of their segments have started again from zero before wraps was loaded; they could
	// then equal generations of other records.
	if load(found.at) != found.Slot {
		return dst, false
	}
	h, start := found.Header, len(dst)
	var few [64]record.Slot
	pieces := few[:0]
	for at := range record.PieceCount(h) {
		pieces = append(pieces, found.Record.PieceAt(h, at))
	}
	for _, slot := range pieces {
		segment := slot.Segment()
		cell.Pin(pins.Segment(s.config.Number, segment))
		// Like check, the reader pins the segment before it loads the generation. But it cannot find out
		// from the index whether the word is too old, because the word comes from a list. Instead it
		// checks that no generation has started again from zero since it loaded wraps.
		if s.generations[segment].Load() != slot.Generation() || s.wraps.Load() != wraps {
			return dst[:start], false
		}
		piece := s.record(slot)
		dst = append(dst, piece.Value(piece.Header())...)
	}
	return dst, true
}
