package larder

import (
	"time"

	"larder.example/larder/internal/engine"
)

// Item holds the metadata of an item.
type Item struct {
	// CAS is the token for [Cache.CompareAndSwap]; 0 if the cache keeps no tokens.
	CAS uint64
	// TTL is the remaining time to live; 0 means that the item does not expire.
	TTL time.Duration
	// Flags are opaque bits that are stored with the item.
	Flags uint32
	// Stale is true if a client of the server, or of the shared cache, has marked the value as out
	// of date.
	Stale bool
	// Local is true if package larder/remote has read the value directly from the server's memory.
	Local bool
	// isForever is true if a read has returned this Item and the item does not expire. For a store, a
	// TTL of 0 means Options.TTL; but if a program stores an Item that it has read, the item should
	// still not expire.
	isForever bool
}

// itemOf converts the engine's metadata of an item.
func (c *Cache) itemOf(item *engine.Item) Item {
	converted := Item{CAS: item.Token, Flags: item.Flags}
	converted.isForever = item.Deadline == 0 && c.options.TTL != 0
	if item.Deadline != 0 {
		// Return at least a millisecond, because the item may have expired between the read and this call
		// of the clock. Return at most Forever, because the engine's times can exceed the range of a
		// Duration.
		left := min(max(item.Deadline-c.now(), 1), int64(Forever/time.Millisecond))
		converted.TTL = time.Duration(left) * time.Millisecond
	}
	return converted
}

// Reason is the cause of a removal.
type Reason int

// Reasons of removals.
const (
	// Deleted by a call that deletes, or that stores with a negative time to live.
	Deleted Reason = iota
	// Replaced by another value.
	Replaced
	// Expired items are reported when the cache finds them, not at the moment of their expiry.
	Expired
	// Evicted to free memory.
	Evicted
	// Cleared by [Cache.Clear].
	Cleared
)

func (r Reason) String() string {
	switch r {
	case Deleted:
		return "deleted"
	case Replaced:
		return "replaced"
	case Expired:
		return "expired"
	case Evicted:
		return "evicted"
	case Cleared:
		return "cleared"
	}
	return "unknown"
}

func reasonOf(reason engine.Reason) Reason {
	switch reason {
	case engine.Replaced:
		return Replaced
	case engine.Expired:
		return Expired
	case engine.Evicted:
		return Evicted
	case engine.Cleared:
		return Cleared
	}
	return Deleted
}
