package server

import (
	"bytes"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// manyKeys is the number of keys that one call reads from the cache.
const manyKeys = 64

// keyList is the state of a command with a list of keys, such as get or gat.
type keyList struct {
	// keys are the keys of one call, and ends[i] is true for the last key of a line.
	keys []string
	ends []bool
	// next is the index of the first key that has no response yet.
	next int
	// verb is the command of a line that is longer than grammar.LineMax, or 0. The connection
	// responds to the keys of such a line as they arrive.
	verb wire.TextVerb
	// exptime is the exptime of gat, once it has arrived.
	exptime    int64
	hasExptime bool
	hasKey     bool
	// If isRefused is true, the connection ignores the rest of the line and then sends reply.
	isRefused bool
	reply     string
}

// getKeys executes a get or gets command. If further get commands have already arrived on the next
// lines, it executes them together, with one call of the cache for several lines.
func (c *conn) getKeys(b, rest []byte, head int, verb wire.TextVerb) int {
	l := &c.list
	l.keys, l.ends = l.keys[:0], l.ends[:0]
	executed := 0
	for {
		count := len(l.keys)
		if reply := l.take(rest); reply != "" {
			if executed == 0 {
				return c.say(head, reply)
			}
			// This line is invalid. The next step responds to it, after the responses to the previous lines.
			l.keys, l.ends = l.keys[:count], l.ends[:count]
			break
		}
		executed += head
		if len(l.keys) >= manyKeys || verb != wire.TextGet {
			break
		}
		if rest, head = nextGet(b[executed:]); head == 0 {
			break
		}
	}
	form := textForm
	if verb == wire.TextGets {
		form = textTokenForm
	}
	c.lookup = lookup{visit: c.lookup.visit, form: form}
	c.readList()
	return executed
}

// take adds the keys of a line. If a key is invalid, it returns the response to the line.
func (l *keyList) take(rest []byte) string {
	count := len(l.keys)
	for {
		key, others, isValid := grammar.CutKey(rest)
		if !isValid {
			return grammar.BadFormat
		}
		if len(key) == 0 {
			break
		}
		rest = others
		l.keys = append(l.keys, textOf(key))
		l.ends = append(l.ends, false)
	}
	if len(l.keys) == count {
		return grammar.BadFormat
	}
	l.ends[len(l.ends)-1] = true
	return ""
}

// nextGet returns the keys of the line at the start of b, and the length of the line. The length is
// 0 if the line is not a complete get command.
func nextGet(b []byte) (rest []byte, head int) {
	if len(b) < 6 || string(b[:4]) != "get " {
		return nil, 0
	}
	line, head := grammar.CutLine(b, grammar.LineMax)
	if head == 0 {
		return nil, 0
	}
	return line[4:], head
}

// readList reads the keys of the list and appends the responses.
func (c *conn) readList() {
	l, hits := &c.list, 0
	for l.next = 0; l.next < len(l.keys) && !c.isBroken; {
		from := l.next
		keys := l.keys[from:min(len(l.keys), from+manyKeys)]
		if isCounted := c.server.prefixes.isOn.Load(); isCounted || len(keys) == 1 {
			c.find(keys[0])
			c.endsUntil(from + 1)
			continue
		}
		c.lookup.wanted, hits = 0, 0
		c.engine.GetWhile(keys, outMax, func(at int, value []byte, item engine.Item) bool {
			c.endsUntil(from + at)
			c.lookup.key = keys[at]
			if c.visitHit(value, item); c.lookup.wanted > 0 {
				return false
			}
			hits++
			c.endsUntil(from + at + 1)
			return true
		})
		if c.lookup.wanted == 0 {
			c.endsUntil(from + len(keys))
		}
		c.counters.add1(getHits, hits)
		c.counters.add1(getMisses, l.next-from-hits)
		if c.lookup.wanted > 0 {
			c.find(keys[l.next-from])
			c.endsUntil(l.next + 1)
		}
	}
	if cap(l.keys) > 16*manyKeys {
		l.keys, l.ends = nil, nil
	}
}

// endsUntil appends the END of each line whose last key is before position to, and advances next to
// that position.
func (c *conn) endsUntil(to int) {
	l := &c.list
	for ; l.next < to; l.next++ {
		if l.ends[l.next] {
			c.out = append(c.out, end...)
		}
	}
}

// touchKeys executes gat and gats.
func (c *conn) touchKeys(rest []byte, head int, verb wire.TextVerb) int {
	exptime, rest, reply := grammar.CutExptime(rest)
	if reply != "" {
		return c.say(head, reply)
	}
	l := &c.list
	l.keys, l.ends = l.keys[:0], l.ends[:0]
	if reply = l.take(rest); reply != "" {
		return c.say(head, reply)
	}
	c.lookup = lookup{visit: c.lookup.visit, form: formOf(verb), mode: touching, exptime: int64(exptime)}
	for _, key := range l.keys {
		c.find(key)
	}
	return c.say(head, end)
}

func formOf(verb wire.TextVerb) form {
	if verb == wire.TextGets || verb == wire.TextGats {
		return textTokenForm
	}
	return textForm
}

var listVerbs = map[string]wire.TextVerb{
	"get": wire.TextGet, "gets": wire.TextGets, "gat": wire.TextGat, "gats": wire.TextGats,
}

// longLine begins to execute a line that is longer than grammar.LineMax.
func (c *conn) longLine(b []byte) int {
	l := &c.list
	if grammar.IsList(b) {
		word, _ := grammar.CutWord(b)
		*l = keyList{keys: l.keys, ends: l.ends, verb: listVerbs[string(word)]}
		c.step = (*conn).stepList
		return len(word) + 1
	}
	// memcached reads such a line to its end before it refuses it.
	trimmed := bytes.TrimLeft(b[:min(len(b), 101)], " ")
	if bytes.HasPrefix(trimmed, []byte("get ")) || bytes.HasPrefix(trimmed, []byte("gets ")) {
		*l = keyList{keys: l.keys, ends: l.ends, verb: wire.TextGet, isRefused: true, reply: grammar.Unknown}
		c.step = (*conn).stepList
		return c.stepList(b)
	}
	c.isClosing = true
	return len(b)
}

// stepList responds to the keys of a long line that have arrived.
func (c *conn) stepList(b []byte) int {
	l, executed := &c.list, 0
	for executed < len(b) && !c.isBroken {
		rest := b[executed:]
		if l.isRefused {
			at := bytes.IndexByte(rest, '\n')
			if at < 0 {
				return len(b)
			}
			return c.endList(executed+at+1, l.reply)
		}
		if rest[0] == ' ' {
			executed++
			continue
		}
		at := bytes.IndexAny(rest[:min(len(rest), grammar.KeyMax+3)], " \n")
		if at < 0 && len(rest) < grammar.KeyMax+3 {
			return executed
		}
		word, isLast := rest[:max(at, 0)], at >= 0 && rest[at] == '\n'
		if isLast && at > 0 && word[at-1] == '\r' {
			word = word[:at-1]
		}
		switch {
		case at < 0 || len(word) > grammar.KeyMax:
			l.isRefused, l.reply = true, grammar.BadFormat
		case len(word) > 0:
			c.listWord(word)
		}
		if at > 0 {
			executed += at
		}
		if isLast && l.isRefused {
			return c.endList(executed+1, l.reply)
		}
		if isLast {
			reply := end
			if !l.hasKey {
				reply = grammar.BadFormat
			}
			return c.endList(executed+1, reply)
		}
	}
	return executed
}

// listWord executes a word of a long line.
func (c *conn) listWord(word []byte) {
	l := &c.list
	isTouch := l.verb == wire.TextGat || l.verb == wire.TextGats
	if isTouch && !l.hasExptime {
		exptime, ok := grammar.ParseExptime(word)
		l.exptime, l.hasExptime = int64(exptime), true
		if !ok {
			l.isRefused, l.reply = true, grammar.BadExptime
		}
		return
	}
	l.hasKey = true
	c.lookup = lookup{visit: c.lookup.visit, form: formOf(l.verb), exptime: l.exptime}
	if isTouch {
		c.lookup.mode = touching
	}
	c.find(textOf(word))
}

func (c *conn) endList(executed int, reply string) int {
	c.list = keyList{keys: c.list.keys[:0], ends: c.list.ends[:0]}
	c.step = (*conn).stepText
	return c.say(executed, reply)
}
