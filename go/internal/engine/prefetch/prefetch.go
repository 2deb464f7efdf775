//go:build amd64 || arm64

// Package prefetch asks the processor for memory that is needed soon. An address need not be valid:
// the processor ignores one that it cannot reach. On other machines the functions do nothing.
//
// The functions are in assembly, because Go has no such instruction outside of its runtime.
package prefetch

// LineBytes is the size of a line of the processor's cache.
const LineBytes = 64

// Read asks for the line of an address.
//
//go:noescape
func Read(at uintptr)

// Write asks for the line of an address, which will be written.
//
//go:noescape
func Write(at uintptr)

// WriteBehind asks for lines that will be written: those of a number of bytes, at least one, from
// the address on that is stored at tail. Others may store there at the same time.
//
//go:noescape
func WriteBehind(tail *uintptr, bytes int)
