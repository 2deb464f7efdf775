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
	"runtime"
	"sync"
	"unsafe"
)

// Walk iterates over the keys of a cache, in no particular order. It returns each key that exists
// throughout the walk at least once, and a key that is stored or removed meanwhile perhaps. It
// holds no lock between two steps. Goroutines may share a walk; then each key goes to one of them.
type Walk struct {
	cache *Cache
	// Held during a step and while the walk is closed.
	lock sync.Mutex
	// Nil after Close.
	keys    *C.larder_key_walk
	cleanup runtime.Cleanup
}

// Walk starts a walk over all keys that begin with prefix. For a closed cache it
// returns no keys. The garbage collector closes a walk that is not closed.
func (c *Cache) Walk(prefix string) *Walk {
	walk := &Walk{cache: c}
	calls, err := c.enter()
	if err != nil {
		return walk
	}
	defer calls.Add(-1)
	C.keys(c.handle, stringData(prefix), C.size_t(len(prefix)), &walk.keys)
	walk.cleanup = runtime.AddCleanup(walk, func(keys *C.larder_key_walk) { closeKeys(keys) }, walk.keys)
	return walk
}

// Next returns the next key, and false at the end.
func (w *Walk) Next() (string, bool) {
	// The garbage collector closes an unreachable walk, and a caller's last use of it may be this
	// call.
	defer runtime.KeepAlive(w)
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.keys == nil {
		return "", false
	}
	calls := w.cache.gate.enter()
	if calls == nil {
		return "", false
	}
	defer calls.Add(-1)
	var key [C.LARDER_KEY_BYTES_MAX]byte
	var length C.size_t
	if C.larder_keys_next(w.keys, unsafe.Pointer(&key), &length) != C.LARDER_OK {
		return "", false
	}
	return string(key[:length]), true
}

// Close ends the walk, also while other goroutines are in [Walk.Next]. Closing a closed walk has no
// effect.
func (w *Walk) Close() {
	defer runtime.KeepAlive(w)
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cleanup.Stop()
	closeKeys(w.keys)
	w.keys = nil
}

// closeKeys releases the C part of a walk. Tests replace it to observe the call.
var closeKeys = func(keys *C.larder_key_walk) { C.larder_keys_close(keys) }

// Keys returns an iterator over all keys that begin with prefix: see [Walk]. The loop may use the
// cache, take any time, and stop early.
func (c *Cache) Keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		walk := c.Walk(prefix)
		defer walk.Close()
		for key, ok := walk.Next(); ok && yield(key); key, ok = walk.Next() {
		}
	}
}

// All returns an iterator over all items whose key begins with prefix, in the manner of
// [Cache.Keys]. Each value is read when its key is reached.
func (c *Cache) All(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key := range c.Keys(prefix) {
			if value, ok := c.Get(key); ok && !yield(key, value) {
				return
			}
		}
	}
}
