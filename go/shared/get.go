//go:build linux && cgo

package shared

/*
#include "calls.h"

#cgo noescape get
#cgo nocallback get
#cgo noescape peek
#cgo nocallback peek
#cgo noescape get_many
#cgo nocallback get_many
*/
import "C"

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"larder.example/larder"
)

// Item holds the metadata of an item.
type Item = larder.Item

// fill copies the metadata from C, field by field. A write of the complete struct would make a
// caller wait that reads one of its fields immediately afterwards.
func fill(i *Item, info *C.larder_item) {
	i.CAS = uint64(info.cas)
	i.TTL = time.Duration(info.ttl_secs) * time.Second
	i.Flags = uint32(info.flags)
	i.Stale = info.marks&C.LARDER_STALE != 0
}

// stackBytes is the size of a buffer on the caller's stack. A read first uses this buffer, because
// the length of the value is not known before.
const stackBytes = 512

// Get returns a copy of the value of a key, and reports whether there is one. The copy of an empty
// value is not nil.
func (c *Cache) Get(key string) ([]byte, bool) {
	value, _, err := c.get(key)
	return value, err == nil
}

// GetItem is like [Cache.Get] and also returns the metadata of the item.
func (c *Cache) GetItem(key string) (value []byte, item Item, ok bool) {
	value, item, err := c.get(key)
	return value, item, err == nil
}

func (c *Cache) get(key string) (value []byte, item Item, err error) {
	var stack [stackBytes]byte
	var info C.larder_item
	switch outcome := c.read(key, stack[:], &info); outcome {
	case C.LARDER_OK:
		fill(&item, &info)
		value = append(make([]byte, 0, info.value_bytes), stack[:info.value_bytes]...)
	case C.LARDER_TOO_SMALL:
		return c.Read(make([]byte, 0, info.value_bytes), key)
	default:
		err = statusError(outcome)
	}
	return value, item, err
}

// statusClosed is the status of a closed cache, outside of the range of C's statuses.
const statusClosed = 1 << 16

// read copies the value of a key into buf.
func (c *Cache) read(key string, buf []byte, info *C.larder_item) uint32 {
	calls := c.gate.enter()
	if calls == nil {
		return statusClosed
	}
	outcome := C.get(c.handle, stringData(key), C.size_t(len(key)), sliceData(buf), C.size_t(len(buf)), info)
	calls.Add(-1)
	return outcome
}

// GetInto appends the value of a key to dst and returns the extended slice. If the key has no item,
// it returns dst unchanged and false. It does not allocate if the capacity of dst suffices.
func (c *Cache) GetInto(dst []byte, key string) (value []byte, ok bool) {
	value, _, err := c.Read(dst, key)
	return value, err == nil
}

// Read is like [Cache.GetInto] and also returns the metadata of the item. If it returns no value,
// the error is the reason: [ErrNotFound], or [ErrDiskUnreadable] if a disk tier did not return the
// value.
func (c *Cache) Read(dst []byte, key string) (value []byte, item Item, err error) {
	var info C.larder_item
	for {
		switch outcome := c.read(key, dst[len(dst):cap(dst)], &info); outcome {
		case C.LARDER_OK:
			fill(&item, &info)
			return dst[:len(dst)+int(info.value_bytes)], item, nil
		case C.LARDER_TOO_SMALL:
			// dst is too small. Grow it and read again, in a loop because a longer value may be stored in
			// between.
			dst = slices.Grow(dst, int(info.value_bytes))
		default:
			return dst, item, statusError(outcome)
		}
	}
}

// Peek returns the metadata of an item and the length of its value in bytes, without counting as a
// read.
func (c *Cache) Peek(key string) (item Item, valueBytes int, ok bool) {
	calls := c.gate.enter()
	if calls == nil {
		return item, 0, false
	}
	defer calls.Add(-1)
	var info C.larder_item
	if C.peek(c.handle, stringData(key), C.size_t(len(key)), &info) != C.LARDER_OK {
		return item, 0, false
	}
	fill(&item, &info)
	return item, int(info.value_bytes), true
}

// Contains reports whether there is an item for key. It does not count as a read.
func (c *Cache) Contains(key string) bool {
	_, _, ok := c.Peek(key)
	return ok
}

// GetAndTouch returns the value as [Cache.Get] does and sets the item's time to live to ttl from
// now.
func (c *Cache) GetAndTouch(key string, ttl time.Duration) ([]byte, bool) {
	value, ok := c.Get(key)
	if ok {
		_, err := c.Touch(key, ttl)
		ok = err == nil
	}
	return value, ok
}

