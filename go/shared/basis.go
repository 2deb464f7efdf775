//go:build linux && cgo

package shared

/*
#include "calls.h"

#cgo noescape begin_load
#cgo nocallback begin_load
#cgo noescape end_load
#cgo nocallback end_load
#cgo noescape cancel_load
#cgo nocallback cancel_load
*/
import "C"

import (
	"time"

	"larder.example/larder"
)

// attempt is a load in progress. It remembers the state of its key when the load began, its basis:
// the item of the key or, if the key has no item, a reservation, which is a mark in the cache that
// a load of the key is in progress. The result is stored only if no process has changed the key
// since.
type attempt struct {
	cache *Cache
	key   string
	load  C.larder_load
	// valid is true if load contains the state of the key. Otherwise begin has failed, and the result
	// is not stored.
	valid bool
}

// begin records the state of the key before the loader runs. If the key has no item, begin makes a
// reservation.
func (a *attempt) begin() {
	calls, err := a.cache.enter()
	if err != nil {
		return
	}
	defer calls.Add(-1)
	secs, _ := a.cache.seconds(a.cache.options.LoadTimeout)
	a.valid = C.begin_load(a.cache.handle, stringData(a.key), C.size_t(len(a.key)), secs, &a.load) == C.LARDER_OK
}

// Keep stores the loaded value, unless any process has changed the key since the load began. The
// callers of GetOrLoad receive the value even if the cache cannot store it, for example because it
// is too large; the cache then counts a refused store.
func (a *attempt) Keep(value []byte, ttl time.Duration, _ func() bool) {
	if ttl < 0 {
		a.Cancel()
		return
	}
	if ttl == 0 {
		ttl = a.cache.options.TTL
	}
	if ttl > 0 && ttl != larder.Forever {
		ttl = whole(ttl) + whole(a.cache.options.StaleFor)
	}
	calls, err := a.cache.enter()
	if err != nil {
		return
	}
	defer calls.Add(-1)
	if !a.valid {
		return
	}
	secs, _ := a.cache.seconds(ttl)
	// If the result is not stored, the next caller loads again.
	C.end_load(a.cache.handle, stringData(a.key), C.size_t(len(a.key)), &a.load,
		sliceData(value), C.size_t(len(value)), secs)
}

// Cancel releases the reservation of the key, if the load has one.
func (a *attempt) Cancel() {
	calls, err := a.cache.enter()
	if err != nil {
		return
	}
	defer calls.Add(-1)
	if a.valid {
		C.cancel_load(a.cache.handle, stringData(a.key), C.size_t(len(a.key)), &a.load)
	}
}
