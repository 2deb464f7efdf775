package larder

import (
	"errors"
	"fmt"
	"time"

	"larder.example/larder/internal/engine"
)

// Set stores a value and replaces the item of the key. The item lives for ttl: 0 means
// [Options.TTL], and a negative ttl deletes it. If Set fails, other than with [ErrKey] and
// [ErrClosed], the previous item is gone: no reader gets the value that was to be replaced.
func (c *Cache) Set(key string, value []byte, ttl time.Duration) error {
	c.flights().Forget(key)
	_, err := c.core().Set(key, value, 0, c.millis(ttl))
	if err != nil {
		return c.failure(err, key, len(value))
	}
	return nil
}

// SetItem is [Cache.Set] with metadata: it stores item.Flags, the item lives for item.TTL, and if
// item.CAS is not 0, it replaces that item only, as [Cache.CompareAndSwap] does. It returns the new
// token; 0 without [Options.CAS].
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

// Append adds bytes to the end of a value and keeps its time to live. It reports whether there is
// an item.
func (c *Cache) Append(key string, part []byte) (bool, error) {
	c.flights().Forget(key)
	_, err := c.core().Append(key, part, 0)
	return c.condition(err, key, len(part))
}

// Prepend adds bytes to the start of a value and keeps its time to live. It reports whether there
// is an item.
func (c *Cache) Prepend(key string, part []byte) (bool, error) {
	c.flights().Forget(key)
	_, err := c.core().Prepend(key, part, 0)
	return c.condition(err, key, len(part))
}

// CompareAndSwap replaces the value of the item that has this token ([Item.CAS]) and returns the
// new token. If several callers modify the value that they have read, one of them succeeds; the
// others get [ErrChanged], and read again. The error is [ErrNotFound] if there is no item. A
// negative ttl deletes the item that has the token.
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

// Delete removes an item, and reports whether there was one; an invalid key has none.
func (c *Cache) Delete(key string) (bool, error) {
	c.flights().Forget(key)
	return c.present(c.core().Delete(key, 0), key)
}

// Touch sets the time to live of an item, counted from now, and reports whether there is one. A
// negative ttl deletes it.
func (c *Cache) Touch(key string, ttl time.Duration) (bool, error) {
	millis := c.millis(ttl)
	if millis < 0 {
		return c.Delete(key)
	}
	return c.present(c.core().Touch(key, millis), key)
}

// present is condition for a change that stores no value: an invalid key has no item.
func (c *Cache) present(err error, key string) (bool, error) {
	if err == engine.ErrBadKey {
		return false, c.openError()
	}
	return c.condition(err, key, 0)
}

// Incr adds delta to a counter, an item whose value is a decimal number, and returns the result.
// The counter wraps at 2^64 and keeps its time to live. The error is [ErrNotANumber] for another
// value, and [ErrNotFound] if there is no item; [Cache.Add] creates a counter.
func (c *Cache) Incr(key string, delta uint64) (uint64, error) {
	c.flights().Forget(key)
	number, _, err := c.core().Incr(key, delta)
	return number, c.failure(err, key, 0)
}

// Decr subtracts delta from a counter, which stops at 0: see [Cache.Incr].
func (c *Cache) Decr(key string, delta uint64) (uint64, error) {
	c.flights().Forget(key)
	number, _, err := c.core().Decr(key, delta)
	return number, c.failure(err, key, 0)
}

// Decision is what [Cache.Update] does with an item.
type Decision int

const (
	// KeepItem changes nothing.
	KeepItem Decision = iota
	// StoreItem stores the value, with the metadata of the item.
	StoreItem
	// RemoveItem removes the item.
	RemoveItem
)

// Update changes an item by what decide returns: no other change of the key takes place between
// the read and the store. decide gets a copy of the value, which it may change and return, and
// isFound says whether there is an item. It may change the flags and the time to live of the item,
// which are stored with the value: the rules of [Cache.Set] hold for item.TTL, which is [Forever]
// for an item that does not expire, and 0 if there is no item. The error is [ErrNotFound] if decide
// removes an item that there is not.
//
// Update holds a lock during the call of decide: it must not use the cache, should be short, and
// may be called several times, of which the last one counts.
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

// Clear removes all items. The times of other calls do not depend on their number.
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

// usable returns the error of a write that changes nothing.
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
