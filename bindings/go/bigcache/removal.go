package bigcache

import "larder"

// RemoveReason says why an entry was removed.
type RemoveReason uint32

// The reasons.
const (
	// Expired: its LifeWindow was over.
	Expired = RemoveReason(1)
	// NoSpace: its memory was needed.
	NoSpace = RemoveReason(2)
	// Deleted by Delete.
	Deleted = RemoveReason(3)
)

// reasonOf is the cache's reason by BigCache's name; false where BigCache calls nobody: for what is overwritten or reset.
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

// listens is whether anybody wants to hear of removals.
func (c *Config) hasCallback() bool {
	return c.StatsEnabled || c.OnRemove != nil || c.OnRemoveWithMetadata != nil || c.OnRemoveWithReason != nil
}

// removed hears of all that leaves the cache.
func (c *BigCache) onRemoval(removal larder.Removal) {
	reason, is := reasonOf(removal.Reason)
	if !is {
		return
	}
	requests := c.requests.takeAndReset(removal.Key)
	key, entry := removal.Key, removal.Value
	if isFramed(key) {
		var whole bool
		if key, entry, whole = parseFrame(entry); !whole {
			return
		}
	}
	switch config := &c.config; {
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
