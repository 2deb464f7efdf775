package flight

import (
	"context"
	"sync"
)

// rings finds loads that wait for each other: for example, the loader of a requests b, and the
// loader of b requests a. It covers the loads of all groups. Only a loader that requests another
// key takes its lock.
var rings struct {
	lock sync.Mutex
	// waits maps each load to the loads that it waits for, with the number of its goroutines that
	// wait.
	waits map[*flight]map[*flight]int
}

// enterWait records that the load to which ctx belongs, if any, waits for f. It returns false if f
// waits for that load, because then neither load would ever end. Otherwise the caller must call
// leave after the wait.
func (f *flight) enterWait(ctx context.Context) (leave func(), isEnding bool) {
	at, _ := ctx.Value(loadingKey{}).(*loading)
	if at == nil {
		return func() {}, true
	}
	from := at.flight
	rings.lock.Lock()
	defer rings.lock.Unlock()
	if f.waitsFor(from, map[*flight]bool{}) {
		return nil, false
	}
	if rings.waits == nil {
		rings.waits = map[*flight]map[*flight]int{}
	}
	if rings.waits[from] == nil {
		rings.waits[from] = map[*flight]int{}
	}
	rings.waits[from][f]++
	return func() { from.leaveWait(f) }, true
}

func (f *flight) leaveWait(other *flight) {
	rings.lock.Lock()
	defer rings.lock.Unlock()
	if rings.waits[f][other]--; rings.waits[f][other] > 0 {
		return
	}
	if delete(rings.waits[f], other); len(rings.waits[f]) == 0 {
		delete(rings.waits, f)
	}
}

// waitsFor returns true if a load waits for another load, directly or through other loads. The
// caller holds the lock.
func (f *flight) waitsFor(other *flight, seen map[*flight]bool) bool {
	if f == other {
		return true
	}
	seen[f] = true
	for next := range rings.waits[f] {
		if !seen[next] && next.waitsFor(other, seen) {
			return true
		}
	}
	return false
}
