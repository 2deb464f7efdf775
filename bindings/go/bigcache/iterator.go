package bigcache

import (
	"errors"
	"sync"
	"time"

	"larder"
)

// Errors of an iterator, with the words that they have in BigCache.
var (
	// ErrInvalidIteratorState says that SetNext has not been called, or has said that there is no more.
	ErrInvalidIteratorState = errors.New("Iterator is in invalid state. Use SetNext() to move to next position")
	// ErrCannotRetrieveEntry does not happen, for SetNext goes to no entry that cannot be had.
	ErrCannotRetrieveEntry = errors.New("Could not retrieve entry from cache")
)

// EntryInfo is an entry that an iterator has come to.
type EntryInfo struct {
	key       string
	value     []byte
	hash      uint64
	timestamp uint64
}

// Key of the entry.
func (e EntryInfo) Key() string { return e.key }

// Hash of the key, by the Hasher of the Config.
func (e EntryInfo) Hash() uint64 { return e.hash }

// Timestamp is when the entry was stored, in seconds of Unix time, one more or less; 0 with a LifeWindow of 0.
func (e EntryInfo) Timestamp() uint64 { return e.timestamp }

// Value of the entry.
func (e EntryInfo) Value() []byte { return e.value }

// EntryInfoIterator goes through the entries, in no particular order. One that is there all the time is shown at least once.
// It holds nobody up, and neither counts as a request nor has to be closed. As in BigCache goroutines may share one: each
// entry is shown to one of them.
type EntryInfoIterator struct {
	lock  sync.Mutex
	cache *BigCache
	walk  *larder.Walk
	entry EntryInfo
	valid bool
}

// Iterator begins to go through the entries; in a closed cache there are none.
func (c *BigCache) Iterator() *EntryInfoIterator {
	return &EntryInfoIterator{cache: c, walk: c.cache.Walk("")}
}

// SetNext goes to the next entry and reads it; false where there is none.
func (it *EntryInfoIterator) SetNext() bool {
	it.lock.Lock()
	defer it.lock.Unlock()
	for it.valid = false; !it.valid; {
		name, more := it.walk.Next()
		if !more {
			it.walk.Close()
			it.entry = EntryInfo{}
			return false
		}
		// One that has gone meanwhile is passed over.
		it.entry, it.valid = it.cache.read(name)
	}
	return true
}

// Value is the entry that the iterator has come to, as it was then.
func (it *EntryInfoIterator) Value() (EntryInfo, error) {
	it.lock.Lock()
	defer it.lock.Unlock()
	if !it.valid {
		return EntryInfo{}, ErrInvalidIteratorState
	}
	return it.entry, nil
}

// look reads an entry for an iterator.
func (c *BigCache) read(name string) (EntryInfo, bool) {
	value, item, err := c.cache.GetInto(nil, name)
	if err != nil {
		c.counters.excludedMisses.Add(1)
		return EntryInfo{}, false
	}
	c.counters.excludedHits.Add(1)
	key := name
	if isFramed(name) {
		var whole bool
		if key, value, whole = parseFrame(value); !whole {
			return EntryInfo{}, false
		}
	}
	return EntryInfo{key, value, c.config.Hasher.Sum64(key), c.storedAt(item.TTL)}, true
}

// stored is when an entry was stored that has this time left.
func (c *BigCache) storedAt(left time.Duration) uint64 {
	if c.life == 0 {
		return 0
	}
	return uint64(time.Now().Add(left - c.life).Unix())
}
