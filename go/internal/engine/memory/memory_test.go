package memory

import (
	"errors"
	"testing"
	"unsafe"
)

func TestAnArenaIsZeroedAndAlignedUpToItsEnd(t *testing.T) {
	arena, err := New(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	for at, value := range unsafe.Slice((*byte)(arena.Base()), arena.Bytes()) {
		if value != 0 {
			t.Fatalf("byte %d is %d", at, value)
		}
	}
	if uintptr(arena.Base())%8 != 0 {
		t.Error("the base is not aligned")
	}
	// With -race and larder_heap, an address outside the allocation is fatal.
	end := unsafe.Add(arena.Base(), arena.Bytes())
	if empty := unsafe.Slice((*byte)(end), 0); len(empty) != 0 {
		t.Error("the empty slice at the end is not empty")
	}
	if err := arena.Free(); err != nil {
		t.Error(err)
	}
	if _, err := New(0); !errors.Is(err, ErrSize) {
		t.Errorf("New(0): %v", err)
	}
}

// TestPopulateKeepsContents populates memory while others use it.
func TestPopulateKeepsContents(t *testing.T) {
	arena, err := New(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	all := unsafe.Slice((*byte)(arena.Base()), arena.Bytes())
	all[5] = 7
	Populate(all[:HugePageBytes])
	if all[5] != 7 || all[HugePageBytes-1] != 0 {
		t.Errorf("bytes %d and %d, want 7 and 0", all[5], all[HugePageBytes-1])
	}
	if err := arena.Free(); err != nil {
		t.Error(err)
	}
}
