//go:build unix && !larder_heap

package memory

import (
	"fmt"
	"syscall"
	"unsafe"
)

type held = []byte

func allocate(bytes int) (*Arena, error) {
	mapped, err := mapAligned(bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot map %d bytes: %w", bytes, err)
	}
	// The mapping is not part of the Go heap: it stays in place until Free unmaps it.
	base := unsafe.Pointer(unsafe.SliceData(mapped.aligned))
	return &Arena{base: base, bytes: bytes, held: mapped.all}, nil
}

// mapping is memory from the system. The bytes before and after the aligned part are never accessed
// and use no memory.
type mapping struct{ all, aligned []byte }

// mapAligned maps memory that starts on a multiple of the size of a huge page.
func mapAligned(bytes int) (mapping, error) {
	const protection = syscall.PROT_READ | syscall.PROT_WRITE
	all, err := syscall.Mmap(-1, 0, bytes+HugePageBytes, protection, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return mapping{}, err
	}
	skipped := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) & (HugePageBytes - 1))
	return mapping{all, all[skipped : skipped+bytes]}, nil
}

// Free returns the memory to the system. Every later access faults.
func (a *Arena) Free() error { return syscall.Munmap(a.held) }
