package server

import (
	"bytes"

	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

// An item that SoftExpiry keeps has flags of this form in the cache: softMark, softGiven once a
// client refreshes it, and the seconds from its soft to its hard expiry. Clients never see them.
const (
	softMask    = 0xf0000000
	softMark    = 0xe0000000
	softGiven   = 1 << 27
	softSeconds = softGiven - 1
)

// The flags that clients see instead.
const (
	softFresh   = 0
	softStale   = 1
	softRefresh = 3
)

func (c *conn) isSoft(item engine.Item) bool {
	return c.server.options.SoftExpiry > 1 && item.Flags&softMask == softMark && item.Deadline != 0
}

// softStore returns the flags and the time to live to store an item with.
func (c *conn) softStore(r *storing) (flags uint32, ttl int64) {
	flags, ttl = r.flags, c.ttl(r.exptime)
	if c.server.options.SoftExpiry > 1 && flags == 0 && ttl > 0 && !r.isExtension() {
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

// touched returns the flags and the deadline of an item after a touch.
func (c *conn) touched(item engine.Item, exptime int64) (flags uint32, deadline int64) {
	flags = item.Flags
	ttl := c.ttl(exptime)
	if c.isSoft(item) {
		if flags = 0; ttl > 0 {
			flags, ttl = c.soft(ttl)
		}
	}
	return flags, c.engine.Deadline(ttl)
}

// soften returns an item with the flags that a client sees. Of the clients that read an expired
// item, the first one is to refresh it.
func (c *conn) soften(key string, item engine.Item) engine.Item {
	if !c.isSoft(item) {
		return item
	}
	soft := item.Deadline - int64(item.Flags&softSeconds)*1000
	switch {
	case c.engine.Now() < soft:
		item.Flags = softFresh
	case item.Flags&softGiven == 0 && c.lookup.mode == looking && c.takeRefresh(key, &item):
		item.Flags = softRefresh
	default:
		item.Flags = softStale
	}
	return item
}

// takeRefresh marks an item as being refreshed by this client, and returns false if another one was
// faster.
func (c *conn) takeRefresh(key string, seen *engine.Item) bool {
	isTaken := false
	token, err := c.engine.Update(key, func(item engine.Item, value []byte, isFound bool) engine.Change {
		if isTaken = isFound && item.Flags == seen.Flags && item.Token == seen.Token; !isTaken {
			return engine.Change{}
		}
		return engine.Change{
			Action: engine.Write, Value: bytes.Clone(value),
			Flags: item.Flags | softGiven, Deadline: item.Deadline,
		}
	})
	if isTaken = isTaken && err == nil; isTaken {
		seen.Token = token
	}
	return isTaken
}
