package server

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// outcome is the result of a change.
type outcome uint8

const (
	stored outcome = iota
	notStored
	exists
	notFound
	notNumber
	noMemory
	overLimit
	// older means that the token of the request is lower than the token of the item. An ms with I then
	// stores its value and marks it stale.
	older
	// failed means that the cache is closed.
	failed
)

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return stored
	case errors.Is(err, engine.ErrNotStored):
		return notStored
	case errors.Is(err, engine.ErrExists):
		return exists
	case errors.Is(err, engine.ErrNotFound):
		return notFound
	case errors.Is(err, engine.ErrTooLarge):
		return overLimit
	case errors.Is(err, engine.ErrClosed):
		return failed
	}
	return noMemory
}

const monthSeconds = 30 * 24 * 60 * 60

// ttl converts an exptime to a time to live in milliseconds: 0 if the item never expires, and
// negative if it expires immediately.
func (c *conn) ttl(exptime int64) int64 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return -1
	case exptime <= monthSeconds:
		return exptime * 1000
	}
	if left := exptime*1000 - c.engine.Wall(); left > 0 {
		return left
	}
	return -1
}

// storing is a storage command.
type storing struct {
	verb    wire.TextVerb
	key     string
	value   []byte
	flags   uint32
	exptime int64
	token   uint64
	// creates makes an append or prepend store the value as a new item if the item does not exist.
	creates bool
	// invalidates makes the command also store the value if the request has a lower token than the
	// item; the item is then stale.
	invalidates bool
	// newToken is the token of the stored item, if the client has chosen one.
	newToken chosenToken
	// bytes becomes the length of the stored value.
	bytes int
}

// chosenToken is a token that a client gives an item.
type chosenToken struct {
	token  uint64
	exists bool
}

// apply adds the token to a change.
func (t chosenToken) apply(change engine.Change) engine.Change {
	change.Token, change.HasToken = t.token, t.exists
	return change
}

// itemBytes returns the size of an item as memcached counts it.
func itemBytes(keyBytes, valueBytes int, flags uint32) int {
	size := 48 + 8 + keyBytes + 1 + valueBytes + 2
	if flags != 0 {
		size += 4
	}
	return size
}

func (c *conn) isTooLarge(keyBytes, valueBytes int, flags uint32) bool {
	// Compute in 64 bits: a sum with the length that a client announces may exceed an int of 32 bits.
	beside := int64(itemBytes(keyBytes, 0, flags))
	return beside+int64(valueBytes) > int64(c.server.options.ItemMax) ||
		int64(keyBytes)+int64(valueBytes) > int64(c.engine.ItemMax())
}

// rejectLarge counts a store that is too large. A set removes the old item, so that no client reads
// the old value after the set.
func (c *conn) rejectLarge(key string, removes bool) {
	c.counters.add1(storesTooLarge, 1)
	if removes {
		c.server.change(key)
		_ = c.engine.Delete(key, 0)
	}
}

// store executes a storage command and returns the token of the item.
func (c *conn) store(r *storing) (result outcome, token uint64) {
	var err error
	c.server.change(r.key)
	r.bytes = len(r.value)
	flags, ttl := c.softStore(r)
	if !r.isExtension() && (r.newToken.exists || r.invalidates) {
		return c.decide(r, flags, ttl)
	}
	switch r.verb {
	case wire.TextSet:
		if ttl < 0 {
			// Store the item although it has expired. Engine.Set would remove the old item instead, and
			// return no token.
			return c.decide(r, flags, ttl)
		}
		token, err = c.engine.Set(r.key, r.value, flags, ttl)
	case wire.TextAdd:
		token, err = c.engine.Add(r.key, r.value, flags, ttl)
	case wire.TextReplace:
		token, err = c.engine.Replace(r.key, r.value, flags, ttl)
	case wire.TextCAS:
		return c.swap(r, flags, ttl)
	default:
		result, token = c.extend(r)
		if result != notFound || !r.creates {
			if result == notFound {
				result = notStored
			}
			c.noteStore(result)
			return result, token
		}
		if result, token = c.decide(r, flags, ttl); result == notStored {
			// Another client has created it.
			return c.store(r)
		}
		return result, token
	}
	result = outcomeOf(err)
	c.noteStore(result)
	return result, token
}