// GetMany calls visit for each key that has an item, in the order of the keys. The argument at is
// the position of the key. The slice is valid during the call of visit and must not be written. In
// a cache that exceeds the CPU caches GetMany takes less than half of the time of separate
// [Cache.Get] calls.
func (c *Cache) GetMany(keys []string, visit func(at int, value []byte)) {
	batch := batches.Get().(*Batch)
	defer batches.Put(batch)
	// Ignore the error: for GetMany, a value that the disk did not return is a miss.
	_ = c.GetBatch(batch, keys...)
	batch.visit(visit)
}

func (b *Batch) visit(visit func(at int, value []byte)) {
	for at := range b.items {
		if value, ok := b.Value(at); ok {
			visit(at, value)
		}
	}
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// Batch holds the results of [Cache.GetBatch] and their memory, which later calls reuse.
type Batch struct {
	keys    []byte
	lengths []C.uint32_t
	items   []C.larder_item
	values  []byte
}

// GetBatch reads the values of the keys into a batch. It allocates only if the memory of the batch
// is too small. The values are valid until the next use of the batch. An invalid key has no value.
// If a disk tier does not return the values of some keys, the error is the error of the first such
// key. The batch still contains the other values.
func (c *Cache) GetBatch(batch *Batch, keys ...string) error {
	batch.keys, batch.lengths, batch.items = batch.keys[:0], batch.lengths[:0], batch.items[:0]
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	for _, key := range keys {
		batch.keys = append(batch.keys, key...)
		batch.lengths = append(batch.lengths, C.uint32_t(len(key)))
	}
	batch.items = slices.Grow(batch.items[:0], len(keys))[:len(keys)]
	batch.values = slices.Grow(batch.values[:0], valueBytesGuess*len(keys))
	outcome := C.get_many(c.handle, sliceData(batch.keys), unsafe.SliceData(batch.lengths), C.size_t(len(keys)),
		sliceData(batch.values), C.size_t(cap(batch.values)), unsafe.SliceData(batch.items))
	if outcome != C.LARDER_OK {
		batch.items = batch.items[:0]
		return statusError(outcome)
	}
	for at := range batch.items {
		if batch.items[at].status == C.LARDER_OK {
			batch.values = batch.values[:len(batch.values)+int(batch.items[at].value_bytes)]
		}
	}
	for at := range batch.items {
		for batch.items[at].status == C.LARDER_TOO_SMALL {
			if err := c.getOversized(batch, at, keys[at]); err != nil {
				return err
			}
		}
	}
	return batch.failure()
}

// getOversized reads a value that did not fit into the memory of the batch.
func (c *Cache) getOversized(batch *Batch, at int, key string) error {
	item := &batch.items[at]
	filled := len(batch.values)
	batch.values = slices.Grow(batch.values, int(item.value_bytes))
	buf := batch.values[filled:cap(batch.values)]
	outcome := C.get(c.handle, stringData(key), C.size_t(len(key)), sliceData(buf), C.size_t(len(buf)), item)
	item.status, item.value_at = outcome, C.uint64_t(filled)
	switch outcome {
	case C.LARDER_OK:
		batch.values = batch.values[:filled+int(item.value_bytes)]
	case C.LARDER_MISSING, C.LARDER_TOO_SMALL:
		// The item has changed since get_many: it was removed, or a longer value was stored. In the
		// second case the caller calls getOversized again.
	default:
		return statusError(outcome)
	}
	return nil
}

// failure returns the error of the first key whose value a disk tier did not return, and nil if
// there is no such key.
func (b *Batch) failure() error {
	for at := range b.items {
		if outcome := b.items[at].status; outcome != C.LARDER_OK && outcome != C.LARDER_MISSING {
			return statusError(outcome)
		}
	}
	return nil
}

// valueBytesGuess is the memory that a batch has for each key, in bytes, before the lengths of the
// values are known.
const valueBytesGuess = 128

// Value returns the value of the key at this position, and reports whether there is one. It is
// valid until the next use of the batch.
func (b *Batch) Value(at int) ([]byte, bool) {
	item := &b.items[at]
	if item.status != C.LARDER_OK {
		return nil, false
	}
	return b.values[item.value_at:][:item.value_bytes:item.value_bytes], true
}

// Item returns the metadata of the key at this position.
func (b *Batch) Item(at int) (item Item) {
	fill(&item, &b.items[at])
	return item
}
