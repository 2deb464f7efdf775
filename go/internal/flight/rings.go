package flight

import (
	"context"
	"sync"
)

// rings detects loads that wait for each other in a ring: for example, the loader of key a requests
// key b, and the loader of b requests a. The loads may belong to different groups, so rings is
// global. Only a loader that requests another key takes the lock of rings, so it does not slow down
// other requests.
var rings struct {
	lock sync.Mutex
	// waits maps each load to the loads that its loader waits for. A loader may wait for the same load
	// in several goroutines; the number counts them.
	waits map[*flight]map[*flight]int
}

// enterWait is called before a wait for the load f. If ctx belongs to a load, because its loader
// requests the key of f, enterWait records that this load waits for f. If f already waits for this
// load, neither would ever end: enterWait records nothing, and isEnding is false. Otherwise the
// caller must call leave after the wait.
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
