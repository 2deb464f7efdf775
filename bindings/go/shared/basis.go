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

import "time"

// loadBasis is the state of a key when a load begins: its item, or a reservation of the key. The
// result is stored only if no process has changed the key since.
type loadBasis struct {
	load C.larder_load
	// The item at the start of the load, and whether there was one. A connected cache compares its
	// token.
	item  Item
	found bool
	// False if the cache did not reserve the key. The result is not stored then.
	valid bool
}

// beginLoad records the item of a key before the loader runs, and reserves the key if there is
// none.
func (c *Cache) beginLoad(key string) (b loadBasis) {
	calls, err := c.enterMemory()
	if err != nil {
		return b
	}
	defer calls.Add(-1)
	secs, _ := seconds(c.options.LoadTimeout)
	b.valid = C.begin_load(c.handle, stringData(key), C.size_t(len(key)), secs, &b.load) == C.LARDER_OK
	return b
}

// endLoad stores the loaded value if the key has not changed. The cache counts a value that it does
// not accept as refused.
func (c *Cache) endLoad(key string, b *loadBasis, value []byte, ttl time.Duration) error {
	if c.remote != nil {
		return c.remote.endLoad(c.ctx, key, b, value, ttl)
	}
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	if !b.valid {
		return ErrChanged
	}
	secs, _ := seconds(ttl)
	return statusError(C.end_load(c.handle, stringData(key), C.size_t(len(key)), &b.load,
		sliceData(value), C.size_t(len(value)), secs))
}

// cancelLoad releases the reservation of a key, if there is one.
func (c *Cache) cancelLoad(key string, b *loadBasis) {
	if c.remote != nil {
		return
	}
	calls := c.gate.enter()
	if calls == nil {
		return
	}
	defer calls.Add(-1)
	if b.valid {
		C.cancel_load(c.handle, stringData(key), C.size_t(len(key)), &b.load)
	}
}
