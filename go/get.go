package larder

import (
	"runtime"
	"time"

	"larder.example/larder/internal/engine"
)

// Get returns a copy of the value of a key, and reports whether there is one. The copy of an empty
// value is not nil.
func (c *Cache) Get(key string) ([]byte, bool) {
	value, ok := c.core().Get(key)
	if ok && value == nil {
		value = []byte{}
	}
	return value, ok
}

// GetInto appends the value of a key to dst and returns the extended slice. If the key has no item,
// it returns dst unchanged and false. It does not allocate if the capacity of dst suffices.
func (c *Cache) GetInto(dst []byte, key string) (value []byte, ok bool) {
	return c.core().GetInto(dst, key)
}

// View calls read with the value of a key, in place, and reports whether there is one. The slice is
// valid during the call and must not be written; its bytes do not change. View holds no lock: read
// may use the cache, and may block, but until it returns the cache cannot reuse the memory around
// the value. While many calls are in progress, and for a value of more than half a segment, View
// passes a copy.
func (c *Cache) View(key string, read func(value []byte)) bool {
	return c.core().View(key, read)
}

// GetItem is like [Cache.Get] and also returns the metadata of the item.
func (c *Cache) GetItem(key string) (value []byte, item Item, ok bool) {
	value, found, ok := c.core().GetItem(nil, key)
	if !ok {
		return nil, Item{}, false
	}
	if value == nil {
		value = []byte{}
	}
	return value, c.itemOf(&found), true
}

// Peek returns the metadata of an item and the length of its value in bytes, without counting as a
// read.
func (c *Cache) Peek(key string) (item Item, valueBytes int, ok bool) {
	found, ok := c.core().Look(key)
	if !ok {
		return Item{}, 0, false
	}
	return c.itemOf(&found), found.Bytes, true
}

// Contains reports whether there is an item for key. It does not count as a read.
func (c *Cache) Contains(key string) bool {
	_, ok := c.core().Look(key)
	return ok
}

// GetMany calls visit for each key that has an item, in the order of the keys. The argument at is
// the position of the key. As with [Cache.View], the slice is valid during the call of visit and
// must not be written.
func (c *Cache) GetMany(keys []string, visit func(at int, value []byte)) {
	c.core().GetMany(keys, func(at int, value []byte, _ engine.Item) { visit(at, value) })
	runtime.KeepAlive(c)
}

// GetAndTouch returns the value as [Cache.Get] does and sets the item's time to live to ttl from
// now.
func (c *Cache) GetAndTouch(key string, ttl time.Duration) ([]byte, bool) {
	value, _, ok := c.core().GetAndTouch(nil, key, c.millis(ttl))
	if ok && value == nil {
		value = []byte{}
	}
	return value, ok
}
