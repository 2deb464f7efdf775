//go:build linux && cgo

package shared

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// callGate counts the calls in progress, so that Close unmaps the memory only after the last one
// has returned. It has several counters in different cache lines, so that concurrent calls do not
// contend for one line. A call chooses its counter by the address of its goroutine's stack.
type callGate struct {
	closed   atomic.Bool
	counters [counterCount]callCounter
}

const counterCount = 32

// callCounter counts calls in progress. It has 128 bytes, because processors fetch lines of 64
// bytes in pairs.
type callCounter struct {
	atomic.Int64
	_ [120]byte
}

// enter counts a call and returns its counter, which the caller decrements at the end. It returns
// nil if the cache is closed.
func (g *callGate) enter() *callCounter {
	var here byte
	// The stacks of two goroutines are at least 2 KiB apart, so ignore the lower bits of the address.
	at := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9E3779B97F4A7C15 >> 59
	calls := &g.counters[at%counterCount]
	calls.Add(1)
	if g.closed.Load() {
		calls.Add(-1)
		return nil
	}
	return calls
}

// enter is like [callGate.enter], but returns [ErrClosed] for a closed cache.
func (c *Cache) enter() (*callCounter, error) {
	if calls := c.gate.enter(); calls != nil {
		return calls, nil
	}
	return nil, ErrClosed
}

// close rejects new calls and waits for those in progress. It returns false if the gate is closed
// already.
func (g *callGate) close() bool {
	if g.closed.Swap(true) {
		return false
	}
	for at := range g.counters {
		for wait := time.Microsecond; g.counters[at].Load() != 0; wait = min(2*wait, time.Millisecond) {
			time.Sleep(wait)
		}
	}
	return true
}
