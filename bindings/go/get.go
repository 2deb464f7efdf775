//go:build linux && cgo

package larder

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
)

// Item is what is known of an item beside its value.
type Item struct {
	// CAS is its token for [Cache.CompareAndSwap]; 0 where none are kept.
	CAS uint64
	// TTL is how long it has to live; 0 is for ever.
	TTL time.Duration
	// Flags are bits that another client stored with it.
	Flags uint32
	// Stale says that somebody has marked the value as out of date.
	Stale bool
	// Local says that a connected cache has read it in the server's memory.
	Local bool
}

// tell says what C told. Its fields are written one by one where the caller has them: a copy of all together waits for that.
func (i *Item) fill(info *C.larder_item) {
	i.CAS = uint64(info.cas)
	i.TTL = time.Duration(info.ttl_secs) * time.Second
	i.Flags = uint32(info.flags)
	i.Stale = info.marks&C.LARDER_STALE != 0
	i.Local = info.marks&C.LARDER_LOCAL != 0
}

// Values up to this size are read into the caller's stack first.
const stackBytes = 512

// Get gives the value of a key; false where there is none, or it cannot be had: [Cache.GetInto] says why.
//
// It allocates the value.
func (c *Cache) Get(key string) ([]byte, bool) {
	value, _, err := c.get(key)
	return value, err == nil
}

func (c *Cache) get(key string) (value []byte, item Item, err error) {
	if c.remote != nil {
		return c.remote.get(c.ctx, key)
	}
	var stack [stackBytes]byte
	var info C.larder_item
	switch outcome := c.read(key, stack[:], &info); outcome {
	case C.LARDER_OK:
		item.fill(&info)
		value = append(make([]byte, 0, info.value_bytes), stack[:info.value_bytes]...)
	case C.LARDER_TOO_SMALL:
		return c.GetInto(make([]byte, 0, info.value_bytes), key)
	default:
		err = statusError(outcome)
	}
	return value, item, err
}

// What read says of a closed cache, beside what C has.
const statusClosed = 1 << 16

// read reads a value into room.
func (c *Cache) read(key string, buf []byte, info *C.larder_item) uint32 {
	calls := c.gate.enter()
	if calls == nil {
		return statusClosed
	}
	outcome := C.get(c.handle, stringData(key), C.size_t(len(key)), sliceData(buf), C.size_t(len(buf)), info)
	calls.Add(-1)
	return outcome
}

// GetInto appends the value of a key to dst, and tells what else is known of the item. Where there is none, the error is
// [ErrNotFound], and dst is given back as it was.
//
// It allocates nothing where dst has room.
func (c *Cache) GetInto(dst []byte, key string) (value []byte, item Item, err error) {
	if c.remote != nil {
		found, item, err := c.remote.get(c.ctx, key)
		return append(dst, found...), item, err
	}
	var info C.larder_item
	for {
		switch outcome := c.read(key, dst[len(dst):cap(dst)], &info); outcome {
		case C.LARDER_OK:
			item.fill(&info)
			return dst[:len(dst)+int(info.value_bytes)], item, nil
		case C.LARDER_TOO_SMALL:
			// Another value may be there by then: so once more.
			dst = slices.Grow(dst, int(info.value_bytes))
		default:
			return dst, item, statusError(outcome)
		}
	}
}

// Peek tells what is known of an item and how long its value is, without counting as a read.
func (c *Cache) Peek(key string) (item Item, valueBytes int, err error) {
	if c.remote != nil {
		value, item, err := c.remote.get(c.ctx, key)
		return item, len(value), err
	}
	calls := c.gate.enter()
	if calls == nil {
		return item, 0, ErrClosed
	}
	defer calls.Add(-1)
	var info C.larder_item
	if outcome := C.peek(c.handle, stringData(key), C.size_t(len(key)), &info); outcome != C.LARDER_OK {
		return item, 0, statusError(outcome)
	}
	item.fill(&info)
	return item, int(info.value_bytes), nil
}

