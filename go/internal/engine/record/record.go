// Package record defines the memory words of a cache: the header of a record, which is the item in
// memory, and the slot, the word of the index that refers to a record.
//
// A record starts on a multiple of eight bytes:
//
//	header 8 │ deadline 8 │ token 8 │ flags 4 │ key │ value
//
// Marks in the header show whether deadline, token and flags exist. The token is the token for
// compare-and-swap. A value that is too large for one record is stored in pieces, each in a
// separate record; the token of a piece is the hash of the item's key. The contents of a record
// never change after it is published, except the header and the deadline, which change atomically.
package record

import (
	"sync/atomic"
	"unsafe"
)

// Header is the first word of a record:
//
//	last access 22 │ frequency 2 │ marks 10 │ key length 8 │ value length 22
type Header uint64

// The marks of a header.
const (
	HasDeadline Header = 1 << (30 + iota)
	HasToken
	HasFlags
	// Large marks a record whose value is the list of the pieces of the item's value.
	Large
	// Piece marks a record that contains a piece of a large value and no key.
	Piece
	// Dead marks a record that was removed or replaced. Only writers check it.
	Dead
	// Fetched marks a record that was read.
	Fetched
	// Unpublished marks a record that is still being written.
	Unpublished
	// Stale marks an item whose value a client of a server should replace, and Claimed marks an item
	// that a client is replacing. The cache itself only stores these marks.
	Stale
	Claimed
)

const (
	keyShift       = 22
	frequencyShift = 40
	accessShift    = 42

	// FrequencyMax is the largest number of reads that a header counts.
	FrequencyMax = 3
	// AccessSeconds is the number of seconds after which times of access wrap.
	AccessSeconds = 1 << 22

	// HeaderBytes is the size of a header, and of each word after it.
	HeaderBytes = 8
	flagsBytes  = 4
)

// MakeHeader returns a header with these lengths and marks.
func MakeHeader(keyBytes, valueBytes int, marks Header) Header {
	return Header(valueBytes) | Header(keyBytes)<<keyShift | marks
}

// Has returns true if the header has the mark.
func (h Header) Has(mark Header) bool { return h&mark != 0 }

// KeyBytes returns the length of the key.
func (h Header) KeyBytes() int { return int(h>>keyShift) & 0xff }

// ValueBytes returns the length of the stored value. For a large value it is the length of the list
// of its pieces.
func (h Header) ValueBytes() int { return int(h & (1<<keyShift - 1)) }

// Frequency returns the number of reads, up to FrequencyMax.
func (h Header) Frequency() int { return int(h>>frequencyShift) & FrequencyMax }

// WithFrequency returns the header with another frequency.
func (h Header) WithFrequency(frequency int) Header {
	return h&^(FrequencyMax<<frequencyShift) | Header(frequency)<<frequencyShift
}

// Access returns the second of the last access.
func (h Header) Access() int64 { return int64(h >> accessShift) }

// WithAccess returns the header with another second of the last access.
func (h Header) WithAccess(second int64) Header {
	return h&(1<<accessShift-1) | Header(second)<<accessShift
}

// Read returns the header after a read.
func (h Header) Read() Header {
	if h.Frequency() < FrequencyMax {
		h += 1 << frequencyShift
	}
	return h | Fetched
}

func (h Header) tokenOffset() int { return HeaderBytes + int(h/HasDeadline&1)*8 }
func (h Header) flagsOffset() int { return h.tokenOffset() + int(h/HasToken&1)*8 }
func (h Header) keyOffset() int   { return h.flagsOffset() + int(h/HasFlags&1)*flagsBytes }

// valueOffset returns the offset of the value. A list of pieces is aligned to a word.
func (h Header) valueOffset() int {
	offset := h.keyOffset() + h.KeyBytes()
	if h.Has(Large) {
		offset = (offset + 7) &^ 7
	}
	return offset
}

// Bytes returns the size of the record, a multiple of eight.
func (h Header) Bytes() int { return (h.valueOffset() + h.ValueBytes() + 7) &^ 7 }

// Record is the address of a record. All methods rely on two conditions: the header has been
// stored, and the memory after it, up to the size in the header, belongs to the record.
type Record struct{ at unsafe.Pointer }

// At returns the record at an address.
func At(at unsafe.Pointer) Record { return Record{at} }

