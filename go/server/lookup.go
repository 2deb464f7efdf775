package server

import (
	"bytes"

	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

// form is the format of the response to a hit.
type form uint8

const (
	noForm form = iota
	textForm
	textTokenForm
	metaForm
	binaryForm
)

// mode is the change that a lookup makes to the item: looking counts as a read, peeking changes
// nothing, and touching sets the exptime.
type mode uint8

const (
	looking mode = iota
	peeking
	touching
)

// lookup is a search for a key, and its result.
type lookup struct {
	// visit is the method value conn.visitHit. It is created once for each connection, because
	// creating it allocates.
	visit   func(value []byte, item engine.Item)
	key     string
	form    form
	mode    mode
	exptime int64
	meta    *metaLine
	binary  *wire.BinaryRequest
	// isLocked makes the lookup find the item with a lock of the cache held. It becomes true when the
	// lookup finds an item whose recache token this client could win. The lookup is then repeated with
	// the lock, so that only one of many clients wins the token.
	isLocked bool
	// isCreated becomes true if the item did not exist and the meta command has created it. wins
	// becomes true if the client wins the recache token.
	isCreated, wins bool
	// wanted is the length of the response if the output buffer had no room for it, otherwise 0. Some
	// values the cache can only show as a copy. If such a value has more than copyMax bytes, the cache
	// does not make the copy: it reports the length, find makes room, and looks up the key again.
	wanted, copyMax int
	item            engine.Item
}

// find appends the response for a key to the output and returns true if the item exists. If the
// output buffer has no room, it sends the responses so far and repeats the lookup.
func (c *conn) find(key string) (found bool) {
	l := &c.lookup
	l.key, l.copyMax = key, outMax
	for copied := 0; ; {
		l.wanted = 0
		if l.mode == looking && !l.isLocked {
			found = c.engine.ViewUpTo(key, l.copyMax, l.visit)
		}
		if l.mode != looking || l.isLocked {
			found = c.findLocked(key)
		}
		c.giveBack(copied)
		if l.wanted == 0 {
			break
		}
		if !c.makeRoom(l.wanted) {
			return found
		}
		// The cache may have to copy a long value. Count this copy against the memory limit until the
		// next lookup has ended.
		if copied = charged(l.wanted); copied > 0 && !c.server.hold(c, copied) {
			c.isBroken = true
			return found
		}
		l.copyMax = max(l.wanted, outMax)
	}
	if l.form != noForm && l.form != metaForm {
		c.server.prefixes.noteGet(key, found)
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

// findLocked is the part of find that needs a lock of the cache: it touches the item, reads it
// without counting a read, or grants the recache token to one client. If the item does not exist, a
// meta command may create it.
func (c *conn) findLocked(key string) (found bool) {
	l, length := &c.lookup, len(c.out)
	creates := l.form == metaForm && l.meta.HasVivify
	if l.mode == touching || creates {
		c.server.change(key)
	}
	token, err := c.engine.Update(key, func(item engine.Item, value []byte, isFound bool) engine.Change {
		c.out, l.isCreated, l.wins = c.out[:length], !isFound && creates, false
		switch found = isFound; {
		case l.isCreated:
			return c.vivified(l.meta)
		case !isFound:
			return engine.Change{}
		}
		if l.visit(value, item); l.wanted > 0 {
			return engine.Change{}
		}
		return c.afterLookup(item, value)
	})
	if l.isCreated {
		c.showVivified(token, err)
	}
	return found
}

// afterLookup returns the change that a lookup makes to the item that it has found.
func (c *conn) afterLookup(item engine.Item, value []byte) (change engine.Change) {
	switch l := &c.lookup; l.mode {
	case looking:
		change.Action = engine.Read
	case touching:
		change = c.touched(item, l.exptime)
		if change.Flags == item.Flags && change.Marks == item.Marks() {
			change.Action = engine.TouchItem
			break
		}
		change.Value = bytes.Clone(value)
	}
	if c.lookup.wins {
		change.Marks |= engine.Claimed
	}
	return change
}

// visitHit appends an item to the output. The cache calls it with the value in place, so it must
// neither send nor wait. If the output has no room, it stores the number of bytes in wanted.
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
