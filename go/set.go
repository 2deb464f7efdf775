package larder

import (
	"errors"
	"fmt"
	"time"

	"larder.example/larder/internal/engine"
)

// Set stores a value and replaces the item of the key. The item lives for ttl: 0 means
// [Options.TTL], and a negative ttl deletes the item. If Set fails with an error other than
// [ErrKey] and [ErrClosed], it has removed the previous item, so that no reader receives the old
// value.
func (c *Cache) Set(key string, value []byte, ttl time.Duration) error {
	c.flights().Forget(key)
	_, err := c.core().Set(key, value, 0, c.millis(ttl))
	if err != nil {
		return c.failure(err, key, len(value))
	}
	return nil
}

// SetItem is like [Cache.Set], but also stores metadata: it stores item.Flags, and the item lives
// for item.TTL. If item.CAS is not 0, SetItem replaces only the item with that token, as
// [Cache.CompareAndSwap] does. It returns the new token, or 0 without [Options.CAS].
func (c *Cache) SetItem(key string, value []byte, item Item) (token uint64, err error) {
	if item.CAS != 0 {
		return c.swap(key, value, item)
	}
	c.flights().Forget(key)
	token, err = c.core().Set(key, value, item.Flags, c.millisOf(&item))
	if !c.options.CAS {
		token = 0
	}
	return token, c.failure(err, key, len(value))
}

// Add stores a value if the key has no item, and reports whether it did. With a negative ttl it
// stores nothing.
func (c *Cache) Add(key string, value []byte, ttl time.Duration) (bool, error) {
	millis := c.millis(ttl)
	if millis < 0 {
		return false, c.usable(key)
	}
	c.flights().Forget(key)
	_, err := c.core().Add(key, value, 0, millis)
	return c.condition(err, key, len(value))
}

// Replace stores a value if the key has an item, and reports whether it did. With a negative ttl it
// deletes the item.
func (c *Cache) Replace(key string, value []byte, ttl time.Duration) (bool, error) {
	millis := c.millis(ttl)
	if millis < 0 {
		return c.Delete(key)
	}
	c.flights().Forget(key)
	_, err := c.core().Replace(key, value, 0, millis)
	return c.condition(err, key, len(value))
}

// Append adds bytes to the end of a value and keeps its time to live. It reports whether the key
// has an item.
func (c *Cache) Append(key string, part []byte) (bool, error) {
	c.flights().Forget(key)
	_, err := c.core().Append(key, part, 0)
	return c.condition(err, key, len(part))
}

// Prepend adds bytes to the start of a value and keeps its time to live. It reports whether the key
// has an item.
func (c *Cache) Prepend(key string, part []byte) (bool, error) {
	c.flights().Forget(key)
	_, err := c.core().Prepend(key, part, 0)
	return c.condition(err, key, len(part))
}

// CompareAndSwap replaces the value of the item that has this token ([Item.CAS]) and returns the
// new token. If several callers modify the value that they have read, one of them succeeds; the
// others get [ErrChanged], and should read the value again. If the key has no item, the error is
// [ErrNotFound]. A negative ttl deletes the item that has the token.
func (c *Cache) CompareAndSwap(key string, value []byte, ttl time.Duration, cas uint64) (uint64, error) {
	return c.swap(key, value, Item{CAS: cas, TTL: ttl})
}

func (c *Cache) swap(key string, value []byte, item Item) (uint64, error) {
	c.flights().Forget(key)
	millis := c.millisOf(&item)
	if millis >= 0 || !c.options.CAS || item.CAS == 0 {
		token, err := c.core().CompareAndSwap(key, value, item.Flags, millis, item.CAS)
		return token, c.failure(err, key, len(value))
	}
	return 0, c.failure(c.core().Delete(key, item.CAS), key, 0)
}

// Delete removes an item, and reports whether it existed. For an invalid key it returns false.
func (c *Cache) Delete(key string) (bool, error) {
	c.flights().Forget(key)
	return c.present(c.core().Delete(key, 0), key)
}

// Touch sets the time to live of an item, counted from now, and reports whether the item exists. A
// negative ttl deletes the item.
func (c *Cache) Touch(key string, ttl time.Duration) (bool, error) {
	millis := c.millis(ttl)
	if millis < 0 {
		return c.Delete(key)
	}
	return c.present(c.core().Touch(key, millis), key)
}

// present is like condition, for a change that stores no value. An invalid key has no item: present
// returns false for it, and an error only if the cache is closed.
func (c *Cache) present(err error, key string) (bool, error) {
	if err == engine.ErrBadKey {
		return false, c.openError()
	}
	return c.condition(err, key, 0)
}

