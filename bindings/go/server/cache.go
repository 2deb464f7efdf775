package server

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"larder.example/larder/internal/engine"
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

// form is the way in which a value is shown.
type form uint8

const (
	noForm form = iota
	textForm
	textTokenForm
	metaForm
	binaryForm
)

// mode is what a lookup does to the item.
type mode uint8

const (
	looking mode = iota
	peeking
	touching
)

// lookup is a search for a key, and what it has found.
type lookup struct {
	// visit is conn.visitHit, once per connection.
	visit   func(value []byte, item engine.Item)
	key     string
	form    form
	mode    mode
	exptime int64
	meta    *metaLine
	binary  *wire.BinaryRequest
	// wanted is the number of bytes for which the output had no room, or 0. A value of more than
	// copyMax bytes is not copied to find that out.
	wanted, copyMax int
	item            engine.Item
}

// find shows the item of a key and returns true if there is one.
func (c *conn) find(key string) (found bool) {
	l := &c.lookup
	l.key, l.copyMax = key, outMax
	for copied := 0; ; {
		l.wanted = 0
		if l.mode == looking {
			found = c.engine.ViewUpTo(key, l.copyMax, l.visit)
		} else {
			found = c.findLocked(key)
		}
		c.giveBack(copied)
		if l.wanted == 0 {
			break
		}
		if !c.makeRoom(l.wanted) {
			return found
		}
		// The cache may have to copy a long value, too.
		if copied = charged(l.wanted); copied > 0 && !c.server.hold(c, copied) {
			c.isBroken = true
			return found
		}
		l.copyMax = max(l.wanted, outMax)
	}
	switch {
	case l.mode == touching:
		c.counters.add1(touchHits, one(found))
		c.counters.add1(touchMisses, one(!found))
	case found:
		c.counters.add1(getHits, 1)
	default:
		c.counters.add1(getMisses, 1)
	}
	return found
}

func one(isCounted bool) int {
	if isCounted {
		return 1
	}
	return 0
}

// findLocked finds an item and touches it, or finds it without the marks of a read.
func (c *conn) findLocked(key string) (found bool) {
	l, length := &c.lookup, len(c.out)
	if l.mode == touching {
		c.server.change(key)
	}
	_, _ = c.engine.Update(key, func(item engine.Item, value []byte, isFound bool) engine.Change {
		c.out = c.out[:length]
		if found = isFound; !isFound {
			return engine.Change{}
		}
		if l.visit(value, item); l.wanted > 0 || l.mode == peeking {
			return engine.Change{}
		}
		flags, deadline := c.touched(item, l.exptime)
		if flags != item.Flags {
			return engine.Change{
				Action: engine.Write, Value: bytes.Clone(value), Flags: flags, Deadline: deadline,
			}
		}
		return engine.Change{Action: engine.TouchItem, Deadline: deadline}
	})
	return found
}

// visitHit appends an item to the output. The cache calls it with the value in place, so it neither
// sends nor waits: without room it asks for some.
func (c *conn) visitHit(value []byte, item engine.Item) {
	l := &c.lookup
	switch l.form {
	case noForm:
		l.item = item
	case metaForm:
		c.visitMeta(value, item)
	case binaryForm:
		c.visitBinary(value, item)
	default:
		more := len(l.key) + item.Bytes + len("VALUE  4294967295 2147483647 18446744073709551615\r\n\r\n")
		if !c.hasRoom(more) || len(value) < item.Bytes {
			l.wanted = more
			return
		}
		item = c.soften(l.key, item)
		out := append(append(c.out, "VALUE "...), l.key...)
		out = appendUint(appendUint(out, uint64(item.Flags)), uint64(len(value)))
		if l.form == textTokenForm {
			out = appendUint(out, item.Token)
		}
		out = append(append(out, "\r\n"...), value...)
		c.out = append(out, "\r\n"...)
	}
}

const monthSeconds = 30 * 24 * 60 * 60

// ttl returns the milliseconds to live of an exptime: 0 for never, and negative for none.
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
	// creates stores the value of append and prepend if there is no item.
	creates bool
	// bytes becomes the length of the value.
	bytes int
}

// itemBytes is the size of an item as memcached counts it.
func itemBytes(keyBytes, valueBytes int, flags uint32) int {
	size := 48 + 8 + keyBytes + 1 + valueBytes + 2
	if flags != 0 {
		size += 4
	}
	return size
}

func (c *conn) isTooLarge(keyBytes, valueBytes int, flags uint32) bool {
	return itemBytes(keyBytes, valueBytes, flags) > c.server.options.ItemMax ||
		keyBytes+valueBytes > c.engine.ItemMax()
}

// rejectLarge counts a store that is too large. A set removes the old item, so that no reader sees
// the value from before it.
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
	switch r.verb {
	case wire.TextSet:
		if ttl < 0 {
			// The item is stored and has expired. Engine.Set would remove the old one instead, and give
			// no token.
			token, err = c.engine.Update(r.key, func(engine.Item, []byte, bool) engine.Change {
				return engine.Change{Action: engine.Write, Value: r.value, Flags: flags, Deadline: 1}
			})
			break
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
		if token, err = c.engine.Add(r.key, r.value, flags, ttl); errors.Is(err, engine.ErrNotStored) {
			// Another client has created it.
			return c.store(r)
		}
	}
	result = outcomeOf(err)
	c.noteStore(result)
	return result, token
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
	c.counters.add1(casHits, one(result == stored))
	c.counters.add1(casBadval, one(result == exists))
	c.counters.add1(casMisses, one(result == notFound))
	return result, token
}

// extend executes append and prepend. The result is notFound if there is no item, and notStored if
// it would become too large.
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
		return engine.Change{Action: engine.Write, Value: joined, Flags: item.Flags, Deadline: item.Deadline}
	})
	if err != nil {
		result = outcomeOf(err)
	}
	return result, token
}

// remove deletes an item; with a token that is not zero, only if that is the item's.
func (c *conn) remove(key string, token uint64) outcome {
	c.server.change(key)
	result := outcomeOf(c.engine.Delete(key, token))
	c.counters.add1(deleteHits, one(result == stored))
	c.counters.add1(deleteMisses, one(result == notFound))
	return result
}

// counting is incr or decr.
type counting struct {
	delta, token uint64
	subtract     bool
	// creates stores initial with exptime if there is no item.
	creates bool
	initial uint64
	exptime int64
	// touches gives the item the exptime touch, a new one, too.
	touches bool
	touch   int64
	// isCreated becomes true if there was no item, and deadline becomes the item's.
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
			exptime := r.exptime
			if r.touches {
				exptime = r.touch
			}
			r.deadline = c.engine.Deadline(c.ttl(exptime))
			return engine.Change{Action: engine.Write, Value: digits, Deadline: r.deadline}
		}
		old, ok := parseCounter(value)
		switch {
		case len(value) > 0 && r.token != 0 && r.token != item.Token:
			// memcached checks this before it looks at a value, unless that is empty.
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
		flags := item.Flags
		if r.deadline = item.Deadline; r.touches {
			flags, r.deadline = c.touched(item, r.touch)
		}
		return engine.Change{Action: engine.Write, Value: digits, Flags: flags, Deadline: r.deadline}
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

// delayedClear is the next flush_all that has a delay.
type delayedClear struct {
	mu    sync.Mutex
	timer *time.Timer
}

// clearCache removes all items, now or later. It cancels an earlier delay.
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
