//go:build linux && cgo

package larder

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

// Walk gives the keys of a cache one by one, in no particular order. A key that is there all the time is given at least
// once; one that is stored or removed meanwhile may be or not. Nothing is held between two steps. Goroutines may share a
// walk: each key is given to one of them.
type Walk struct {
	cache *Cache
	// Held during a step, and while the walk is closed.
	lock sync.Mutex
	// Nil where the walk is closed.
	keys    *C.larder_key_walk
	cleanup runtime.Cleanup
}

// Walk begins a walk through all keys that begin with prefix; of a closed or connected cache it gives none. One that is
// not closed is closed by the garbage collector.
func (c *Cache) Walk(prefix string) *Walk {
	walk := &Walk{cache: c}
	if c.remote != nil {
		return walk
	}
	calls := c.gate.enter()
	if calls == nil {
		return walk
	}
	defer calls.Add(-1)
	C.keys(c.handle, stringData(prefix), C.size_t(len(prefix)), &walk.keys)
	walk.cleanup = runtime.AddCleanup(walk, func(keys *C.larder_key_walk) { closeKeys(keys) }, walk.keys)
	return walk
}

// Next gives the next key; false where all have been given.
func (w *Walk) Next() (string, bool) {
	// The garbage collector closes a walk that nothing refers to any more, as a caller in its last step does not.
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

// Close ends the walk, also while other goroutines are in [Walk.Next]. Closing a closed walk does nothing.
func (w *Walk) Close() {
	defer runtime.KeepAlive(w)
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cleanup.Stop()
	closeKeys(w.keys)
	w.keys = nil
}

// closeKeys gives back what a walk has in C. Tests look when it is called.
var closeKeys = func(keys *C.larder_key_walk) { C.larder_keys_close(keys) }

// Keys gives all keys that begin with prefix: see [Walk]. The loop may take its time, use the cache, and end at any place.
func (c *Cache) Keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		walk := c.Walk(prefix)
		defer walk.Close()
		for key, ok := walk.Next(); ok && yield(key); key, ok = walk.Next() {
		}
	}
}

// All gives all items whose key begins with prefix, as [Cache.Keys] gives the keys: each with the value that it has when
// its turn comes.
func (c *Cache) All(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key := range c.Keys(prefix) {
			if value, ok := c.Get(key); ok && !yield(key, value) {
				return
			}
		}
	}
}
