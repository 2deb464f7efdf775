package bigcache

import (
	"errors"
	"iter"
	"runtime"
	"sync"
	"time"
)

// Errors of an iterator. They have the same texts as in BigCache.
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
// for an entry that does not expire.
func (e EntryInfo) Timestamp() uint64 { return e.timestamp }

// Value returns the value of the entry.
func (e EntryInfo) Value() []byte { return e.value }

// EntryInfoIterator iterates over the entries, in no particular order. It returns an entry that
// exists during the complete iteration exactly once. It does not block other operations, its reads
// do not count as requests, and it need not be closed. Goroutines may share an iterator; then each
// entry goes to one of them.
type EntryInfoIterator struct {
	lock  sync.Mutex
	cache *BigCache
	// next returns the next name and its stored bytes.
	next  func() (name string, stored []byte, more bool)
	entry EntryInfo
	valid bool
}

// Iterator returns an iterator over all entries. A closed cache has no entries.
func (c *BigCache) Iterator() *EntryInfoIterator {
	it := &EntryInfoIterator{cache: c}
	next, stop := iter.Pull2(c.cache.All(""))
	it.next = next
	// Stop an iterator that the program does not use to its end.
	runtime.AddCleanup(it, func(stop func()) { stop() }, stop)
	return it
}

// SetNext moves to the next entry and reads it. It returns false at the end.
func (it *EntryInfoIterator) SetNext() bool {
	it.lock.Lock()
	defer it.lock.Unlock()
	for it.valid = false; !it.valid; {
		name, stored, more := it.next()
		if !more {
			it.entry = EntryInfo{}
			return false
		}
		// Skip an entry that was removed before the iterator read it.
		it.entry, it.valid = it.cache.infoOf(name, stored)
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

// infoOf describes an entry. It returns false if the entry has been removed.
func (c *BigCache) infoOf(name string, stored []byte) (EntryInfo, bool) {
	item, _, ok := c.cache.Peek(name)
	key := name
	if ok && isFramed(name) {
		key, stored, ok = parseFrame(stored)
	}
	if !ok {
		return EntryInfo{}, false
	}
	return EntryInfo{key, stored, c.config.Hasher.Sum64(key), c.storedAt(item.TTL)}, true
}

// storedAt returns the Unix time at which an entry with this remaining time was stored.
func (c *BigCache) storedAt(left time.Duration) uint64 {
	if left == 0 {
		return 0
	}
	return uint64(max(c.now().Add(left-c.config.LifeWindow).Unix(), 0))
}
