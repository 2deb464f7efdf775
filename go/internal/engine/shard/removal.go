package shard

import "larder.example/larder/internal/engine/record"

// Reason is the reason for which an item left the cache.
type Reason uint8

// The reasons for a removal.
const (
	Expired Reason = iota
	Evicted
	Deleted
	Replaced
	// Cleared means that Clear removed all items.
	Cleared
)

// String returns the name of the reason.
func (r Reason) String() string {
	return [...]string{"expired", "evicted", "deleted", "replaced", "cleared"}[r]
}

// Removal is an item that has left the cache.
type Removal struct {
	Key, Value []byte
	Reason     Reason
}

// report adds an item that leaves the cache to the removals that Unlock returns, if the shard
// reports removals.
func (s *Shard) report(r record.Record, h record.Header, reason Reason) {
	if !s.config.Reports {
		return
	}
	if reason == Replaced && s.isExpired(r, h) {
		reason = Expired
	}
	key := append([]byte(nil), r.Key(h)...)
	s.removals = append(s.removals, Removal{key, s.AppendValue([]byte{}, r, h), reason})
}
