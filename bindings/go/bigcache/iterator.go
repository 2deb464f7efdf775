package bigcache

import (
	"errors"
	"time"

	"larder"
)

// Errors of an iterator.
var (
	// ErrInvalidIteratorState says that SetNext has not been called, or has said that there is no more.
	ErrInvalidIteratorState = errors.New("Iterator is in invalid state. Use SetNext() to move to next position")
	// ErrCannotRetrieveEntry says that the entry has gone since SetNext.
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

// Timestamp is when the entry was stored, in seconds of Unix time; 0 with a LifeWindow of 0.
func (e EntryInfo) Timestamp() uint64 { return e.timestamp }

// Value of the entry.
func (e EntryInfo) Value() []byte { return e.value }

// EntryInfoIterator goes through the entries. One that is there all the time is shown at least once. For one goroutine.
type EntryInfoIterator struct {
	cache *BigCache
	walk  *larder.Walk
	name  string
	valid bool
}

// Iterator begins to go through the entries.
func (c *BigCache) Iterator() *EntryInfoIterator {
	return &EntryInfoIterator{cache: c, walk: c.cache.Walk("")}
}

// SetNext goes to the next entry; false where there is none.
func (it *EntryInfoIterator) SetNext() bool {
	it.name, it.valid = it.walk.Next()
	return it.valid
}

// Value is the entry that the iterator has come to.
func (it *EntryInfoIterator) Value() (EntryInfo, error) {
	if !it.valid {
		return EntryInfo{}, ErrInvalidIteratorState
	}
	value, item, err := it.cache.cache.GetInto(nil, it.name)
	if err != nil {
		return EntryInfo{}, ErrCannotRetrieveEntry
	}
	key := it.name
	if isFramed(key) {
		var ok bool
		if key, value, ok = open(value); !ok {
			return EntryInfo{}, ErrCannotRetrieveEntry
		}
	}
	config := &it.cache.config
	info := EntryInfo{key: key, value: value, hash: config.Hasher.Sum64(key)}
	if config.LifeWindow > 0 {
		info.timestamp = uint64(time.Now().Add(item.TTL - config.LifeWindow).Unix())
	}
	return info, nil
}
