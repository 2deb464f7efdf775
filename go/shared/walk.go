//go:build linux && cgo

package shared

/*
#include "calls.h"

#cgo noescape larder_keys_next
#cgo nocallback larder_keys_next
*/
import "C"

import (
	"iter"
	"unsafe"
)

// Keys returns an iterator over all keys that begin with prefix, in no particular order. It returns
// each key that exists during the complete loop at least once. It may or may not return a key that
// is stored or removed during the loop. The loop may use the cache, take any time, and stop early,
// because the iterator holds no lock. A complete loop visits all items of the cache, whatever the
// prefix.
func (c *Cache) Keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var walk *C.larder_key_walk
		calls, err := c.enter()
		if err != nil {
			return
		}
		C.keys(c.handle, stringData(prefix), C.size_t(len(prefix)), &walk)
		calls.Add(-1)
		defer C.larder_keys_close(walk)
		for key, ok := c.nextKey(walk); ok && yield(key); key, ok = c.nextKey(walk) {
		}
	}
}

// nextKey returns the next key of a walk, and false at the end and in a closed cache.
func (c *Cache) nextKey(walk *C.larder_key_walk) (string, bool) {
	calls := c.gate.enter()
	if calls == nil {
		return "", false
	}
	defer calls.Add(-1)
	var key [C.LARDER_KEY_BYTES_MAX]byte
	var length C.size_t
	if C.larder_keys_next(walk, unsafe.Pointer(&key), &length) != C.LARDER_OK {
		return "", false
	}
	return string(key[:length]), true
}

// All returns an iterator over copies of all items whose key begins with prefix. It visits them as
// [Cache.Keys] does, and reads each value when it reaches the key. This counts as a read.
func (c *Cache) All(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key := range c.Keys(prefix) {
			if value, ok := c.Get(key); ok && !yield(key, value) {
				return
			}
		}
	}
}
