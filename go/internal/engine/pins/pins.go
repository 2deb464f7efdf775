// Package pins implements the table of pins of a cache: the segments that operations are reading at
// the moment. A segment is a range of memory that the cache empties and reuses as a unit.
//
// Each operation on a cache claims a cell of the table before it accesses memory of the cache, and
// finally releases the cell. While the cell contains the number of a segment, the cache does not
// reuse that segment. The cells also count hits and misses: the counters are in the same word as
// the claim, so counting costs nothing.
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

// Segment returns the number that identifies a segment of a shard.
func Segment(shard, segment int) uint64 { return uint64(shard)<<SegmentBits | uint64(segment) }

// cellBytes keeps cells apart: processors fetch lines of 64 bytes in pairs.
const cellBytes = 128

// Cell is where an operation stores the segment that it reads.
type Cell struct {
	word atomic.Uint64
	// counts are the counters of the word. Only the operation that holds the cell uses them.
	counts uint64
	// hits and misses are the counts that spill has moved here from the word, each time that one of
	// the word's counters was half full.
	hits, misses atomic.Uint64
	_            [cellBytes - 4*8]byte
}

// A table starts small and grows when its cells are in use, so that programs with few goroutines
// scan few cells. A goroutine that is preempted during an operation holds its cell until it runs
// again: with hundreds of busy goroutines, hundreds of cells are held at any time.
const (
	cellsMin  = 64
	cellsMax  = 512
	blocksMax = cellsMax / cellsMin
	// probes is the number of cells that Claim tries before the table grows.
	probes = 16
)

// Table holds all cells of a cache.
type Table struct {
	// blocks are the first cells of arrays of the same length. The blocks beyond count are nil or not
	// in use yet.
	blocks [blocksMax]atomic.Pointer[Cell]
	// count is the number of blocks, a power of two. It only rises.
	count atomic.Uint32
	// shift is the number of bits of a cell's number within its block.
	shift uint
	// views is the number of cells that ClaimView uses, at the start of the table, for operations that
	// may be slow because they run a callback of the program. It limits how many segments slow
	// operations can pin, so that writers find segments to reuse.
	views int
	// others counts the operations without a cell.
	others atomic.Int64
}

// Cells returns the largest number of cells of a table on this machine, and their bytes.
func Cells() (count, bytes int) {
	count = max(cellsMax, blockCells())
	return count, count * cellBytes
}

// blockCells returns the number of cells of a block, a power of two.
func blockCells() int { return 1 << bits.Len(uint(max(cellsMin, 4*runtime.NumCPU())-1)) }

// NewTable returns a table in which at most views operations can pin a segment for a long time.
func NewTable(views int) *Table {
	cells := blockCells()
	t := &Table{shift: uint(bits.Len(uint(cells - 1))), views: min(max(views, 1), cells)}
	t.grow(0)
	return t
}

// grow doubles the number of blocks, unless another goroutine has already done so: count is the
// number that the caller has loaded.
//
// A writer that scans the cells may have loaded the number of blocks before grow has changed it,
// and then misses the cells of the new blocks. This is safe. The writer raises the generation of
// the segment before it scans. An operation with a new cell checks the generation after its claim,
// and finds that the generation has changed.
func (t *Table) grow(count uint32) {
	grown := max(1, 2*count)
	for number := count; number < grown; number++ {
		cells := make([]Cell, 1<<t.shift)
		t.blocks[number].CompareAndSwap(nil, &cells[0])
	}
	t.count.CompareAndSwap(count, grown)
}

// cell returns the cell with a number, which must be below the number of all cells.
func (t *Table) cell(number uint64) *Cell {
	first := unsafe.Pointer(t.blocks[number>>t.shift].Load())
	return (*Cell)(unsafe.Add(first, number&(1<<t.shift-1)*cellBytes))
}

// all returns the number of cells.
func (t *Table) all() uint64 { return uint64(t.count.Load()) << t.shift }

// place returns a number from which a goroutine computes the cell that it tries first, so that
// goroutines that run at the same time try different cells. It derives the number from the address
// of the stack: each goroutine has its own stack of at least 2 KiB.
func place() uint64 {
	var local byte
	return uint64(uintptr(unsafe.Pointer(&local))>>11) * 0x9E3779B97F4A7C15
}

// Claim claims a cell. It returns nil if no cell is free; the caller must then call Enter.
func (t *Table) Claim() *Cell {
	at := place() >> 32
	for {
		count := t.count.Load()
		last := uint64(count)<<t.shift - 1
		mayGrow := (2*count)<<t.shift <= cellsMax
		for probe := range last + 1 {
			if cell := t.cell((at + probe) & last); cell.claim() {
				return cell
			}
			if mayGrow && probe >= probes {
				break
			}
		}
		if !mayGrow {
			return nil
		}
		t.grow(count)
	}
}

// ClaimView claims one of the cells for operations that may be slow, or returns nil.
func (t *Table) ClaimView() *Cell {
	at := int(place() >> 33 % uint64(t.views))
	for range t.views {
		if cell := t.cell(uint64(at)); cell.claim() {
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

// Pin stores the segment that the holder of the cell reads from now on.
func (c *Cell) Pin(segment uint64) { c.word.Store(c.counts | (firstPin + segment)) }

// Unpin removes the segment from the cell. The cell stays claimed.
func (c *Cell) Unpin() { c.word.Store(c.counts | claimed) }

// Count adds the hits and misses of an operation on several keys. Release then counts one more
// outcome, or None.
func (c *Cell) Count(hits, misses int) {
	c.hits.Add(uint64(hits))
	c.misses.Add(uint64(misses))
}

// Release releases the cell and counts the outcome of the operation.
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
		t.cell(0).hits.Add(1)
	case Miss:
		t.cell(0).misses.Add(1)
	}
}

// IsIdle returns true if no operation is in progress.
func (t *Table) IsIdle() bool {
	for at := range t.all() {
		if t.cell(at).word.Load()&stateMask != free {
			return false
		}
	}
	return t.others.Load() == 0
}

// IsPinned returns true if an operation reads the segment.
func (t *Table) IsPinned(segment uint64) bool {
	for at := range t.all() {
		if t.cell(at).word.Load()&stateMask == firstPin+segment {
			return true
		}
	}
	return false
}

// Each calls visit for each segment of a shard that an operation reads.
func (t *Table) Each(shard int, visit func(segment int)) {
	for at := range t.all() {
		state := t.cell(at).word.Load() & stateMask
		if state >= firstPin && (state-firstPin)>>SegmentBits == uint64(shard) {
			visit(int((state - firstPin) & (1<<SegmentBits - 1)))
		}
	}
}

// Counts returns the hits and misses so far.
func (t *Table) Counts() (hits, misses uint64) {
	for at := range t.all() {
		cell := t.cell(at)
		word := cell.word.Load()
		hits += cell.hits.Load() + word>>stateBits&(1<<countBits-1)
		misses += cell.misses.Load() + word>>(stateBits+countBits)
	}
	return hits, misses
}
