package bigcache

import "larder.example/larder"

// RemoveReason is the cause of a removal.
type RemoveReason uint32

// Reasons of removals.
const (
	// Expired means that the LifeWindow was over.
	Expired = RemoveReason(1)
	// NoSpace means that the entry was evicted.
	NoSpace = RemoveReason(2)
	// Deleted means that Delete removed the entry.
	Deleted = RemoveReason(3)
)

// reasonOf converts a reason of the cache. It returns false for overwritten and reset entries, for
// which BigCache calls no callback.
func reasonOf(reason larder.Reason) (RemoveReason, bool) {
	switch reason {
	case larder.Expired:
		return Expired, true
	case larder.Evicted:
		return NoSpace, true
	case larder.Deleted:
		return Deleted, true
	}
	return 0, false
}

// hasCallback reports whether the cache needs to observe removals.
func (c *Config) hasCallback() bool {
	return c.StatsEnabled || c.OnRemove != nil || c.OnRemoveWithMetadata != nil || c.OnRemoveWithReason != nil
}

// reporter calls the callbacks of a cache.
type reporter struct {
	config   Config
	requests *requests
}

// onRemove is called for each entry that leaves the cache.
func (r *reporter) onRemove(name string, entry []byte, cause larder.Reason) {
	reason, is := reasonOf(cause)
	if !is {
		return
	}
	requests, key := r.requests.takeAndReset(name), name
	if isFramed(name) {
		var whole bool
		if key, entry, whole = parseFrame(entry); !whole {
			return
		}
	}
	switch config := &r.config; {
	case config.OnRemoveWithMetadata != nil:
		config.OnRemoveWithMetadata(key, entry, Metadata{RequestCount: requests})
	case config.OnRemove != nil:
		config.OnRemove(key, entry)
	case config.OnRemoveWithReason != nil && config.reports(reason):
		config.OnRemoveWithReason(key, entry, reason)
	}
}

func (c *Config) reports(reason RemoveReason) bool {
	return c.reasons == 0 || c.reasons&(1<<reason) != 0
}
