//go:build linux && cgo

package shared

/*
#include "calls.h"

#cgo noescape set
#cgo nocallback set
#cgo noescape add
#cgo nocallback add
#cgo noescape replace
#cgo nocallback replace
#cgo noescape append
#cgo nocallback append
#cgo noescape prepend
#cgo nocallback prepend
#cgo noescape compare_and_set
#cgo nocallback compare_and_set
#cgo noescape delete
#cgo nocallback delete
#cgo noescape touch
#cgo nocallback touch
#cgo noescape increment
#cgo nocallback increment
#cgo noescape decrement
#cgo nocallback decrement
#cgo noescape remove_prefix
#cgo nocallback remove_prefix
*/
import "C"

import (
	"fmt"
	"time"
)

// Set stores a value and replaces the item of the key. The item lives for ttl: 0 means
// [Options.TTL], and a negative ttl deletes it. If Set fails with an error other than [ErrKey] and
// [ErrClosed], it has removed the previous item, so that no reader receives the old value. With a
// disk tier of mode [TierStore] the previous item stays.
func (c *Cache) Set(key string, value []byte, ttl time.Duration) error {
	calls := c.gate.enter()
	if calls == nil {
		return ErrClosed
	}
	c.loads.Forget(key)
	err := c.set(key, value, ttl)
	calls.Add(-1)
	return err
}

// set is like Set, but does not prevent a load of the key in progress from storing its result.
func (c *Cache) set(key string, value []byte, ttl time.Duration) error {
	secs, lives := c.seconds(ttl)
	if !lives {
		_, err := applied(C.delete(c.handle, stringData(key), C.size_t(len(key))))
		return err
	}
	return statusError(C.set(c.handle, stringData(key), C.size_t(len(key)),
		sliceData(value), C.size_t(len(value)), secs))
}

// Add stores a value if the key has no item, and reports whether it did. With a negative ttl it
// stores nothing.
func (c *Cache) Add(key string, value []byte, ttl time.Duration) (bool, error) {
	return c.change(key, func() uint32 {
		secs, lives := c.seconds(ttl)
		if !lives {
			return C.LARDER_EXISTS
		}
		return C.add(c.handle, stringData(key), C.size_t(len(key)),
			sliceData(value), C.size_t(len(value)), secs)
	})
}

// Replace stores a value if the key has an item, and reports whether it did. With a negative ttl it
// deletes the item.
func (c *Cache) Replace(key string, value []byte, ttl time.Duration) (bool, error) {
	return c.change(key, func() uint32 {
		secs, lives := c.seconds(ttl)
		if !lives {
			return C.delete(c.handle, stringData(key), C.size_t(len(key)))
		}
		return C.replace(c.handle, stringData(key), C.size_t(len(key)),
			sliceData(value), C.size_t(len(value)), secs)
	})
}

// Append adds bytes to the end of a value and keeps its time to live. It reports whether the key
// has an item.
func (c *Cache) Append(key string, part []byte) (bool, error) {
	return c.change(key, func() uint32 {
		return C.append(c.handle, stringData(key), C.size_t(len(key)),
			sliceData(part), C.size_t(len(part)))
	})
}

// Prepend adds bytes to the start of a value and keeps its time to live. It reports whether the key
// has an item.
func (c *Cache) Prepend(key string, part []byte) (bool, error) {
	return c.change(key, func() uint32 {
		return C.prepend(c.handle, stringData(key), C.size_t(len(key)),
			sliceData(part), C.size_t(len(part)))
	})
}

