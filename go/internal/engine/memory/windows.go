//go:build windows && !larder_heap

package memory

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	commitAndReserve = 0x3000
	readWrite        = 0x4
	release          = 0x8000
)

var (
	kernel       = syscall.NewLazyDLL("kernel32.dll")
	virtualAlloc = kernel.NewProc("VirtualAlloc")
	virtualFree  = kernel.NewProc("VirtualFree")
)

type held = uintptr

func allocate(bytes int) (*Arena, error) {
	address, _, err := virtualAlloc.Call(0, uintptr(bytes), commitAndReserve, readWrite)
	if address == 0 {
		return nil, fmt.Errorf("cannot allocate %d bytes: %w", bytes, err)
	}
	// The address refers to memory outside of the Go heap, which never moves. Vet accepts reading the
	// pointer from the variable, but not converting the number.
	base := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	return &Arena{base: base, bytes: bytes, held: address}, nil
}

// Free returns the memory to the system. Every later access faults.
func (a *Arena) Free() error {
	if freed, _, err := virtualFree.Call(a.held, 0, release); freed == 0 {
		return fmt.Errorf("cannot free memory: %w", err)
	}
	return nil
}
