// Package memory provides the memory of a cache, its arena. The garbage collector neither scans nor
// counts it. On systems without such memory, and with the build tag larder_heap, it is a slice of
// words on the Go heap.
package memory

import (
	"errors"
	"unsafe"
)

// ErrSize is the error for a size that the machine cannot address.
var ErrSize = errors.New("invalid memory size")

// HugePageBytes is the size of a huge page. An arena of mapped memory starts on a multiple of it.
const HugePageBytes = 2 << 20

// Arena is zeroed memory that starts on a page, or at least on a word.
type Arena struct {
	base  unsafe.Pointer
	bytes int
	// held is the slice that keeps the memory reachable if it is on the Go heap, and otherwise the
	// data that Free needs.
	held held
}

// New returns an arena of at least this number of bytes.
func New(bytes int) (*Arena, error) {
	if bytes <= 0 {
		return nil, ErrSize
	}
	return allocate(bytes)
}

// Base returns the address of the first byte. It is a multiple of eight.
func (a *Arena) Base() unsafe.Pointer { return a.base }

// Bytes returns the size.
func (a *Arena) Bytes() int { return a.bytes }
