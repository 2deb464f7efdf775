//go:build !larder_heap

package engine

import (
	"fmt"
	"hash/maphash"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine/memory"
)

// hugeBytes returns the number of bytes of the arena's mappings that are in huge pages.
func hugeBytes(t testing.TB, e *Engine) (bytes int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	check.NoError(t, err)
	base := uint64(uintptr(e.arena.Base()))
	isInside := false
	header := regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) `)
	for line := range strings.SplitSeq(string(text), "\n") {
		if found := header.FindStringSubmatch(line); found != nil {
			start, _ := strconv.ParseUint(found[1], 16, 64)
			end, _ := strconv.ParseUint(found[2], 16, 64)
			isInside = start < base+uint64(e.bytes) && base < end
		} else if rest, ok := strings.CutPrefix(line, "AnonHugePages:"); ok && isInside {
			var size int
			_, err := fmt.Sscan(rest, &size)
			check.NoError(t, err)
			bytes += size << 10
		}
	}
	return bytes
}

// openBlocks opens a cache of four shards of 81 segments, in which a block can belong to two
// shards. The function, if not nil, replaces the call of the kernel.
func openBlocks(t testing.TB, collapse func(block []byte) bool) *Engine {
	t.Helper()
	e, err := open(Config{}, geometry{4, 81, 64 << 10}, maphash.MakeSeed())
	check.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	if collapse != nil {
		e.collapser.collapse, e.collapser.mayCollapse = collapse, func() bool { return true }
	}
	return e
}

// fillBlocks uses all segments of a cache of openBlocks. The items that it reads survive evictions
// and then fill the spare segments.
func fillBlocks(t testing.TB, e *Engine) {
	t.Helper()
	for number := range 60_000 {
		_, err := e.Set(key(number%8000), value(number, 4000), 0, 0)
		check.NoError(t, err)
		if number%3 == 0 {
			e.Get(key(number % 8000))
		}
	}
}

// hasNoGoroutine returns true if no goroutine of a cache collapses blocks.
func hasNoGoroutine() bool {
	stacks := make([]byte, 1<<20)
	return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "collapseQueue")
}

func isRunning(e *Engine) bool {
	e.collapser.mutex.Lock()
	defer e.collapser.mutex.Unlock()
	return e.collapser.isRunning
}

func TestEachBlockIsCollapsedOnceAllOfItIsTaken(t *testing.T) {
	var seen [11]atomic.Int32
	var e *Engine
	e = openBlocks(t, func(block []byte) bool {
		offset := uintptr(addressOf(block)) - uintptr(e.arena.Base())
		check.Equal(t, "length", len(block), memory.HugePageBytes)
		check.Equal(t, "offset in a block", offset%memory.HugePageBytes, 0)
		seen[offset/memory.HugePageBytes].Add(1)
		return true
	})
	for number := range 200 {
		_, err := e.Set(key(number), value(number, 1000), 0, 0)
		check.NoError(t, err)
	}
	if isRunning(e) {
		t.Error("a goroutine runs, but no block is full")
	}
	fillBlocks(t, e)
	for number, missing := range e.collapser.missing {
		check.Equal(t, fmt.Sprintf("missing bytes of block %d", number), missing, 0)
	}
	check.Eventually(t, "the end of the goroutine", func() bool {
		return !isRunning(e) && hasNoGoroutine()
	})
	for number := range seen {
		want := int32(1)
		if number == 10 {
			// The arena does not fill this block.
			want = 0
		}
		check.Equal(t, fmt.Sprintf("collapses of block %d", number), seen[number].Load(), want)
	}
}

func TestABlockIsTriedAgainAFewTimes(t *testing.T) {
	var calls atomic.Int32
	e := openBlocks(t, func([]byte) bool {
		calls.Add(1)
		return false
	})
	e.collapser.missing[3] = 0
	if !e.collapser.take(3, 0) {
		t.Fatal("the first block does not start the goroutine")
	}
	e.collapseQueue()
	check.Equal(t, "calls", calls.Load(), collapseTries)
	e.collapser.mayCollapse = func() bool { return false }
	e.collapser.take(4, memory.HugePageBytes)
	e.collapseQueue()
	check.Equal(t, "calls with the setting never", calls.Load(), collapseTries)
}

// TestCloseLeavesTheMemoryToACollapse checks that Close waits for a collapse in progress. Otherwise
// the kernel could change memory that was mapped later at the same address.
func TestCloseLeavesTheMemoryToACollapse(t *testing.T) {
	check.GoroutineLeaks(t)
	begun, mayEnd := make(chan struct{}), make(chan struct{})
	e := openBlocks(t, func([]byte) bool {
		close(begun)
		<-mayEnd
		return true
	})
	fillBlocks(t, e)
	<-begun
	check.NoError(t, e.Close())
	if e.freed.Load() {
		t.Error("the memory is freed while a block is collapsed")
	}
	close(mayEnd)
	check.Eventually(t, "the memory to be freed", e.freed.Load)
}

func TestCloseWhileBlocksAreCollapsed(t *testing.T) {
	check.GoroutineLeaks(t)
	for round := range 50 {
		e := openBlocks(t, nil)
		for number := range 5000 {
			_, err := e.Set(key(number), value(number, 4000), 0, 0)
			check.NoError(t, err)
		}
		isOver := make(chan struct{})
		// Collapse without pauses.
		go func() {
			defer close(isOver)
			for number := 0; e.collapseBlock(block{number: int32(number % 10)}); number++ {
			}
		}()
		time.Sleep(time.Duration(round%10) * time.Millisecond / 2)
		check.NoError(t, e.Close())
		<-isOver
		// The goroutine of the queue may be the last operation, which frees the memory.
		check.Eventually(t, "the memory to be freed", e.freed.Load)
	}
}

func TestCloseEndsAPause(t *testing.T) {
	check.GoroutineLeaks(t)
	const took = time.Second
	begun := make(chan struct{}, 10)
	e := openBlocks(t, func([]byte) bool {
		begun <- struct{}{}
		time.Sleep(took)
		return true
	})
	check.Eventually(t, "the end of the goroutines of other tests", hasNoGoroutine)
	fillBlocks(t, e)
	<-begun
	check.Eventually(t, "the end of the collapse", e.pins.IsIdle)
	check.NoError(t, e.Close())
	waited := check.Eventually(t, "the end of the goroutine", hasNoGoroutine)
	if waited > took {
		t.Errorf("the goroutine ends after %v", waited)
	}
}

func TestASmallCacheKeepsSmallPages(t *testing.T) {
	if e := openTest(t, Config{MemoryBytes: 4 << 20}); e.collapser != nil {
		t.Error("a cache of 4 MiB collapses blocks")
	}
}

func TestUsedMemoryGetsHugePages(t *testing.T) {
	// Only root can change this setting of the whole machine.
	if !memory.MayCollapse() {
		t.Skip("the system is set to use no huge pages")
	}
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	check.NoError(t, err)
	// Linux before 6.1 does not have this call. The probe calls it without package memory, so that a
	// mistake in that package fails this test.
	if !canCollapse(t) {
		t.Skip("this kernel does not collapse memory on request")
	}
	e := openBlocks(t, nil)
	same := value(0, 4000)
	for number := range 5000 {
		_, err := e.Set(key(number), same, 0, 0)
		check.NoError(t, err)
	}
	// With the setting always, the first access allocates huge pages.
	if found := hugeBytes(t, e); found > e.bytes/2 && !strings.Contains(string(setting), "[always]") {
		t.Errorf("%d of %d bytes are in huge pages before the goroutine had time", found, e.bytes)
	}
	fillBlocks(t, e)
	want := len(e.collapser.missing) * memory.HugePageBytes
	check.Eventually(t, "huge pages for all blocks", func() bool { return hugeBytes(t, e) >= want })
	for number := 52_000; number < 60_000; number++ {
		if got, ok := e.Get(key(number % 8000)); ok && string(got) != string(value(number, 4000)) {
			t.Fatalf("item %d has another value", number)
		}
	}
}

// canCollapse returns true if the kernel collapses a block of a cache.
func canCollapse(t testing.TB) bool {
	t.Helper()
	const collapse = 25
	e := openBlocks(t, nil)
	defer func() { _ = e.Close() }()
	block := unsafe.Slice((*byte)(e.arena.Base()), memory.HugePageBytes)
	clear(block[len(block)/2:])
	return syscall.Madvise(block, collapse) == nil
}

func addressOf(block []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(block)) }
