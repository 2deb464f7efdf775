//go:build unix && !larder_heap

package memory

import (
	"fmt"
	"syscall"
	"unsafe"
)

type held = []byte

func allocate(bytes int) (*Arena, error) {
	const protection = syscall.PROT_READ | syscall.PROT_WRITE
	mapped, err := syscall.Mmap(-1, 0, bytes, protection, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("cannot map %d bytes: %w", bytes, err)
	}
	// The mapping is not part of the Go heap: it stays in place until Free unmaps it.
	return &Arena{base: unsafe.Pointer(unsafe.SliceData(mapped)), bytes: bytes, held: mapped}, nil
}

// Free gives the memory back to the system. Every later access faults.
func (a *Arena) Free() error { return syscall.Munmap(a.held) }
