package engine

import (
	"sync"
	"time"
	"unsafe"

	"larder.example/larder/internal/engine/memory"
	"larder.example/larder/internal/engine/pins"
)

// The memory of a cache begins with small pages: the first access to a huge page costs milliseconds
// if the kernel must move memory for it, or a host provide it, and a goroutine in that access can
// neither be stopped for a collection of Go's heap nor give a lock back. When all segments in a
// block of the arena have been taken, a goroutine asks the kernel to make the block a huge page.

const (
	// collapseFromBytes is the size of caches from which on blocks are collapsed.
	collapseFromBytes = 8 << 20
	// collapseTries is the number of attempts to collapse a block.
	collapseTries = 4
	// collapsePause is the time between two blocks: 128 MiB in a second at most. While writers take
	// new segments, they need the processor themselves, and it is fillingPause.
	collapsePause = time.Second / 64
	fillingPause  = time.Second / 8
	// pauseMultiple is how many times as long as the collapse the pause after it is, at least: where
	// a collapse is slow, all of them take a fifth of a processor.
	pauseMultiple = 4
)

// block is a part of the arena of the size of a huge page.
type block struct {
	number int32
	// tries is the number of attempts so far.
	tries int32
}

// collapser has the blocks that are to become huge pages.
type collapser struct {
	mutex sync.Mutex
	// missing is the bytes of each block whose segments have not been taken yet. A block may lie in
	// two shards.
	missing []int32
	// queue is the blocks to collapse, the next one first.
	queue []block
	// isFilling is true if a block has been taken since the last pause.
	isFilling bool
	// isRunning is true while a goroutine works on the queue.
	isRunning bool
	// isOff is true once memory was returned: a collapse would take it again. working is held
	// during a collapse.
	isOff   bool
	working sync.Mutex
	// collapse and mayCollapse are those of package memory, except in tests.
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

// openCollapser returns the function that the shards call, or nil where blocks are not collapsed.
func (e *Engine) openCollapser() (taken func(part []byte)) {
	if !memory.CollapseIsKnown || e.bytes < collapseFromBytes {
		return nil
	}
	// The last block is left out unless the arena fills it: the mapping may end within.
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

// take notes that bytes of a block have been taken. It returns true if the caller is to start the
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

// next returns the block to collapse next, and the pause after it. If there is none, the goroutine
// ends.
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

// again puts a block at the end of the queue, unless it has been tried too often.
func (c *collapser) again(b block) {
	if b.tries++; b.tries < collapseTries {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if !c.isOff {
			c.queue = append(c.queue, b)
		}
	}
}

// turnOff ends all collapses, and waits for the one in progress.
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

// collapseQueue collapses blocks until there is none or the cache is closed.
func (e *Engine) collapseQueue() {
	// The pause comes first: a goroutine that ends leaves none to the next one.
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
