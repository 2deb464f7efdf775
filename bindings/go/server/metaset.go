package server

import (
	"bytes"
	"strconv"

	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

// metaSet executes ms once its value has arrived.
func (c *conn) metaSet(b []byte, m *metaLine, rest []byte, head int) int {
	word, rest := cutWord(rest)
	length, ok := parseLength(word)
	if !ok {
		return c.say(head, badFormat)
	}
	reply := m.parse(rest)
	verb, isMode := setVerbs[m.mode]
	if reply == "" && !isMode {
		reply = badModeSet
	}
	if reply != "" {
		return c.skipValue(head, length, reply)
	}
	if c.isReserved(m.clientFlags) {
		return c.skipValue(head, length, reservedFlags)
	}
	if c.isTooLarge(len(m.plain), length, m.clientFlags) {
		c.rejectLarge(textOf(m.plain), true)
		return c.skipValue(head, length, tooLarge)
	}
	all := head + length + len("\r\n")
	if len(b) < all {
		c.need = all
		return 0
	}
	if b[all-2] != '\r' || b[all-1] != '\n' {
		return c.say(all, badChunk)
	}
	r := storing{
		verb: verb, key: textOf(m.plain), value: b[head : all-2], flags: m.clientFlags, exptime: m.ttl,
		creates: m.hasVivify, token: m.compare, invalidates: m.invalidates, newToken: m.newToken,
	}
	if r.isExtension() {
		r.exptime = m.vivify
	} else if m.hasCompare && verb != wire.TextAdd {
		r.verb = wire.TextCAS
	}
	result, token := c.store(&r)
	status := ""
	switch result {
	case stored:
		if status = "HD"; m.isQuiet {
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
	0: wire.TextSet, 'S': wire.TextSet, 's': wire.TextSet, 'E': wire.TextAdd, 'e': wire.TextAdd,
	'A': wire.TextAppend, 'a': wire.TextAppend, 'P': wire.TextPrepend, 'p': wire.TextPrepend,
	'R': wire.TextReplace, 'r': wire.TextReplace,
}

func (c *conn) metaDelete(m *metaLine) {
	result := notFound
	switch {
	case m.removesValue || m.invalidates:
		result = c.keepItem(m)
	case m.hasCompare && m.compare == 0:
		// No item has this token, which for remove means any.
		if _, isFound := c.engine.Look(textOf(m.plain)); isFound {
			result = exists
		}
	default:
		result = c.remove(textOf(m.plain), m.compare)
	}
	status := "NF"
	switch result {
	case stored:
		if status = "HD"; m.isQuiet {
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

// keepItem marks an item stale or empties it, instead of removing it.
func (c *conn) keepItem(m *metaLine) (result outcome) {
	c.server.change(textOf(m.plain))
	_, err := c.engine.Update(textOf(m.plain), func(item engine.Item, value []byte, isFound bool) engine.Change {
		switch result = stored; {
		case !isFound:
			result = notFound
		case m.hasCompare && m.compare != item.Token:
			result = exists
		}
		if result != stored {
			return engine.Change{}
		}
		change := engine.Change{Action: engine.Write, Flags: item.Flags, Deadline: item.Deadline}
		if m.hasTTL {
			change = c.touched(item, m.ttl)
		}
		if change.Marks = 0; m.invalidates {
			change.Marks = engine.Stale
		}
		if !m.removesValue {
			// The cache may move the old value when it makes room.
			change.Value = bytes.Clone(value)
			return m.newToken.apply(change)
		}
		change.Flags, change.Deadline = 0, c.engine.Deadline(c.ttl(m.ttl))
		return m.newToken.apply(change)
	})
	if err != nil {
		result = outcomeOf(err)
	}
	return result
}

func (c *conn) metaCount(m *metaLine) {
	r := counting{
		delta: m.delta, token: m.compare, creates: m.hasVivify, initial: m.initial, exptime: m.exptimeOfNew(),
		touches: m.hasTTL, touch: m.ttl, newToken: m.newToken,
	}
	switch m.mode {
	case 0, 'I', 'i', '+':
	case 'D', 'd', '-':
		r.subtract = true
	default:
		c.out = append(c.out, badModeCount...)
		return
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
	if m.isQuiet && !r.isCreated {
		return
	}
	var digits [20]byte
	value := strconv.AppendUint(digits[:0], number, 10)
	out := append(c.out, "HD"...)
	if m.wantsValue {
		out = appendUint(append(c.out, "VA"...), uint64(len(value)))
	}
	out = m.show(out, func(out []byte, letter byte) []byte {
		switch letter {
		case 'c':
			return appendFlag(out, 'c', token)
		case 'T':
			r.deadline = c.engine.Deadline(c.ttl(m.ttl))
		case 'N':
			if r.isCreated {
				r.deadline = c.engine.Deadline(c.ttl(m.vivify))
			}
		case 't':
			return c.appendTTL(out, r.deadline)
		}
		return out
	})
	if m.wantsValue {
		out = append(append(out, value...), "\r\n"...)
	}
	c.out = out
}