// decide is like store, but compares the request with the current item inside Engine.Update. It is
// for stores that choose a token or mark the item, which Engine.Set and the similar methods cannot
// do. store calls it for an append or prepend only if the item does not exist, so it executes them
// like an add.
func (c *conn) decide(r *storing, flags uint32, ttl int64) (result outcome, token uint64) {
	deadline := c.engine.Deadline(ttl)
	token, err := c.engine.Update(r.key, func(item engine.Item, _ []byte, isFound bool) engine.Change {
		change := engine.Change{Action: engine.Write, Value: r.value, Flags: flags, Deadline: deadline}
		if result = r.judge(item, isFound); result == older {
			result, change.Deadline = stored, item.Deadline
			change.Marks = engine.Stale | item.Marks()
			if change.Flags = r.flags; c.isSoft(item) && r.flags == 0 {
				change.Flags = item.Flags
			}
		}
		if result != stored {
			return engine.Change{}
		}
		return r.newToken.apply(change)
	})
	if err != nil {
		result = outcomeOf(err)
	}
	if result != stored {
		token = 0
	}
	c.noteStore(result)
	if r.verb == wire.TextCAS {
		c.noteSwap(result)
	}
	return result, token
}

// judge decides whether a command stores its value, given the current item. The result is stored if
// it does, and older if it does and the stored item is stale.
func (r *storing) judge(item engine.Item, isFound bool) outcome {
	switch {
	case r.verb == wire.TextSet, r.verb == wire.TextReplace && isFound:
		return stored
	case r.verb == wire.TextReplace:
		return notStored
	case r.verb == wire.TextCAS && !isFound:
		return notFound
	case r.verb != wire.TextCAS && isFound:
		return notStored
	case r.verb != wire.TextCAS, r.token != 0 && r.token == item.Token:
		return stored
	case r.invalidates && r.token != 0 && r.token < item.Token:
		return older
	}
	return exists
}

func (c *conn) noteStore(result outcome) {
	c.counters.add1(cmdSet, 1)
	switch result {
	case overLimit:
		c.counters.add1(storesTooLarge, 1)
	case noMemory:
		c.counters.add1(storesNoMemory, 1)
	}
}

// swap is compare-and-swap.
func (c *conn) swap(r *storing, flags uint32, ttl int64) (outcome, uint64) {
	token, err := c.engine.CompareAndSwap(r.key, r.value, flags, ttl, r.token)
	result := outcomeOf(err)
	if errors.Is(err, engine.ErrNoTokens) {
		result = notFound
		if _, _, found := c.engine.Peek(nil, r.key); found {
			result = exists
		}
	}
	c.noteStore(result)
	c.noteSwap(result)
	return result, token
}

func (c *conn) noteSwap(result outcome) {
	c.counters.add1(casHits, one(result == stored))
	c.counters.add1(casBadval, one(result == exists))
	c.counters.add1(casMisses, one(result == notFound))
}

// extend executes append and prepend. The result is notFound if the item does not exist, and
// notStored if it would become too large.
func (c *conn) extend(r *storing) (result outcome, token uint64) {
	var joined []byte
	token, err := c.engine.Update(r.key, func(item engine.Item, value []byte, isFound bool) engine.Change {
		switch {
		case !isFound:
			result = notFound
			return engine.Change{}
		case c.isTooLarge(len(r.key), len(value)+len(r.value), item.Flags):
			result = notStored
			return engine.Change{}
		case r.token != 0 && r.token != item.Token:
			result = exists
			return engine.Change{}
		}
		result, r.bytes = stored, len(value)+len(r.value)
		if r.verb == wire.TextAppend {
			joined = append(append(joined[:0], value...), r.value...)
		} else {
			joined = append(append(joined[:0], r.value...), value...)
		}
		change := engine.Change{
			Action: engine.Write, Value: joined, Flags: item.Flags, Deadline: item.Deadline,
		}
		if c.isSoft(item) {
			// Keep the marks: an append does not make a stale item fresh.
			change.Marks = item.Marks()
		}
		return r.newToken.apply(change)
	})
	if err != nil {
		result = outcomeOf(err)
	}
	if result != stored {
		token = 0
	}
	return result, token
}

