package reader

import "slices"

// A large value is stored in pieces, each in a separate record. The item's record contains a table
// with the length of the value and a slot word for each piece.

// piecesOnStack is the number of pieces that fit into a buffer on the stack.
const piecesOnStack = 64

// piece is the slot word of a piece, with the sequence of the piece's segment.
type piece struct {
	slot     slot
	sequence uint64
}

// largeValue appends a value that is stored in pieces. It returns false if the value changed during
// the copy.
//
// It first reads the complete table, with the sequence of each piece's segment, and then the table
// again. If the table is unchanged, and each sequence is unchanged after the copy of its piece,
// then all pieces belonged to the item during the copy.
func (v *view) largeValue(dst []byte, record *found) ([]byte, bool) {
	var buf [piecesOnStack]piece
	pieces, ok := v.table(buf[:0], record)
	if !ok {
		return dst, false
	}
	stored := v.memory.word(record.recordAt + record.header.valueAt())
	var bytes uint64
	for _, piece := range pieces {
		bytes += v.pieceBytes(piece)
	}
	// A damaged table may contain a piece several times, or any length.
	if bytes != stored || stored > v.memory.bytes {
		return dst, false
	}
	dst = slices.Grow(dst, int(stored))
	start := len(dst)
	for _, piece := range pieces {
		dst = v.memory.appendTo(dst, v.pieceAt(piece)+pieceHead, v.pieceBytes(piece))
		if v.sequence(piece.slot.segment()) != piece.sequence {
			return dst[:start], false
		}
	}
	return dst, uint64(len(dst)-start) == stored
}

// table reads the table of pieces of a large value.
func (v *view) table(pieces []piece, record *found) ([]piece, bool) {
	at := record.recordAt + record.header.valueAt()
	count := record.header.valueBytes() / 8
	for i := uint64(1); i < count; i++ {
		slot := v.slot(at + 8*i)
		sequence := v.sequence(slot.segment())
		if sequence == 0 || !slot.isOf(sequence) {
			return nil, false
		}
		pieces = append(pieces, piece{slot, sequence})
	}
	for i, piece := range pieces {
		if v.slot(at+8*uint64(i+1)) != piece.slot {
			return nil, false
		}
	}
	return pieces, v.slot(record.slotAt).same(record.slot) && v.isValid(record)
}

func (v *view) pieceAt(piece piece) uint64 {
	return v.layout.segmentAt(piece.slot.segment()) + piece.slot.offset()
}

// pieceBytes returns the number of value bytes in a piece, bounded by the end of its segment.
func (v *view) pieceBytes(piece piece) uint64 {
	end := piece.slot.offset() + pieceHead
	if end > v.layout.segmentBytes {
		return 0
	}
	return min(header(v.memory.word(v.pieceAt(piece))).valueBytes(), v.layout.segmentBytes-end)
}
