package reader

// header is the first word of a record.
type header uint64

// The fields of a record, by the bit that says of each that it is there, and what else is said of it in a bit.
const (
	hasVersion  = 1
	hasDeadline = 2
	hasFlags    = 4
	isLarge     = 8
	isPiece     = 16
	isNumber    = 32
	isStale     = 64
	isWon       = 128
)

const (
	fieldsShift   = 32
	markShift     = 40
	markMask      = 31
	bornMask      = 7 << 45
	recordHead    = 8
	pieceHead     = 16
	numberTextMax = 31
	// lifeMask covers what changes in a header while its record stays as it is.
	lifeMask = bornMask | (isStale|isWon)<<fieldsShift
	// fitMask covers check and key length.
	fitMask = 0xFFFF<<48 | 0xFF<<24
)

func (h header) has(fields uint64) bool { return uint64(h)>>fieldsShift&fields != 0 }
func (h header) valueBytes() uint64     { return uint64(h) & 0xFF_FFFF }
func (h header) keyBytes() uint64       { return uint64(h) >> 24 & 0xFF }
func (h header) mark() uint64           { return uint64(h) >> markShift & markMask }

// fits says whether it could be the record of a key with this hash and length. A piece has no key, so none fits it.
func (h header) fits(hash uint64, keyBytes int) bool {
	return keyBytes <= 0xFF && (uint64(h)^(hash>>48<<48|uint64(keyBytes)<<24))&fitMask == 0
}

// sameForm says whether another header says the same of what stands in the record.
func (h header) sameForm(other header) bool { return uint64(h^other)&^lifeMask == 0 }

// changesInPlace says whether the value may change where it is.
func (h header) changesInPlace() bool { return h.mark() != 0 }

// shownBytes is the length of the value as users see it; not of a large one.
func (h header) shownBytes() uint64 {
	if h.has(isNumber) {
		return h.mark()
	}
	return h.valueBytes()
}

// Where the parts of a record begin; the widest come first, each is there only if its bit says so.

func (h header) deadlineAt() uint64 {
	if h.has(hasVersion) {
		return recordHead + 8
	}
	return recordHead
}

func (h header) flagsAt() uint64 {
	if h.has(hasDeadline) {
		return h.deadlineAt() + 4
	}
	return h.deadlineAt()
}

func (h header) keyAt() uint64 {
	if h.has(hasFlags) {
		return h.flagsAt() + 4
	}
	return h.flagsAt()
}

func (h header) valueAt() uint64 {
	end := h.keyAt() + h.keyBytes()
	if h.has(isLarge | isNumber) {
		// Words that are changed one by one are aligned.
		return roundUp(end, 8)
	}
	return end
}

// bytes is the length of the record, padding included.
func (h header) bytes() uint64 {
	unit := uint64(8)
	if h.changesInPlace() && !h.has(isNumber) {
		unit = max(unit, 1<<h.mark())
	}
	return roundUp(h.valueAt()+h.valueBytes(), unit)
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }
