package engine

import (
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/shard"
)

// Times to live are in milliseconds. Zero means forever, and an item with a negative time to live
// has already expired.

// Deadline returns the millisecond at which an item with a time to live expires, or zero.
func (e *Engine) Deadline(ttl int64) int64 {
	switch {
	case ttl == 0:
		return 0
	case ttl < 0:
		return 1
	}
	now := e.config.Now()
	if ttl > 1<<62-now {
		return 0
	}
	return now + ttl
}

// Set stores an item and returns its token.
func (e *Engine) Set(key string, value []byte, flags uint32, ttl int64) (uint64, error) {
	return e.store(key, value, flags, ttl, shard.Set, 0)
}

// Add stores an item if the key does not have one yet, and otherwise returns ErrNotStored.
func (e *Engine) Add(key string, value []byte, flags uint32, ttl int64) (uint64, error) {
	return e.store(key, value, flags, ttl, shard.Add, 0)
}

// Replace stores an item if the key already has one, and otherwise returns ErrNotStored.
func (e *Engine) Replace(key string, value []byte, flags uint32, ttl int64) (uint64, error) {
	return e.store(key, value, flags, ttl, shard.Replace, 0)
}

// CompareAndSwap stores an item if the current item has the token. It returns ErrExists if the
// current item has another token, and ErrNotFound if the key has no item.
func (e *Engine) CompareAndSwap(
	key string, value []byte, flags uint32, ttl int64, token uint64,
) (uint64, error) {
	if !e.config.CAS {
		return 0, ErrNoTokens
	}
	return e.store(key, value, flags, ttl, shard.Swap, token)
}

func (e *Engine) store(
	key string, value []byte, flags uint32, ttl int64, mode shard.Mode, token uint64,
) (uint64, error) {
	if !isKey(key) {
		return 0, ErrBadKey
	}
	if len(key)+len(value) > e.ItemMax() {
		return 0, e.refuse(key, mode)
	}
	if ttl < 0 && mode == shard.Set {
		if err := e.Delete(key, 0); err != nil && err != ErrNotFound {
			return 0, err
		}
		return 0, nil
	}
	hash := e.hash(key)
	cell, ok := e.begin()
	if !ok {
		return 0, ErrClosed
	}
	s := e.shardOf(hash)
	s.Warm(hash, len(key)+len(value)+record.HeaderBytes)
	// The compiler would build a literal elsewhere and copy it.
	var request shard.Request
	request.Key, request.Hash, request.Value = key, hash, value
	request.Flags, request.Mode, request.Token = flags, mode, token
	if ttl != 0 {
		request.Deadline = e.Deadline(ttl)
	}
	s.Lock()
	token, err := s.Store(&request)
	removals := s.Unlock()
	e.end(cell, pins.None)
	if removals != nil {
		e.report(removals)
	}
	return token, err
}

// refuse handles a value that is too large. It removes the item that the set would have replaced,
// as memcached does, because no reader may receive the old value after a set.
func (e *Engine) refuse(key string, mode shard.Mode) error {
	if e.closed.Load() {
		return ErrClosed
	}
	if mode == shard.Set {
		_ = e.Delete(key, 0)
	}
	return ErrTooLarge
}

func isKey(key string) bool { return len(key) > 0 && len(key) <= KeyBytesMax }

// change runs an operation with the lock of the key's shard held.
func (e *Engine) change(key string, run func(s *shard.Shard, hash uint64) error) error {
	if !isKey(key) {
		return ErrBadKey
	}
	hash := e.hash(key)
	cell, ok := e.begin()
	if !ok {
		return ErrClosed
	}
	s := e.shardOf(hash)
	s.Warm(hash, record.HeaderBytes)
	return e.locked(s, cell, hash, run)
}

// locked runs an operation with the lock held, releases the cell and reports removals. It does so
// also after a panic, because the operation may have removed an expired item before.
func (e *Engine) locked(
	s *shard.Shard, cell *pins.Cell, hash uint64, run func(s *shard.Shard, hash uint64) error,
) error {
	s.Lock()
	defer func() {
		removals := s.Unlock()
		e.end(cell, pins.None)
		e.report(removals)
	}()
	return run(s, hash)
}

// Delete removes an item if token is zero or the token of the item; otherwise it returns ErrExists.
func (e *Engine) Delete(key string, token uint64) error {
	return e.change(key, func(s *shard.Shard, hash uint64) error {
		return s.Delete(key, hash, token)
	})
}

// Append adds bytes to the end of a value. It returns ErrNotStored if the key has no item, and
// ErrExists if token is neither zero nor the token of the item.
func (e *Engine) Append(key string, more []byte, token uint64) (uint64, error) {
	return e.extend(key, more, false, token)
}

// Prepend adds bytes to the start of a value; see Append.
func (e *Engine) Prepend(key string, more []byte, token uint64) (uint64, error) {
	return e.extend(key, more, true, token)
}

func (e *Engine) extend(key string, more []byte, inFront bool, wanted uint64) (uint64, error) {
	token := uint64(0)
	err := e.change(key, func(s *shard.Shard, hash uint64) (err error) {
		limit := e.ItemMax() - len(key)
		token, err = s.Extend(key, hash, more, inFront, wanted, limit)
		return err
	})
	return token, err
}

// Incr adds to a decimal number. Sums wrap at 64 bits.
func (e *Engine) Incr(key string, delta uint64) (number, token uint64, err error) {
	return e.add(key, delta, false)
}

// Decr subtracts from a decimal number. Differences stop at zero.
func (e *Engine) Decr(key string, delta uint64) (number, token uint64, err error) {
	return e.add(key, delta, true)
}

func (e *Engine) add(key string, delta uint64, subtract bool) (number, token uint64, err error) {
	err = e.change(key, func(s *shard.Shard, hash uint64) (err error) {
		number, token, err = s.Add(key, hash, delta, subtract)
		return err
	})
	return number, token, err
}

// Touch sets the time to live of an item.
func (e *Engine) Touch(key string, ttl int64) error {
	_, err := e.Update(key, func(_ Item, _ []byte, isFound bool) Change {
		if ttl < 0 {
			return Change{Action: shard.Remove}
		}
		return Change{Action: shard.Touch, Deadline: e.Deadline(ttl)}
	})
	return err
}

// GetAndTouch appends the value of a key to dst and sets the time to live of the item.
func (e *Engine) GetAndTouch(dst []byte, key string, ttl int64) ([]byte, Item, bool) {
	start, before := len(dst), Item{}
	_, err := e.Update(key, func(item Item, value []byte, isFound bool) Change {
		if dst, before = append(dst[:start], value...), item; ttl < 0 {
			return Change{Action: shard.Remove}
		}
		return Change{Action: shard.Touch, Deadline: e.Deadline(ttl)}
	})
	if err != nil {
		e.pins.CountOther(pins.Miss)
		return dst[:start], Item{}, false
	}
	e.pins.CountOther(pins.Hit)
	return dst, before, true
}

// Change is the decision of an update.
type Change = shard.Change

// The actions of an update.
const (
	// Keep changes only the marks.
	Keep = shard.Keep
	// Read counts a read of the item.
	Read = shard.Read
	// Remove removes the item.
	Remove = shard.Remove
	// TouchItem stores the deadline of the change.
	TouchItem = shard.Touch
	// Write stores the value, the flags, the deadline and the marks of the change.
	Write = shard.Write
)

// The marks of an item, which only package server uses. Each store clears them.
const (
	// Stale marks an item whose value a client should replace.
	Stale = record.Stale
	// Claimed marks an item that a client is replacing.
	Claimed = record.Claimed
)

// Update applies the change that decide returns to an item, and returns the token of the item after
// the change. decide receives the value in place. It runs with a lock held, so it must neither use
// the cache nor keep the value. It may run several times; only the last decision takes effect.
func (e *Engine) Update(
	key string, decide func(item Item, value []byte, isFound bool) Change,
) (token uint64, err error) {
	isTooLarge := false
	err = e.change(key, func(s *shard.Shard, hash uint64) (err error) {
		token, err = s.Update(key, hash, func(item Item, value []byte, isFound bool) Change {
			change := decide(item, value, isFound)
			isTooLarge = change.Action == Write && len(key)+len(change.Value) > e.ItemMax()
			if isTooLarge {
				return Change{}
			}
			return change
		})
		return err
	})
	if isTooLarge {
		return 0, ErrTooLarge
	}
	return token, err
}

// Clear removes all items. It clears the shards one after the other, each in a bounded time if the
// cache does not report removals.
func (e *Engine) Clear() error {
	for number := range e.shards {
		cell, ok := e.begin()
		if !ok {
			return ErrClosed
		}
		s := &e.shards[number]
		s.Lock()
		s.Clear()
		removals := s.Unlock()
		e.end(cell, pins.None)
		e.report(removals)
	}
	return nil
}