// remove deletes an item. If token is not zero, it deletes the item only if the item has this
// token.
func (c *conn) remove(key string, token uint64) outcome {
	c.server.change(key)
	result := outcomeOf(c.engine.Delete(key, token))
	c.counters.add1(deleteHits, one(result == stored))
	c.counters.add1(deleteMisses, one(result == notFound))
	return result
}

// counting is an incr or decr command.
type counting struct {
	delta, token uint64
	newToken     chosenToken
	subtract     bool
	// creates makes the command store initial with exptime if the item does not exist.
	creates bool
	initial uint64
	exptime int64
	// touches makes the command set the exptime of the item to touch.
	touches bool
	touch   int64
	// isCreated becomes true if the command has created the item. deadline becomes the deadline of the
	// item before the command.
	isCreated bool
	deadline  int64
}

// count executes incr and decr. A shorter number is padded with spaces.
func (c *conn) count(key string, r counting) (number, token uint64, result outcome) {
	return c.countInto(key, &r)
}

func (c *conn) countInto(key string, r *counting) (number, token uint64, result outcome) {
	var digits []byte
	c.server.change(key)
	token, err := c.engine.Update(key, func(item engine.Item, value []byte, isFound bool) engine.Change {
		result, r.isCreated = stored, false
		if !isFound {
			if !r.creates {
				result = notFound
				return engine.Change{}
			}
			number, r.isCreated = r.initial, true
			digits = strconv.AppendUint(digits[:0], number, 10)
			r.deadline = 0
			deadline := c.engine.Deadline(c.ttl(r.exptime))
			return r.newToken.apply(engine.Change{Action: engine.Write, Value: digits, Deadline: deadline})
		}
		old, ok := grammar.ParseCounter(value)
		switch {
		case len(value) > 0 && r.token != 0 && r.token != item.Token:
			// memcached checks the token before the value, unless the value is empty.
			result = exists
			return engine.Change{}
		case !ok:
			result = notNumber
			return engine.Change{}
		case !r.subtract:
			number = old + r.delta
		default:
			number = old - min(old, r.delta)
		}
		digits = strconv.AppendUint(digits[:0], number, 10)
		for len(digits) < len(value) {
			digits = append(digits, ' ')
		}
		change := engine.Change{
			Action: engine.Write, Flags: item.Flags, Deadline: item.Deadline, Marks: item.Marks(),
		}
		if r.touches {
			change = c.touched(item, r.touch)
		}
		if len(digits) > len(value) && !c.isSoft(item) {
			// memcached replaces the item if the number becomes longer, so the marks of the old item are
			// lost.
			change.Marks = 0
		}
		change.Value, r.deadline = digits, c.deadline(item)
		return r.newToken.apply(change)
	})
	if err != nil {
		result = outcomeOf(err)
	}
	hits, misses := incrHits, incrMisses
	if r.subtract {
		hits, misses = decrHits, decrMisses
	}
	c.counters.add1(hits, one(result == stored && !r.isCreated))
	c.counters.add1(misses, one(result == notFound))
	return number, token, result
}

// delayedClear is the flush_all with a delay whose time has not come yet.
type delayedClear struct {
	mu    sync.Mutex
	timer *time.Timer
}

// clearCache removes all items, immediately or after a delay. It cancels an earlier flush_all that
// is still waiting for its delay.
func (c *conn) clearCache(exptime int64) {
	c.counters.add1(cmdFlush, 1)
	s := c.server
	s.clearing.cancel()
	if delay := c.ttl(exptime); delay > 0 && delay < math.MaxInt64/int64(time.Millisecond) {
		s.clearing.start(time.Duration(delay)*time.Millisecond, s.clear)
		return
	}
	s.clear()
}

func (s *Server) clear() {
	s.change("")
	_ = s.engine.Clear()
}

func (d *delayedClear) start(delay time.Duration, run func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer = time.AfterFunc(delay, run)
}

func (d *delayedClear) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
