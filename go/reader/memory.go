package reader

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"
)

// memory is a mapping that other processes write. A load beyond the end reads the last word
// instead.
//
// Every load is an atomic load of a whole word, also in copies. Therefore no load is a data race in
// Go's memory model, and no load is reordered. The bytes may still change during a copy; the caller
// detects that by loading the sequence before and after it.
type memory struct {
	base  unsafe.Pointer
	bytes uint64 // at least memoryBytesMin
	// mapped is the mapping as a slice.
	mapped []byte
}

const memoryBytesMin = 4096

func memoryOf(mapped []byte) *memory {
	return &memory{base: unsafe.Pointer(unsafe.SliceData(mapped)), bytes: uint64(len(mapped)), mapped: mapped}
}

// word loads the word at an offset, which is rounded down to a multiple of 8.
func (m *memory) word(at uint64) uint64 {
	// A mapping consists of pages, so the last word is complete for any length of the file.
	at = min(at, m.bytes-1) &^ 7
	return atomic.LoadUint64((*uint64)(unsafe.Add(m.base, at)))
}

// half loads the 32 bits at an offset, which is rounded down to a multiple of 4.
func (m *memory) half(at uint64) uint32 {
	at = min(at, m.bytes-1) &^ 3
	return atomic.LoadUint32((*uint32)(unsafe.Add(m.base, at)))
}

// unaligned loads eight bytes from anywhere, in two loads.
func (m *memory) unaligned(at uint64) uint64 {
	shift := (at & 7) * 8
	return m.word(at)>>shift | m.word(at+8)<<(64-shift)
}

// holds reports whether n bytes at an offset are within the mapping.
func (m *memory) holds(at, n uint64) bool { return at <= m.bytes && n <= m.bytes-at }

// equals compares the bytes at an offset with a key.
func (m *memory) equals(at uint64, key []byte) bool {
	if !m.holds(at, uint64(len(key))) {
		return false
	}
	for ; len(key) >= 8; key, at = key[8:], at+8 {
		if m.unaligned(at) != binary.LittleEndian.Uint64(key) {
			return false
		}
	}
	if len(key) == 0 {
		return true
	}
	left := m.unaligned(at)
	for _, b := range key {
		if byte(left) != b {
			return false
		}
		left >>= 8
	}
	return true
}

// appendTo appends n bytes at an offset to dst. If they are not within the mapping, it appends
// nothing.
func (m *memory) appendTo(dst []byte, at, n uint64) []byte {
	if !m.holds(at, n) {
		return dst
	}
	start := len(dst)
	dst = slices.Grow(dst, int(n))[:start+int(n)]
	out := dst[start:]
	if skipped := at & 7; skipped != 0 {
		first := m.word(at) >> (8 * skipped)
		part := min(len(out), int(8-skipped))
		putLow(out[:part], first)
		out, at = out[part:], at+uint64(part)
	}
	// From here on offsets are multiples of 8, and whole words are within the mapping.
	from := unsafe.Add(m.base, at)
	for ; len(out) >= 32; out, from = out[32:], unsafe.Add(from, 32) {
		binary.LittleEndian.PutUint64(out, atomic.LoadUint64((*uint64)(from)))
		binary.LittleEndian.PutUint64(out[8:], atomic.LoadUint64((*uint64)(unsafe.Add(from, 8))))
		binary.LittleEndian.PutUint64(out[16:], atomic.LoadUint64((*uint64)(unsafe.Add(from, 16))))
		binary.LittleEndian.PutUint64(out[24:], atomic.LoadUint64((*uint64)(unsafe.Add(from, 24))))
	}
	for ; len(out) >= 8; out, from = out[8:], unsafe.Add(from, 8) {
		binary.LittleEndian.PutUint64(out, atomic.LoadUint64((*uint64)(from)))
	}
	if len(out) > 0 {
		putLow(out, atomic.LoadUint64((*uint64)(from)))
	}
	return dst
}

// putLow writes the low bytes of a word to out.
func putLow(out []byte, word uint64) {
	for i := range out {
		out[i] = byte(word)
		word >>= 8
	}
}
