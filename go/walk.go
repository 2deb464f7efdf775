package larder

import (
	"iter"
	"runtime"
)

// Keys returns an iterator over all keys that begin with prefix, in no particular order. It returns
// each key that exists during the complete loop exactly once. It may or may not return a key that
// is stored or removed during the loop. The loop may use the cache, take any time, and stop early,
// because the iterator holds no lock. A complete loop visits all items of the cache, whatever the
// prefix.
func (c *Cache) Keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		c.core().Keys(prefix)(yield)
		runtime.KeepAlive(c)
	}
}

// All returns an iterator over copies of all items whose key begins with prefix. It visits them as
// [Cache.Keys] does, and reads each value when it reaches the key. This does not count as a read.
func (c *Cache) All(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key := range c.Keys(prefix) {
			if value, _, ok := c.core().Peek([]byte{}, key); ok && !yield(key, value) {
				return
			}
		}
	}
}