// Contains is true where there is an item. It does not count as a read.
func (c *Cache) Contains(key string) bool {
	_, _, err := c.Peek(key)
	return err == nil
}

// GetAndTouch is [Cache.Get], and the item lives for ttl from now on; 0 is for ever.
func (c *Cache) GetAndTouch(key string, ttl time.Duration) ([]byte, bool) {
	value, ok := c.Get(key)
	if ok {
		_, err := c.Touch(key, ttl)
		ok = err == nil
	}
	return value, ok
}

// GetMany gives the values of several keys, in their order; nil for those that are not there. Where the memory is what
// takes the time, it takes less than half of that of as many [Cache.Get].
//
// It allocates the values together, in one piece.
func (c *Cache) GetMany(keys ...string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	batch := batches.Get().(*Batch)
	defer batches.Put(batch)
	if err := c.GetBatch(batch, keys...); err != nil {
		return nil, err
	}
	all := make([]byte, 0, len(batch.values))
	for at := range keys {
		if value, ok := batch.Value(at); ok {
			start := len(all)
			all = append(all, value...)
			values[at] = all[start:len(all):len(all)]
		}
	}
	return values, nil
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// Batch is what [Cache.GetBatch] found, and the memory for it, which later calls use again.
type Batch struct {
	keys    []byte
	lengths []C.uint32_t
	items   []C.larder_item
	values  []byte
}

// GetBatch is [Cache.GetMany] without allocations: the values are in the batch until its next use.
func (c *Cache) GetBatch(batch *Batch, keys ...string) error {
	if c.remote != nil {
		return c.getRemote(batch, keys)
	}
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	defer calls.Add(-1)
	batch.keys, batch.lengths = batch.keys[:0], batch.lengths[:0]
	for _, key := range keys {
		batch.keys = append(batch.keys, key...)
		batch.lengths = append(batch.lengths, C.uint32_t(len(key)))
	}
	batch.items = slices.Grow(batch.items[:0], len(keys))[:len(keys)]
	batch.values = slices.Grow(batch.values[:0], valueBytesGuess*len(keys))
	outcome := C.get_many(c.handle, sliceData(batch.keys), unsafe.SliceData(batch.lengths), C.size_t(len(keys)),
		sliceData(batch.values), C.size_t(cap(batch.values)), unsafe.SliceData(batch.items))
	if outcome != C.LARDER_OK {
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
	return nil
}

// getFar asks a server for a batch.
func (c *Cache) getRemote(batch *Batch, keys []string) error {
	found, err := c.remote.getMany(c.ctx, keys)
	if err != nil {
		return err
	}
	batch.items, batch.values = batch.items[:0], batch.values[:0]
	for _, key := range keys {
		item := C.larder_item{status: C.LARDER_MISSING}
		if its := found[key]; its != nil {
			item = C.larder_item{
				status: C.LARDER_OK, cas: C.uint64_t(its.CasID), flags: C.uint32_t(its.Flags),
				value_at: C.uint64_t(len(batch.values)), value_bytes: C.uint64_t(len(its.Value)),
			}
			batch.values = append(batch.values, its.Value...)
		}
		batch.items = append(batch.items, item)
	}
	return nil
}

// getLate reads a value of a batch for which there was no room.
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
		// It has been removed meanwhile, or a longer one stored.
	default:
		return statusError(outcome)
	}
	return nil
}

// A batch has room for so many bytes of each value at first.
const valueBytesGuess = 128

// Value is that of the key that was asked for at this place; false where there was none. It is good until the batch is
// used again.
func (b *Batch) Value(at int) ([]byte, bool) {
	item := &b.items[at]
	if item.status != C.LARDER_OK {
		return nil, false
	}
	return b.values[item.value_at:][:item.value_bytes:item.value_bytes], true
}

// Item is what else is known of that item.
func (b *Batch) Item(at int) (item Item) {
	item.fill(&b.items[at])
	return item
}
