//go:build unix && !larder_heap

package memory

import (
	"fmt"
	"syscall"
	"unsafe"
)

type held = []byte

// hugeFromBytes is the size of arenas from which on huge pages are asked for. The pages that a
// shard touches first take two megabytes of memory at once.
const hugeFromBytes = 8 << 20

func allocate(bytes int) (*Arena, error) {
	const protection = syscall.PROT_READ | syscall.PROT_WRITE
	mapped, err := syscall.Mmap(-1, 0, bytes+HugePageBytes, protection,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("cannot map %d bytes: %w", bytes, err)
	}
	// What lies in front of the base and behind the arena is never touched and takes no memory.
	base := unsafe.Pointer(unsafe.SliceData(mapped))
	skipped := int(-uintptr(base) & (HugePageBytes - 1))
	if bytes >= hugeFromBytes {
		adviseHugePages(mapped[skipped : skipped+bytes])
	}
	// The mapping is not part of the Go heap: it stays in place until Free unmaps it.
	return &Arena{base: unsafe.Add(base, skipped), bytes: bytes, held: mapped}, nil
}

// Free gives the memory back to the system. Every later access faults.
func (a *Arena) Free() error { return syscall.Munmap(a.held) }