// Incr adds delta to a counter, an item whose value is a decimal number, and returns the result.
// The counter wraps at 2^64 and keeps its time to live. The error is [ErrNotANumber] if the value
// is not such a number, and [ErrNotFound] if the key has no item; [Cache.Add] creates a counter.
func (c *Cache) Incr(key string, delta uint64) (uint64, error) {
	c.flights().Forget(key)
	number, _, err := c.core().Incr(key, delta)
	return number, c.failure(err, key, 0)
}

// Decr is like [Cache.Incr], but subtracts delta. The counter stops at 0.
func (c *Cache) Decr(key string, delta uint64) (uint64, error) {
	c.flights().Forget(key)
	number, _, err := c.core().Decr(key, delta)
	return number, c.failure(err, key, 0)
}

// Decision is the action that [Cache.Update] takes on an item.
type Decision int

const (
	// KeepItem changes nothing.
	KeepItem Decision = iota
	// StoreItem stores the value, with the metadata of the item.
	StoreItem
	// RemoveItem removes the item.
	RemoveItem
)

// Update reads an item, calls decide and applies its decision, atomically: no other change of the
// key takes place between the read and the store. The value that decide receives is a copy, which
// it may change and return; isFound is false if the key has no item. decide may also change the
// flags and the time to live of the item, which Update stores with the value. The rules of
// [Cache.Set] apply to item.TTL; before the call it is [Forever] for an item that does not expire,
// and 0 if the key has no item. The error is [ErrNotFound] if decide returns RemoveItem for a key
// without an item.
//
// Update holds a lock during the call of decide, so decide must not use the cache and should be
// short. Update may call it several times; only the last decision takes effect.
func (c *Cache) Update(
	key string, decide func(value []byte, item *Item, isFound bool) ([]byte, Decision),
) error {
	c.flights().Forget(key)
	valueBytes, unknown := 0, false
	_, err := c.core().Update(key, func(found engine.Item, value []byte, isFound bool) engine.Change {
		item := Item{}
		if isFound {
			item = c.itemOf(&found)
			if item.TTL == 0 {
				item.TTL = Forever
			}
		}
		ttl := item.TTL
		next, decision := decide(append([]byte{}, value...), &item, isFound)
		valueBytes, unknown = len(next), false
		switch millis := c.millis(item.TTL); {
		case decision == KeepItem:
			return engine.Change{}
		case decision == StoreItem && millis >= 0:
			deadline := found.Deadline
			if !isFound || item.TTL != ttl {
				deadline = c.core().Deadline(millis)
			}
			return engine.Change{Action: engine.Write, Value: next, Flags: item.Flags, Deadline: deadline}
		case decision == StoreItem && !isFound:
			return engine.Change{}
		case decision == RemoveItem, decision == StoreItem:
			return engine.Change{Action: engine.Remove}
		}
		unknown = true
		return engine.Change{}
	})
	if unknown {
		return fmt.Errorf("%w: the callback of Update has returned an unknown Decision", ErrInvalid)
	}
	return c.failure(err, key, valueBytes)
}

// Clear removes all items. It does not slow down other calls, however many items there are.
func (c *Cache) Clear() error {
	c.flights().ForgetPrefix("")
	return c.failure(c.core().Clear(), "", 0)
}

// RemovePrefix removes every item whose key begins with prefix and returns their number. It visits
// all keys. To invalidate a group of items often, put a generation number into their keys and
// change it.
func (c *Cache) RemovePrefix(prefix string) (removed int, err error) {
	c.flights().ForgetPrefix(prefix)
	for key := range c.core().Keys(prefix) {
		switch err := c.core().Delete(key, 0); {
		case err == nil:
			removed++
		case !errors.Is(err, engine.ErrNotFound):
			return removed, c.failure(err, key, 0)
		}
	}
	return removed, c.openError()
}

// openError returns ErrClosed if the cache is closed.
func (c *Cache) openError() error {
	if c.flights().Context().Err() != nil {
		return ErrClosed
	}
	return nil
}

// usable returns the error of a write that has nothing to do, for example an Add with a negative
// time to live: ErrKey for an invalid key and ErrClosed for a closed cache.
func (c *Cache) usable(key string) error {
	if !isKey(key) {
		return keyError(key)
	}
	return c.openError()
}

// Maintain removes all expired items, as the cache does by itself with [Options.Sweep].
func (c *Cache) Maintain() error {
	c.core().SweepNow()
	return c.openError()
}
