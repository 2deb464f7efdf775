package bigcache

import (
	"errors"
	"iter"
	"runtime"
	"sync"
	"time"
)

// Errors of an iterator, with BigCache's texts.
var (
	// ErrInvalidIteratorState means that SetNext has not been called or has returned false.
	ErrInvalidIteratorState = errors.New("Iterator is in invalid state. Use SetNext() to move to next position")
	// ErrCannotRetrieveEntry is not returned, because SetNext skips entries that cannot be read.
	ErrCannotRetrieveEntry = errors.New("Could not retrieve entry from cache")
)

// EntryInfo is an entry that an iterator has read.
type EntryInfo struct {
	key       string
	value     []byte
	hash      uint64
	timestamp uint64
}

// Key returns the key of the entry.
func (e EntryInfo) Key() string { return e.key }

// Hash returns the hash of the key by the Hasher of the Config.
func (e EntryInfo) Hash() uint64 { return e.hash }

// Timestamp returns the Unix time at which the entry was stored, in seconds, within one second; 0
// with a LifeWindow of 0.
func (e EntryInfo) Timestamp() uint64 { return e.timestamp }

// Value returns the value of the entry.
func (e EntryInfo) Value() []byte { return e.value }

// EntryInfoIterator iterates over the entries, in no particular order. It returns an entry that
// exists throughout at least once. It does not block other operations, does not count as requests,
// and needs no close. As in BigCache, goroutines may share an iterator; then each entry goes to one
// of them.
type EntryInfoIterator struct {
	lock  sync.Mutex
	cache *BigCache
	// next returns the next name, and stop ends the walk.
	next  func() (string, bool)
	stop  func()
	entry EntryInfo
	valid bool
}

// Iterator returns an iterator over all entries; none in a closed cache.
func (c *BigCache) Iterator() *EntryInfoIterator {
	it := &EntryInfoIterator{cache: c}
	it.next, it.stop = iter.Pull(c.cache.Keys(""))
	// For an iterator that is not used to its end.
	runtime.AddCleanup(it, func(stop func()) { stop() }, it.stop)
	return it
}

// SetNext moves to the next entry and reads it. It returns false at the end.
func (it *EntryInfoIterator) SetNext() bool {
	it.lock.Lock()
	defer it.lock.Unlock()
	for it.valid = false; !it.valid; {
		name, more := it.next()
		if !more {
			it.entry = EntryInfo{}
			return false
		}
		// Skip an entry that has been removed meanwhile.
		it.entry, it.valid = it.cache.read(name)
	}
	return true
}

// Value returns the entry as it was at SetNext.
func (it *EntryInfoIterator) Value() (EntryInfo, error) {
	it.lock.Lock()
	defer it.lock.Unlock()
	if !it.valid {
		return EntryInfo{}, ErrInvalidIteratorState
	}
	return it.entry, nil
}

// read reads an entry for an iterator.
func (c *BigCache) read(name string) (EntryInfo, bool) {
	value, item, ok := c.cache.GetItem(name)
	if !ok {
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

// storedAt returns the Unix time at which an entry with this remaining time was stored.
func (c *BigCache) storedAt(left time.Duration) uint64 {
	if c.life == 0 {
		return 0
	}
	return uint64(time.Now().Add(left - c.life).Unix())
}
