package reader

// header is the first word of a record, shown with the highest bits first:
//
//	used 20 │ initial freq 3 │ mark 5 │ fields 8 │ key length 8 │ value length 20
//
// mark is 0 for most records. For a number it is the length of the number's text. For a value that
// can grow in place, 1<<mark is the unit to which the record's length is rounded up. used is the
// time of the last use.
type header uint64

// The fields and properties of a record, as bits of its header.
const (
	hasVersion      = 1
	hasDeadline     = 2
	hasFlags        = 4
	isLarge         = 8
	isPiece         = 16
	isNumber        = 32
	isStale         = 64
	hasRecacheToken = 128
)

const (
	valueMask       = 1<<20 - 1
	keyShift        = 20
	keyMask         = 0xFF
	fieldsShift     = 28
	markShift       = 36
	markMask        = 31
	initialFreqMask = 7 << 41
	usedShift       = 44
	usedMask        = 1<<20 - 1
	recordHead      = 8
	pieceHead       = 16
	numberTextMax   = 31
	// lifeMask covers the header bits that change while the record stays in place.
	lifeMask = usedMask<<usedShift | initialFreqMask | (isStale|hasRecacheToken)<<fieldsShift
)

// The time of the last use is in units of 2 seconds. A writer updates it when it is 30 units old. A
// time that is up to 1024 units ahead of the clock counts as now.
const (
	usedUnitSecs      = 2
	usedRefreshUnits  = 30
	usedAheadUnitsMax = 1024
)

func (h header) has(fields uint64) bool { return uint64(h)>>fieldsShift&fields != 0 }
func (h header) valueBytes() uint64     { return uint64(h) & valueMask }
func (h header) keyBytes() uint64       { return uint64(h) >> keyShift & keyMask }
func (h header) mark() uint64           { return uint64(h) >> markShift & markMask }

// fits reports whether the record may belong to a key of this length. A piece has no key and never
// fits.
func (h header) fits(keyBytes int) bool { return h.keyBytes() == uint64(keyBytes) }

// isUseDue reports whether the recorded time of the last use is so old that the owner updates it at
// the next read.
func (h header) isUseDue(now uint32) bool {
	units := (uint64(now)/usedUnitSecs - uint64(h)>>usedShift) & usedMask
	return units >= usedRefreshUnits && units <= usedMask-usedAheadUnitsMax
}

// sameLayout reports whether two headers differ at most in the bits that may change while the
// record stays in place.
func (h header) sameLayout(other header) bool { return uint64(h^other)&^lifeMask == 0 }

// changesInPlace reports whether the value may change without moving.
func (h header) changesInPlace() bool { return h.mark() != 0 }

// visibleBytes returns the length of the value that clients read. For a large value it is
// meaningless: there valueBytes is the length of the table of pieces.
func (h header) visibleBytes() uint64 {
	if h.has(isNumber) {
		return h.mark()
	}
	return h.valueBytes()
}

// The offsets of a record's parts. The optional fields come first, the widest at the front; a field
// exists only if its bit in the header is set.

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
		// A number, and each word of a large value's table, changes by one atomic store, so it must be
		// aligned.
		return roundUp(end, 8)
	}
	return end
}

// bytes returns the length of the record, including padding.
func (h header) bytes() uint64 {
	unit := uint64(8)
	if h.changesInPlace() && !h.has(isNumber) {
		unit = max(unit, 1<<h.mark())
	}
	return roundUp(h.valueAt()+h.valueBytes(), unit)
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }
