//go:build larder_heap || !(unix || windows)

package memory

import (
	"fmt"
	"unsafe"
)

type held = []uint64

// allocate returns an error for a size beyond the addresses of Go's heap. For one that the system
// does not provide, Go's runtime ends the program.
func allocate(bytes int) (arena *Arena, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("cannot take %d bytes of Go's heap: %v", bytes, reason)
		}
	}()
	// One word more: an empty value at the end still has an address inside of the allocation, as the
	// rules of package unsafe demand.
	words := make([]uint64, (bytes+7)/8+1)
	// The slice is held, so that its memory stays reachable through the base alone.
	return &Arena{base: unsafe.Pointer(unsafe.SliceData(words)), bytes: bytes, held: words}, nil
}

// Free drops the memory. It stays valid for those that still point into it.
func (a *Arena) Free() error {
	a.held = nil
	return nil
}
