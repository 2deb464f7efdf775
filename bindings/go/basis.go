//go:build linux && cgo

package larder

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

// basis is what a load is based on: the item that was there when it began, or a reservation of the key. The result is
// stored only where no process changed the key since.
type loadBasis struct {
	load C.larder_load
	// The item that was there, for a connected cache, whose server compares its token.
	item  Item
	found bool
	// False where the cache gave none: then nothing is stored.
	valid bool
}

// beginLoad looks which item is there before a loader is called, and reserves the key where there is none.
func (c *Cache) beginLoad(key string) (b loadBasis) {
	if c.remote != nil {
		return b
	}
	calls := c.gate.enter()
	if calls == nil {
		return b
	}
	defer calls.Add(-1)
	secs, _ := seconds(c.options.LoadTimeout)
	b.valid = C.begin_load(c.handle, stringData(key), C.size_t(len(key)), secs, &b.load) == C.LARDER_OK
	return b
}

// endLoad stores what was loaded if its basis holds. What the cache does not take is counted as refused.
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

// cancelLoad gives a reservation back that is still there.
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
