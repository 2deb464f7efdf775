// Package pins holds the table that says which segments are being read.
//
// Each operation on a cache claims a cell of the table before it touches memory of the cache, and
// releases it last. While the cell names a segment, this segment is not used anew. The cells also
// count hits and misses: the counters share the word of the claim, so that they cost nothing.
package pins

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// The word of a cell:
//
//	misses 18 │ hits 18 │ state 28
//
// The state is free, claimed, or firstPin + the number of a segment.
const (
	stateBits = 28
	stateMask = 1<<stateBits - 1
	countBits = 18

	free     = 0
	claimed  = 1
	firstPin = 2

	// Hit and Miss are the outcomes that Release counts; None counts nothing.
	None = uint64(0)
	Hit  = uint64(1) << stateBits
	Miss = uint64(1) << (stateBits + countBits)

	halfFull = Hit<<(countBits-1) | Miss<<(countBits-1)
)

// SegmentBits is the number of bits of a segment's number within its shard.
const SegmentBits = 14

// Segment names a segment of a shard.
func Segment(shard, segment int) uint64 { return uint64(shard)<<SegmentBits | uint64(segment) }

// cellBytes keeps cells apart: processors fetch lines of 64 bytes in pairs.
const cellBytes = 128

// Cell is the place where an operation says which segment it reads.
type Cell struct {
	word atomic.Uint64
	// counts are the counters of the word. Only the operation that holds the cell uses them.
	counts uint64
	// What the counters of the word held when they were half full.
	hits, misses atomic.Uint64
	_            [cellBytes - 4*8]byte
}

// Table is all cells of a cache.
type Table struct {
	cells []Cell
	shift uint
	// views is the number of cells, from the first one on, for operations that may take long.
	views int
	// others counts the operations without a cell.
	others atomic.Int64
}

// Cells returns the number of cells of a table on this machine, and their bytes.
func Cells() (count, bytes int) {
	count = 1 << bits.Len(uint(max(64, 4*runtime.NumCPU())-1))
	return count, count * cellBytes
}

// NewTable returns a table in which at most views operations hold a segment for long.
func NewTable(views int) *Table {
	count, _ := Cells()
	return &Table{
		cells: make([]Cell, count),
		shift: uint(64 - bits.Len(uint(count-1))),
		views: min(max(views, 1), count),
	}
}

// place returns a number that differs between goroutines that run at the same time, and stays the
// same for one of them: goroutines have stacks of their own, of 2 KiB at least.
func place() uint64 {
	var local byte
	return uint64(uintptr(unsafe.Pointer(&local))>>11) * 0x9E3779B97F4A7C15
}

// Claim claims a cell. It returns nil if none is free; the caller then counts itself by Enter.
func (t *Table) Claim() *Cell {
	at := place() >> t.shift
	for range t.cells {
		if cell := &t.cells[at&uint64(len(t.cells)-1)]; cell.claim() {
			return cell
		}
		at++
	}
	return nil
}

// ClaimView claims one of the cells for operations that may take long, or returns nil.
func (t *Table) ClaimView() *Cell {
	at := int(place() >> 33 % uint64(t.views))
	for range t.views {
		if cell := &t.cells[at]; cell.claim() {
			return cell
		}
		if at++; at == t.views {
			at = 0
		}
	}
	return nil
}

func (c *Cell) claim() bool {
	word := c.word.Load()
	if word&stateMask != free || !c.word.CompareAndSwap(word, word|claimed) {
		return false
	}
	c.counts = word
	return true
}

// Pin names the segment that the holder of the cell reads from here on.
func (c *Cell) Pin(segment uint64) { c.word.Store(c.counts | (firstPin + segment)) }

// Unpin names no segment. The cell stays claimed.
func (c *Cell) Unpin() { c.word.Store(c.counts | claimed) }

// Count adds outcomes that Release does not: hits and misses of an operation on several keys.
func (c *Cell) Count(hits, misses int) {
	c.hits.Add(uint64(hits))
	c.misses.Add(uint64(misses))
}

// Release gives the cell back and counts the outcome of the operation.
func (c *Cell) Release(outcome uint64) {
	counts := c.counts + outcome
	if counts&halfFull != 0 {
		counts = c.spill(counts)
	}
	c.word.Store(counts)
}

func (c *Cell) spill(counts uint64) uint64 {
	c.hits.Add(counts >> stateBits & (1<<countBits - 1))
	c.misses.Add(counts >> (stateBits + countBits))
	return 0
}

// Enter counts an operation without a cell, and Leave ends it.
func (t *Table) Enter() { t.others.Add(1) }

// Leave ends an operation without a cell.
func (t *Table) Leave() { t.others.Add(-1) }

// CountOther counts an outcome of an operation without a cell.
func (t *Table) CountOther(outcome uint64) {
	switch outcome {
	case Hit:
		t.cells[0].hits.Add(1)
	case Miss:
		t.cells[0].misses.Add(1)
	}
}

// IsIdle returns true if no operation is under way.
func (t *Table) IsIdle() bool {
	for at := range t.cells {
		if t.cells[at].word.Load()&stateMask != free {
			return false
		}
	}
	return t.others.Load() == 0
}

// IsPinned returns true if an operation reads the segment.
func (t *Table) IsPinned(segment uint64) bool {
	for at := range t.cells {
		if t.cells[at].word.Load()&stateMask == firstPin+segment {
			return true
		}
	}
	return false
}

// Each calls visit for each segment of a shard that an operation reads.
func (t *Table) Each(shard int, visit func(segment int)) {
	for at := range t.cells {
		state := t.cells[at].word.Load() & stateMask
		if state >= firstPin && (state-firstPin)>>SegmentBits == uint64(shard) {
			visit(int((state - firstPin) & (1<<SegmentBits - 1)))
		}
	}
}

// Counts returns the hits and misses so far.
func (t *Table) Counts() (hits, misses uint64) {
	for at := range t.cells {
		cell := &t.cells[at]
		word := cell.word.Load()
		hits += cell.hits.Load() + word>>stateBits&(1<<countBits-1)
		misses += cell.misses.Load() + word>>(stateBits+countBits)
	}
	return hits, misses
}