// Address returns the address of the record.
func (r Record) Address() uintptr { return uintptr(r.at) }

func (r Record) word(offset int) *uint64 { return (*uint64)(unsafe.Add(r.at, offset)) }

func (r Record) bytes(offset, count int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.at, offset)), count)
}

// Header loads the header.
func (r Record) Header() Header { return Header(atomic.LoadUint64(r.word(0))) }

// SetHeader stores the header of a record that no reader can reach yet. A plain store is enough:
// the atomic store of the slot that refers to the record publishes the header with the rest of the
// record. An atomic store here would make the writer wait for the memory of the record.
func (r Record) SetHeader(header Header) { *r.word(0) = uint64(header) }

// SwapHeader replaces the header if it is still old.
func (r Record) SwapHeader(old, header Header) bool {
	return atomic.CompareAndSwapUint64(r.word(0), uint64(old), uint64(header))
}

// Mark sets marks in the header and clears others.
func (r Record) Mark(set, clear Header) {
	for {
		old := r.Header()
		if r.SwapHeader(old, old&^clear|set) {
			return
		}
	}
}

// Key returns the key in place.
func (r Record) Key(h Header) []byte { return r.bytes(h.keyOffset(), h.KeyBytes()) }

// HasKey returns true if the record has this key.
func (r Record) HasKey(h Header, key string) bool {
	return h.KeyBytes() == len(key) && string(r.bytes(h.keyOffset(), len(key))) == key
}

// Value returns the stored value in place, with its capacity clipped.
func (r Record) Value(h Header) []byte { return r.bytes(h.valueOffset(), h.ValueBytes()) }

// All returns all bytes of the record after its header.
func (r Record) All(h Header) []byte { return r.bytes(HeaderBytes, h.Bytes()-HeaderBytes) }

// Deadline returns the millisecond at which the item expires, or zero.
func (r Record) Deadline(h Header) int64 {
	if !h.Has(HasDeadline) {
		return 0
	}
	return int64(atomic.LoadUint64(r.word(HeaderBytes)))
}

// SetDeadline stores the deadline of a record that has one.
func (r Record) SetDeadline(deadline int64) {
	atomic.StoreUint64(r.word(HeaderBytes), uint64(deadline))
}

// Token returns the token for compare-and-swap, or zero for a record without a token. For a piece
// it returns the hash of the item's key.
func (r Record) Token(h Header) uint64 {
	if !h.Has(HasToken) {
		return 0
	}
	return *r.word(h.tokenOffset())
}

// Flags returns the flags, or zero.
func (r Record) Flags(h Header) uint32 {
	if !h.Has(HasFlags) {
		return 0
	}
	return *(*uint32)(unsafe.Add(r.at, h.flagsOffset()))
}

// Fill writes the fields between the header and the value.
func (r Record) Fill(h Header, key string, deadline int64, token uint64, flags uint32) {
	if h.Has(HasDeadline) {
		r.SetDeadline(deadline)
	}
	if h.Has(HasToken) {
		*r.word(h.tokenOffset()) = token
	}
	if h.Has(HasFlags) {
		*(*uint32)(unsafe.Add(r.at, h.flagsOffset())) = flags
	}
	copy(r.bytes(h.keyOffset(), len(key)), key)
}

// The list of a large value consists of words: the length of the value, then the slot word of each
// piece.

// PieceCount returns the number of pieces of a large value.
func PieceCount(h Header) int { return h.ValueBytes()/8 - 1 }

// ListBytes returns the size of the list of this number of pieces.
func ListBytes(pieces int) int { return 8 + 8*pieces }

// LargeBytes returns the length of a large value.
func (r Record) LargeBytes(h Header) int { return int(*r.word(h.valueOffset())) }

// SetLargeBytes stores the length of a large value.
func (r Record) SetLargeBytes(h Header, bytes int) { *r.word(h.valueOffset()) = uint64(bytes) }

// PieceAt loads the slot word of a piece.
func (r Record) PieceAt(h Header, piece int) Slot {
	return Slot(atomic.LoadUint64(r.word(h.valueOffset() + 8 + 8*piece)))
}

// SetPieceAt stores the slot word of a piece.
func (r Record) SetPieceAt(h Header, piece int, slot Slot) {
	atomic.StoreUint64(r.word(h.valueOffset()+8+8*piece), uint64(slot))
}
