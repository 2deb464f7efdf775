package stream

import (
	"bytes"
	"testing"
)

// TestCopyWritesItsBytesOnly copies lengths around several lines to each place within a line.
func TestCopyWritesItsBytesOnly(t *testing.T) {
	const around = 2 * lineBytes
	src, memory := make([]byte, 5*lineBytes), make([]byte, 5*lineBytes+2*around)
	for at := range src {
		src[at] = byte(at*7 + 1)
	}
	for offset := range lineBytes {
		for length := range len(src) - lineBytes {
			clear(memory)
			want := bytes.Clone(memory)
			start := around + offset
			copy(want[start:], src[offset:][:length])
			Copy(memory[start:], src[offset:][:length])
			if !bytes.Equal(memory, want) {
				t.Fatalf("a copy of %d bytes to offset %d has stored other bytes", length, offset)
			}
		}
	}
}
