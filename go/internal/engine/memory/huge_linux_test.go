//go:build !larder_heap

package memory

import (
	"bytes"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"
)

// TestCollapseKeepsContents collapses memory while others use it.
func TestCollapseKeepsContents(t *testing.T) {
	arena, err := New(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	all := unsafe.Slice((*byte)(arena.Base()), arena.Bytes())
	for at := range all {
		all[at] = byte(at / 4096)
	}
	counter := (*atomic.Uint64)(arena.Base())
	counter.Store(0)
	before, isOver, counted := mappings(t), make(chan struct{}), make(chan uint64)
	go func() {
		count := uint64(0)
		for {
			select {
			case <-isOver:
				counted <- count
				return
			default:
				counter.Add(1)
				count++
			}
		}
	}()
	for block := range 4 {
		Collapse(all[block*HugePageBytes:][:HugePageBytes])
	}
	close(isOver)
	if want, got := <-counted, counter.Load(); got != want {
		t.Errorf("the counter is %d, want %d", got, want)
	}
	for at := 8; at < len(all); at++ {
		if all[at] != byte(at/4096) {
			t.Fatalf("byte %d is %d, want %d", at, all[at], byte(at/4096))
		}
	}
	// Each goroutine may start a thread, with two mappings.
	if after := mappings(t); after > before+8 {
		t.Errorf("%d mappings after, %d before", after, before)
	}
	for range 100 {
		Collapse(all[:HugePageBytes])
	}
	if after := mappings(t); after > before+16 {
		t.Errorf("%d mappings after 100 collapses, %d before", after, before)
	}
	if err := arena.Free(); err != nil {
		t.Error(err)
	}
}

func mappings(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("\n"))
}

func TestTheSettingNeverIsRespected(t *testing.T) {
	for setting, want := range map[string]bool{
		"always madvise [never]\n": false, "always [madvise] never\n": true, "[always] madvise never\n": true,
	} {
		if got := allows([]byte(setting)); got != want {
			t.Errorf("allows(%q) = %v", setting, got)
		}
	}
}
