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
type basis struct {
	load C.larder_load
	// The item that was there, for a connected cache, whose server compares its token.
	item   Item
	isHeld bool
	// False where the cache gave none: then nothing is stored.
	holds bool
}

// beginLoad looks which item is there before a loader is called, and reserves the key where there is none.
func (c *Cache) beginLoad(key string) (b basis) {
	if c.far != nil {
		return b
	}
	calls := c.use.begin()
	if calls == nil {
		return b
	}
	defer calls.Add(-1)
	secs, _ := seconds(c.options.LoadTimeout)
	b.holds = C.begin_load(c.handle, text(key), C.size_t(len(key)), secs, &b.load) == C.LARDER_OK
	return b
}

// endLoad stores what was loaded if its basis holds. What the cache does not take is counted as refused.
func (c *Cache) endLoad(key string, b *basis, value []byte, ttl time.Duration) error {
	if c.far != nil {
		return c.far.endLoad(c.ctx, key, b, value, ttl)
	}
	calls := c.use.begin()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	if !b.holds {
		return ErrChanged
	}
	secs, _ := seconds(ttl)
	return failure(C.end_load(c.handle, text(key), C.size_t(len(key)), &b.load,
		bytes(value), C.size_t(len(value)), secs))
}

// cancelLoad gives a reservation back that is still there.
func (c *Cache) cancelLoad(key string, b *basis) {
	if c.far != nil {
		return
	}
	calls := c.use.begin()
	if calls == nil {
		return
	}
	defer calls.Add(-1)
	if b.holds {
		C.cancel_load(c.handle, text(key), C.size_t(len(key)), &b.load)
	}
}
