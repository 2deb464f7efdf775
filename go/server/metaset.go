package server

import (
	"bytes"
	"strconv"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// metaSet executes ms once its value has arrived.
func (c *conn) metaSet(b []byte, m *metaLine, rest []byte, head int) int {
	word, rest := grammar.CutWord(rest)
	length, ok := grammar.ParseLength(word)
	if !ok {
		return c.say(head, grammar.BadFormat)
	}
	if reply := m.parse(rest); reply != "" {
		return c.skipValue(head, length, reply)
	}
	verb := setVerbs[m.Mode]
	if c.isReserved(m.ClientFlags) {
		return c.skipValue(head, length, reservedFlags)
	}
	if c.isTooLarge(len(m.plain), length, m.ClientFlags) {
		c.rejectLarge(textOf(m.plain), true)
		return c.skipValue(head, length, grammar.TooLarge)
	}
	all := head + length + len("\r\n")
	if len(b) < all {
		c.need = all
		return 0
	}
	if b[all-2] != '\r' || b[all-1] != '\n' {
		return c.say(all, grammar.BadChunk)
	}
	r := storing{
		verb: verb, key: textOf(m.plain), value: b[head : all-2], flags: m.ClientFlags, exptime: m.TTL,
		creates: m.HasVivify, token: m.Compare, invalidates: m.Invalidates, newToken: m.newToken(),
	}
	if r.isExtension() {
		r.exptime = m.Vivify
	} else if m.HasCompare && verb != wire.TextAdd {
		r.verb = wire.TextCAS
	}
	result, token := c.store(&r)
	status := ""
	switch result {
	case stored:
		if status = "HD"; m.IsQuiet {
			return all
		}
	case notStored:
		status = "NS"
	case exists:
		status = "EX"
	case notFound:
		status = "NF"
	default:
		return c.say(all, storeReplies[result])
	}
	c.out = m.show(append(c.out, status...), func(out []byte, letter byte) []byte {
		switch letter {
		case 'c':
			return appendFlag(out, 'c', token)
		case 's':
			return appendFlag(out, 's', uint64(r.bytes))
		}
		return out
	})
	return all
}

var setVerbs = map[byte]wire.TextVerb{
	'S': wire.TextSet, 'E': wire.TextAdd, 'A': wire.TextAppend, 'P': wire.TextPrepend, 'R': wire.TextReplace,
}

func (c *conn) metaDelete(m *metaLine) {
	result := notFound
	switch {
	case m.RemovesValue || m.Invalidates:
		result = c.keepItem(m)
	case m.HasCompare && m.Compare == 0:
		// No item has the token 0. But remove would delete the item, because for it the token 0 means any
		// token.
		if _, isFound := c.engine.Look(textOf(m.plain)); isFound {
			result = exists
		}
	default:
		result = c.remove(textOf(m.plain), m.Compare)
	}
	status := "NF"
	switch result {
	case stored:
		if status = "HD"; m.IsQuiet {
			return
		}
	case exists:
		status = "EX"
	case failed, noMemory:
		c.out = append(c.out, storeReplies[result]...)
		return
	}
	c.out = m.show(append(c.out, status...), nil)
}

// keepItem executes an md that keeps the item: with I it marks the item as stale, and with x it
// removes the value.
func (c *conn) keepItem(m *metaLine) (result outcome) {
	c.server.change(textOf(m.plain))
	_, err := c.engine.Update(textOf(m.plain), func(item engine.Item, value []byte, isFound bool) engine.Change {
		switch result = stored; {
		case !isFound:
			result = notFound
		case m.HasCompare && m.Compare != item.Token:
			result = exists
		}
		if result != stored {
			return engine.Change{}
		}
		change := engine.Change{Action: engine.Write, Flags: item.Flags, Deadline: item.Deadline}
		if m.HasTTL {
			change = c.touched(item, m.TTL)
		}
		if change.Marks = 0; m.Invalidates {
			change.Marks = engine.Stale
		}
		if !m.RemovesValue {
			// The cache may move the old value when it makes room.
			change.Value = bytes.Clone(value)
			return m.newToken().apply(change)
		}
		change.Flags, change.Deadline = 0, c.engine.Deadline(c.ttl(m.TTL))
		return m.newToken().apply(change)
	})
	if err != nil {
		result = outcomeOf(err)
	}
	return result
}

func (c *conn) metaCount(m *metaLine) {
	r := counting{
		subtract: m.Mode == 'D', delta: m.Delta, token: m.Compare, creates: m.HasVivify, initial: m.Initial, exptime: m.ExptimeOfNew(),
		touches: m.HasTTL, touch: m.TTL, newToken: m.newToken(),
	}
	number, token, result := c.countInto(textOf(m.plain), &r)
	switch result {
	case stored:
	case notFound:
		c.out = m.show(append(c.out, "NF"...), nil)
		return
	case exists:
		c.out = m.show(append(c.out, "EX"...), nil)
		return
	default:
		c.out = append(c.out, storeReplies[result]...)
		return
	}
	if m.IsQuiet && !r.isCreated {
		return
	}
	var digits [20]byte
	value := strconv.AppendUint(digits[:0], number, 10)
	out := append(c.out, "HD"...)
	if m.WantsValue {
		out = appendUint(append(c.out, "VA"...), uint64(len(value)))
	}
	out = m.show(out, func(out []byte, letter byte) []byte {
		switch letter {
		case 'c':
			return appendFlag(out, 'c', token)
		case 'T':
			r.deadline = c.engine.Deadline(c.ttl(m.TTL))
		case 'N':
			if r.isCreated {
				r.deadline = c.engine.Deadline(c.ttl(m.Vivify))
			}
		case 't':
			return c.appendTTL(out, r.deadline)
		}
		return out
	})
	if m.WantsValue {
		out = append(append(out, value...), "\r\n"...)
	}
	c.out = out
}
