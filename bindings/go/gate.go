//go:build linux && cgo

package larder

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// use knows whether anybody is in the middle of a call, so that the memory is not taken from under it. Callers count
// themselves in one of several places, by where their stack is: counting in one place they would wait for each other.
type callGate struct {
	closed   atomic.Bool
	counters [counterCount]callCounter
}

const counterCount = 32

// place counts the callers that are in.
type callCounter struct {
	atomic.Int64
	_ [120]byte
}

// begin counts the caller in; nil where the cache is closed. Otherwise the caller counts itself out at what it is given.
func (g *callGate) enter() *callCounter {
	var here byte
	// Stacks are at least 2 KiB apart.
	at := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9E3779B97F4A7C15 >> 59
	calls := &g.counters[at%counterCount]
	calls.Add(1)
	if g.closed.Load() {
		calls.Add(-1)
		return nil
	}
	return calls
}

// close keeps everybody out, and waits until nobody is in. False where that has been done before.
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
