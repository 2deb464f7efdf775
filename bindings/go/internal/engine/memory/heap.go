//go:build larder_heap || !(unix || windows)

package memory

import "unsafe"

type held = []uint64

func allocate(bytes int) (*Arena, error) {
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
