//go:build larder_heap || !(unix || windows)

package memory

import (
	"fmt"
	"unsafe"
)

type held = []uint64

// allocate returns an error for a size that exceeds the addresses of Go's heap. If the system
// cannot provide the memory, Go's runtime ends the program.
func allocate(bytes int) (arena *Arena, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("cannot take %d bytes of Go's heap: %v", bytes, reason)
		}
	}()
	// Allocate one more word: an empty value at the end then has an address inside the allocation, as
	// the rules of package unsafe require.
	words := make([]uint64, (bytes+7)/8+1)
	// Store the slice in held, so that its memory stays reachable.
	return &Arena{base: unsafe.Pointer(unsafe.SliceData(words)), bytes: bytes, held: words}, nil
}

// Free drops the reference to the memory. The memory stays valid as long as other pointers refer to
// it.
func (a *Arena) Free() error {
	a.held = nil
	return nil
}
