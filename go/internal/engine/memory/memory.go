// Package memory provides the memory of a cache. The garbage collector neither scans nor counts it,
// except where the system has no such memory: there, and under the build tag larder_heap, it is a
// slice of words on the Go heap.
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
	// held is whatever must stay reachable, or is needed to free the memory.
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
