//go:build !amd64 && !arm64

// Package prefetch asks the processor to load memory that the program needs soon. On this machine
// it does nothing.
package prefetch

// LineBytes is the size of a line of the processor's cache.
const LineBytes = 64

// Read does nothing.
func Read(uintptr) {}

// Write does nothing.
func Write(uintptr) {}

// WriteBehind does nothing.
func WriteBehind(*uintptr, int) {}
