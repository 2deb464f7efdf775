package engine

import (
	"sync"
	"time"
	"unsafe"

	"larder.example/larder/internal/engine/memory"
	"larder.example/larder/internal/engine/pins"
)

// With huge pages of 2 MiB, reads of a large cache are faster. But the memory of a cache begins
// with small pages, because the first access to a huge page can take milliseconds: the kernel may
// have to move memory to free a huge page, or the host of a virtual machine may have to provide it.
// Go cannot stop a goroutine during such an access, so a garbage collection would pause the whole
// program for that time, and a lock that the goroutine holds would stay locked. Therefore a block
// of 2 MiB of the arena, the memory of the cache, uses small pages until writers have taken all
// segments in it. Then a goroutine collapses the block: it asks the kernel to replace the small
// pages with one huge page. See
// docs/decisions/0035-go-memory-becomes-huge-pages-after-first-use.md.

const (
	// collapseFromBytes is the size of the smallest cache that collapses its blocks.
	collapseFromBytes = 8 << 20
	// collapseTries is the number of attempts to collapse a block.
	collapseTries = 4
	// collapsePause is the time between two blocks, which limits the speed to 128 MiB in a second.
	// While writers take new segments, the pause is fillingPause, because the writers need the
	// processor themselves.
	collapsePause = time.Second / 64
	fillingPause  = time.Second / 8
	// The pause after a collapse is at least pauseMultiple times as long as the collapse. Where
	// collapses are slow, they thus use at most a fifth of a processor.
	pauseMultiple = 4
)

// block is a part of the arena that has the size of a huge page.
type block struct {
	number int32
	// tries is the number of attempts so far.
	tries int32
}

// collapser keeps the blocks that should become huge pages.
type collapser struct {
	mutex sync.Mutex
	// missing contains, for each block, the number of its bytes that belong to segments that no writer
	// has taken yet. A block may belong to two shards.
	missing []int32
	// queue contains the blocks to collapse, in order.
	queue []block
	// isFilling is true if a block has been taken since the last pause.
	isFilling bool
	// isRunning is true while a goroutine works on the queue.
	isRunning bool
	// isOff is true after SetMemory has returned memory to the system, because a collapse would
	// allocate that memory again. The lock working is held during a collapse.
	isOff   bool
	working sync.Mutex
	// collapse and mayCollapse are the functions of package memory. Tests replace them.
	collapse    func(block []byte) bool
	mayCollapse func() bool
}

// collapserBytes returns the memory that the collapser of a cache needs.
func collapserBytes(memoryBytes int64) int {
	if memoryBytes < collapseFromBytes {
		return 0
	}
	const missing = 4
	return int(memoryBytes/memory.HugePageBytes) * (missing + int(unsafe.Sizeof(block{})))
}

// openCollapser returns the function that the shards call for each part of a block whose segments
// have all been taken. It returns nil if the cache does not collapse blocks.
func (e *Engine) openCollapser() (taken func(part []byte)) {
	if !memory.CollapseIsKnown || e.bytes < collapseFromBytes {
		return nil
	}
	// Leave out the last block unless the arena fills it, because the mapping may end within the
	// block.
	c := &collapser{
		missing:  make([]int32, e.bytes/memory.HugePageBytes),
		collapse: memory.Collapse, mayCollapse: memory.MayCollapse,
	}
	for number := range c.missing {
		c.missing[number] = memory.HugePageBytes
	}
	e.collapser = c
	return func(part []byte) {
		offset := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(e.arena.Base())
		if c.take(int(offset/memory.HugePageBytes), len(part)) {
			go e.collapseQueue()
		}
	}
}

// take records that bytes of a block have been taken. It returns true if the caller must start the
// goroutine for the queue.
func (c *collapser) take(number, bytes int) (starts bool) {
	if number == len(c.missing) {
		return false
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isOff {
		return false
	}
	if c.missing[number] -= int32(bytes); c.missing[number] > 0 {
		return false
	}
	c.queue = append(c.queue, block{number: int32(number)})
	starts = !c.isRunning
	c.isFilling, c.isRunning = true, true
	return starts
}

// next returns the block to collapse next, and the pause after it. If the queue is empty, the
// goroutine must end.
func (c *collapser) next() (next block, pause time.Duration, ok bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.queue) == 0 {
		c.queue, c.isRunning = nil, false
		return block{}, 0, false
	}
	next, c.queue = c.queue[0], c.queue[1:]
	pause = collapsePause
	if c.isFilling {
		pause = fillingPause
	}
	c.isFilling = false
	return next, pause, true
}

func (c *collapser) hasEnded() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.isOff
}

// again appends a block to the queue, unless it has been tried too often.
func (c *collapser) again(b block) {
	if b.tries++; b.tries < collapseTries {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if !c.isOff {
			c.queue = append(c.queue, b)
		}
	}
}

// turnOff prevents further collapses, and waits for the collapse in progress.
func (c *collapser) turnOff() {
	if c == nil {
		return
	}
	c.mutex.Lock()
	c.queue, c.isOff = nil, true
	c.mutex.Unlock()
	c.working.Lock()
	defer c.working.Unlock()
}

// collapseQueue collapses blocks until the queue is empty or the cache is closed.
func (e *Engine) collapseQueue() {
	// Pause first, because the previous goroutine may have ended without a pause.
	timer := time.NewTimer(fillingPause)
	defer timer.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-timer.C:
		}
		next, pause, ok := e.collapser.next()
		started := time.Now()
		if !ok || !e.collapseBlock(next) {
			return
		}
		timer.Reset(max(pause, pauseMultiple*time.Since(started)))
	}
}

// collapseBlock collapses a block. It returns false if the cache is closed.
func (e *Engine) collapseBlock(b block) bool {
	if !e.collapser.mayCollapse() {
		return true
	}
	cell, ok := e.begin()
	if !ok {
		return false
	}
	defer e.end(cell, pins.None)
	e.collapser.working.Lock()
	defer e.collapser.working.Unlock()
	if e.collapser.hasEnded() {
		return true
	}
	start := unsafe.Add(e.arena.Base(), int(b.number)*memory.HugePageBytes)
	if !e.collapser.collapse(unsafe.Slice((*byte)(start), memory.HugePageBytes)) {
		e.collapser.again(b)
	}
	return true
}
