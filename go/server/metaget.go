package server

import (
	"strconv"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
)

func (c *conn) metaGet(m *metaLine) {
	c.lookup = lookup{visit: c.lookup.visit, form: metaForm, meta: m}
	c.lookup.isLocked = m.HasVivify || m.HasRecache
	switch {
	case m.HasTTL:
		c.lookup.mode, c.lookup.exptime = touching, m.TTL
	case m.IsPeek:
		c.lookup.mode = peeking
	}
	if c.find(textOf(m.plain)) || c.lookup.isCreated || m.IsQuiet || c.isBroken {
		return
	}
	c.out = m.show(append(c.out, "EN"...), nil)
}

// vivified returns the change that creates the empty item of an mg with N. Its mark Claimed means
// that a client, the one that sent the mg, should store the value.
func (c *conn) vivified(m *metaLine) engine.Change {
	deadline := c.engine.Deadline(c.ttl(m.ExptimeOfNew()))
	return m.newToken().apply(engine.Change{Action: engine.Write, Deadline: deadline, Marks: engine.Claimed})
}

// showVivified responds to an mg that has created an item with N.
func (c *conn) showVivified(token uint64, err error) {
	m, result := c.lookup.meta, outcomeOf(err)
	if result != stored {
		c.out = append(c.out, storeReplies[result]...)
		return
	}
	// Without the mark Claimed, visitMeta shows W, because this client has claimed the item. With the
	// mark it would show Z.
	item := engine.Item{Token: token, Deadline: c.vivified(m).Deadline}
	for c.visitMeta(nil, item); c.lookup.wanted > 0 && c.makeRoom(c.lookup.wanted); {
		c.lookup.wanted = 0
		c.visitMeta(nil, item)
	}
}

// visitMeta appends the response to mg or me.
func (c *conn) visitMeta(value []byte, item engine.Item) {
	l, m := &c.lookup, c.lookup.meta
	length := item.Bytes
	if m.Verb == 'e' || !m.WantsValue {
		value, length = nil, 0
	}
	if more := length + len(m.Flags) + 8*grammar.KeyMax; !c.hasRoom(more) || len(value) < length {
		l.wanted = more
		return
	}
	if m.Verb == 'e' {
		c.showDebug(m, item)
		return
	}
	isStale, isClaimed := c.isStale(item), isClaimed(item)
	if c.isSoft(item) && m.HasTTL {
		// The T of this command makes an item of soft expiry fresh.
		isStale, isClaimed = false, false
	}
	if l.wins = l.isCreated || isStale && !isClaimed && !m.LeavesToken; l.wins && l.mode == looking && !l.isLocked {
		// Another client may win the recache token at the same time, so look up the item again with the
		// lock held.
		l.isLocked = true
		return
	}
	hasValue := m.WantsValue && !(m.HasCompare && m.Compare == item.Token)
	out := append(c.out, "HD"...)
	if hasValue {
		out = appendUint(append(c.out, "VA"...), uint64(item.Bytes))
	}
	out = c.showItem(out, item, isClaimed)
	for _, mark := range []struct {
		letter  string
		isShown bool
	}{{" Z", isClaimed}, {" X", isStale}, {" W", l.wins}} {
		if mark.isShown {
			out = append(out, mark.letter...)
		}
	}
	out = append(out, "\r\n"...)
	if hasValue {
		out = append(append(out, value...), "\r\n"...)
	}
	c.out = out
}

// showItem appends the details that the flags of mg request.
func (c *conn) showItem(out []byte, item engine.Item, isClaimed bool) []byte {
	l, m := &c.lookup, c.lookup.meta
	deadline := c.deadline(item)
	if l.isCreated {
		// A flag that follows sets the deadline.
		deadline = 0
	}
	return m.showFlags(out, func(out []byte, letter byte) []byte {
		switch letter {
		case 'T':
			deadline = c.engine.Deadline(c.ttl(m.TTL))
		case 'N':
			if l.isCreated {
				deadline = c.engine.Deadline(c.ttl(m.Vivify))
			}
		case 'R':
			left := c.seconds(deadline)
			l.wins = l.wins || !isClaimed && !m.LeavesToken && deadline != 0 && left < (c.ttl(m.Recache)+999)/1000
		case 't':
			return c.appendTTL(out, deadline)
		case 'c':
			return appendFlag(out, 'c', item.Token)
		case 'f':
			if c.isSoft(item) {
				item.Flags = 0
			}
			return appendFlag(out, 'f', uint64(item.Flags))
		case 'h':
			return appendFlag(out, 'h', uint64(one(item.IsFetched())))
		case 'l':
			return appendFlag(out, 'l', c.sinceAccess(item))
		case 's':
			return appendFlag(out, 's', uint64(item.Bytes))
		}
		return out
	})
}

func appendFlag(out []byte, letter byte, number uint64) []byte {
	return strconv.AppendUint(append(out, ' ', letter), number, 10)
}

func (c *conn) appendTTL(out []byte, deadline int64) []byte {
	if deadline == 0 {
		return append(out, " t-1"...)
	}
	return appendFlag(out, 't', uint64(c.seconds(deadline)))
}

// seconds returns the seconds until a deadline, rounded up.
func (c *conn) seconds(deadline int64) int64 { return max(deadline-c.engine.Now()+999, 0) / 1000 }

// sinceAccess returns the seconds since the last access, 0 if the cache does not record accesses.
func (c *conn) sinceAccess(item engine.Item) uint64 {
	since, _ := c.engine.SinceAccess(item)
	return uint64(since)
}

func (c *conn) metaDebug(m *metaLine) {
	c.counters.add1(cmdMeta, 1)
	c.lookup = lookup{visit: c.lookup.visit, form: metaForm, mode: peeking, meta: m, key: textOf(m.plain)}
	if !c.findLocked(c.lookup.key) {
		c.out = append(c.out, "EN\r\n"...)
	} else if c.lookup.wanted > 0 && c.makeRoom(c.lookup.wanted) {
		c.findLocked(c.lookup.key)
	}
}

// showDebug appends the response to me.
func (c *conn) showDebug(m *metaLine, item engine.Item) {
	size := itemBytes(len(m.plain), item.Bytes, item.Flags)
	out := append(append(c.out, "ME "...), m.Key...)
	if out = append(out, " exp="...); item.Deadline == 0 {
		out = append(out, "-1"...)
	} else {
		out = strconv.AppendInt(out, c.seconds(c.deadline(item)), 10)
	}
	out = strconv.AppendUint(append(out, " la="...), c.sinceAccess(item), 10)
	out = strconv.AppendUint(append(out, " cas="...), item.Token, 10)
	if out = append(out, " fetch="...); item.IsFetched() {
		out = append(out, "yes"...)
	} else {
		out = append(out, "no"...)
	}
	out = strconv.AppendInt(append(out, " cls="...), int64(classOf(size)), 10)
	c.out = append(strconv.AppendInt(append(out, " size="...), int64(size), 10), "\r\n"...)
}

// classOf returns the number of the size class in which memcached would store an item.
func classOf(bytes int) int {
	const first, largest, factor = 96, 512 << 10, 1.25
	class := 1
	for size := first; size < bytes && float64(size) <= largest/factor; class++ {
		size = (int(float64(size)*factor) + 7) &^ 7
	}
	return class
}
