// Package stream copies bytes to memory that the program does not read again soon.
//
// A plain store to memory that is not in the processor's cache first reads that memory into the
// cache, and pushes other lines out of it. The stores of this package do neither, on amd64: they
// write complete lines directly to memory. On other machines Copy is a plain copy.
package stream

import "unsafe"

// lineBytes is the size of a line of the processor's cache.
const lineBytes = 64

// Copy copies src to the start of dst, which must be at least as long. A store that follows Copy
// becomes visible to other processors after the copied bytes.
func Copy(dst, src []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) & (lineBytes - 1))
	lines := (len(src) - head) / lineBytes
	if !isKnown || lines < 1 {
		copy(dst, src)
		return
	}
	// Neighbours of dst share its first and its last line, so their bytes are stored as usual. They
	// come first: reading these lines then overlaps with the writing of the others.
	tail := head + lines*lineBytes
	copy(dst[:head], src)
	copy(dst[tail:], src[tail:])
	copyLines(&dst[head], &src[head], lines)
}
