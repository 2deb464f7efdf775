package prefetch

import (
	"testing"
	"unsafe"
)

// TestPrefetchNeedsNoValidAddress prefetches invalid addresses, because writers prefetch memory
// after the end of a cache.
func TestPrefetchNeedsNoValidAddress(t *testing.T) {
	memory := make([]byte, 4*LineBytes)
	for at := range memory {
		memory[at] = byte(at)
	}
	start := uintptr(unsafe.Pointer(&memory[0]))
	for _, at := range []uintptr{0, 1, 1 << 30, start, start + LineBytes + 3} {
		Read(at)
		Write(at)
		for _, bytes := range []int{1, LineBytes, 3*LineBytes + 1} {
			tail := at
			WriteBehind(&tail, bytes)
			if tail != at {
				t.Errorf("WriteBehind has changed the address to %x", tail)
			}
		}
	}
	for at := range memory {
		if memory[at] != byte(at) {
			t.Fatalf("byte %d has changed", at)
		}
	}
}
