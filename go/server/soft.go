package server

import (
	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

// With soft expiry, the cache keeps an item beyond the exptime that its client has set. The exptime
// is its soft expiry; the deadline in the cache is its hard expiry. An item is stale after its soft
// expiry, or if a client has marked it as stale (engine.Stale). The first client that reads a stale
// item should store a new value: the response tells the client so, and the server marks the item as
// claimed (engine.Claimed).

// An item with a soft expiry has flags of this form in the cache: softMark, and the number of
// seconds from its soft to its hard expiry. The server never sends these flags to clients.
const (
	softMask    = 0xf0000000
	softMark    = 0xe0000000
	softSeconds = 1<<28 - 1
)

// The flags that the server sends to clients for such an item.
const (
	softFresh   = 0
	softStale   = 1
	softRefresh = 3
)

func (s *Server) isSoftOn() bool { return s.options.SoftExpiry > 1 }

func (c *conn) isSoft(item engine.Item) bool {
	return c.server.isSoftOn() && item.Flags&softMask == softMark && item.Deadline != 0
}

// isReserved returns true for flags that a client may not store.
func (c *conn) isReserved(flags uint32) bool {
	return c.server.isSoftOn() && flags&softMask == softMark
}

// softStore returns the flags and the time to live to store an item with.
func (c *conn) softStore(r *storing) (flags uint32, ttl int64) {
	flags, ttl = r.flags, c.ttl(r.exptime)
	if c.server.isSoftOn() && flags == 0 && ttl > 0 && !r.isExtension() {
		return c.soft(ttl)
	}
	return flags, ttl
}

func (r *storing) isExtension() bool {
	return r.verb == wire.TextAppend || r.verb == wire.TextPrepend
}

func (c *conn) soft(ttl int64) (flags uint32, hard int64) {
	extra := int64(float64(ttl) * (c.server.options.SoftExpiry - 1) / 1000)
	extra = min(max(extra, 1), softSeconds)
	return softMark | uint32(extra), ttl + extra*1000
}

// touched returns the change that a touch makes to an item, as a write of the complete item. It
// makes an item with a soft expiry fresh.
func (c *conn) touched(item engine.Item, exptime int64) engine.Change {
	change := engine.Change{Action: engine.Write, Flags: item.Flags, Marks: item.Marks()}
	ttl := c.ttl(exptime)
	if c.isSoft(item) {
		change.Marks = 0
		if change.Flags = 0; ttl > 0 {
			change.Flags, ttl = c.soft(ttl)
		}
	}
	change.Deadline = c.engine.Deadline(ttl)
	return change
}

// deadline returns the time at which an item expires for clients.
func (c *conn) deadline(item engine.Item) int64 {
	if c.isSoft(item) {
		return item.Deadline - int64(item.Flags&softSeconds)*1000
	}
	return item.Deadline
}

// isStale returns true if a client should replace the item.
func (c *conn) isStale(item engine.Item) bool {
	return item.Marks()&engine.Stale != 0 || c.isSoft(item) && c.engine.Now() >= c.deadline(item)
}

func isClaimed(item engine.Item) bool { return item.Marks()&engine.Claimed != 0 }

// soften returns an item with the flags that the server sends to a client.
func (c *conn) soften(key string, item engine.Item) engine.Item {
	if !c.isSoft(item) {
		return item
	}
	switch {
	case !c.isStale(item):
		item.Flags = softFresh
	case !isClaimed(item) && c.lookup.mode == looking && c.claim(key, item):
		item.Flags = softRefresh
	default:
		item.Flags = softStale
	}
	return item
}

// claim marks an item as claimed: this client will replace it. It returns false if another client
// has claimed or changed the item since it was seen.
func (c *conn) claim(key string, seen engine.Item) bool {
	isClaiming := false
	_, err := c.engine.Update(key, func(item engine.Item, _ []byte, isFound bool) engine.Change {
		isClaiming = isFound && item.Flags == seen.Flags && item.Token == seen.Token && !isClaimed(item)
		if !isClaiming {
			return engine.Change{}
		}
		return engine.Change{Marks: engine.Claimed}
	})
	return isClaiming && err == nil
}