// CompareAndSwap replaces the value of the item that has this token ([Item.CAS]) and returns the
// new token. If several callers modify the value that they have read, one of them succeeds; the
// others get [ErrChanged], and should read the value again. If the key has no item, the error is
// [ErrNotFound]. For a negative ttl it is [ErrInvalid].
func (c *Cache) CompareAndSwap(key string, value []byte, ttl time.Duration, cas uint64) (uint64, error) {
	calls := c.gate.enter()
	if calls == nil {
		return 0, ErrClosed
	}
	defer calls.Add(-1)
	c.loads.Forget(key)
	secs, lives := c.seconds(ttl)
	if !lives {
		return 0, fmt.Errorf("%w: a compare-and-swap with a negative ttl: use Delete", ErrInvalid)
	}
	var next C.uint64_t
	outcome := C.compare_and_set(c.handle, stringData(key), C.size_t(len(key)),
		sliceData(value), C.size_t(len(value)), secs, C.uint64_t(cas), &next)
	return uint64(next), statusError(outcome)
}

// Delete removes an item, and reports whether it existed. For an invalid key it returns false.
func (c *Cache) Delete(key string) (bool, error) {
	return c.change(key, func() uint32 {
		return C.delete(c.handle, stringData(key), C.size_t(len(key)))
	})
}

// Touch sets the time to live of an item, counted from now, and reports whether the item exists. A
// negative ttl deletes the item.
func (c *Cache) Touch(key string, ttl time.Duration) (bool, error) {
	secs, lives := c.seconds(ttl)
	if !lives {
		return c.Delete(key)
	}
	calls := c.gate.enter()
	if calls == nil {
		return false, ErrClosed
	}
	defer calls.Add(-1)
	return applied(C.touch(c.handle, stringData(key), C.size_t(len(key)), secs))
}

// Incr adds delta to a counter, an item whose value is a decimal number, and returns the result.
// The counter wraps at 2^64 and keeps its time to live. If the key has no item, the error is
// [ErrNotFound]; [Cache.Add] creates a counter.
func (c *Cache) Incr(key string, delta uint64) (uint64, error) {
	var number C.uint64_t
	found, err := c.change(key, func() uint32 {
		return C.increment(c.handle, stringData(key), C.size_t(len(key)), C.uint64_t(delta), &number)
	})
	return uint64(number), counted(key, found, err)
}

// Decr is like [Cache.Incr], but subtracts delta. The counter stops at 0.
func (c *Cache) Decr(key string, delta uint64) (uint64, error) {
	var number C.uint64_t
	found, err := c.change(key, func() uint32 {
		return C.decrement(c.handle, stringData(key), C.size_t(len(key)), C.uint64_t(delta), &number)
	})
	return uint64(number), counted(key, found, err)
}

// counted returns the error of a change of a counter. For an invalid key the C library reports that
// the item does not exist.
func counted(key string, found bool, err error) error {
	switch {
	case err != nil || found:
		return err
	case len(key) == 0 || len(key) > keyBytesMax:
		return ErrKey
	}
	return ErrNotFound
}

// RemovePrefix removes every item whose key begins with prefix and returns their number. It visits
// all keys, and is not available with a disk tier. To invalidate a group of items often, put a
// generation number into their keys and change it.
func (c *Cache) RemovePrefix(prefix string) (int, error) {
	calls, err := c.enter()
	if err != nil {
		return 0, err
	}
	defer calls.Add(-1)
	c.loads.ForgetPrefix(prefix)
	var removed C.uint64_t
	outcome := C.remove_prefix(c.handle, stringData(prefix), C.size_t(len(prefix)), &removed)
	return int(removed), statusError(outcome)
}

// change runs a change of a key. A load of the key that is in progress then does not store its
// result. It reports whether the condition of the change held, for example whether the item to
// change existed.
func (c *Cache) change(key string, apply func() uint32) (bool, error) {
	calls := c.gate.enter()
	if calls == nil {
		return false, ErrClosed
	}
	defer calls.Add(-1)
	c.loads.Forget(key)
	return applied(apply())
}

// applied converts the status of a conditional change. It returns false if the condition does not
// hold.
func applied(outcome uint32) (bool, error) {
	switch outcome {
	case C.LARDER_OK:
		return true, nil
	case C.LARDER_MISSING, C.LARDER_EXISTS:
		return false, nil
	}
	return false, statusError(outcome)
}
