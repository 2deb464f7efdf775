//go:build amd64 || arm64

// Package prefetch asks the processor to load memory that the program needs soon. An address need
// not be valid: the processor ignores an invalid address. On other machines the functions do
// nothing.
//
// The functions are in assembly, because Go has no such instruction outside of its runtime.
package prefetch

// LineBytes is the size of a line of the processor's cache.
const LineBytes = 64

// Read prefetches the line of an address.
//
//go:noescape
func Read(at uintptr)

// Write prefetches the line of an address that the program will write.
//
//go:noescape
func Write(at uintptr)

// WriteBehind prefetches the lines that the program will write next: a number of bytes, at least
// one, from the address on that is stored at tail. Others may change this address during the call.
//
//go:noescape
func WriteBehind(tail *uintptr, bytes int)
