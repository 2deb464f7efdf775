package server

import (
	"cmp"
	"encoding/base64"
	"strconv"

	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

// The errors of meta commands.
const (
	badFlag      = "CLIENT_ERROR invalid flag\r\n"
	twoFlags     = "CLIENT_ERROR duplicate flag\r\n"
	anyBadFlag   = "CLIENT_ERROR invalid or duplicate flag\r\n"
	badToken     = "CLIENT_ERROR bad token in command line format\r\n"
	badInitial   = "CLIENT_ERROR invalid numeric initial value\r\n"
	badDeltaFlag = "CLIENT_ERROR invalid numeric delta value\r\n"
	badKeyCode   = "CLIENT_ERROR error decoding key\r\n"
	longOpaque   = "CLIENT_ERROR opaque token too long\r\n"
	manyFlags    = "CLIENT_ERROR options flags are too long\r\n"
	badModeSet   = "CLIENT_ERROR invalid mode for ms M token\r\n"
	badModeCount = "CLIENT_ERROR invalid mode for ma M token\r\n"
)

const (
	opaqueMax = 31
	// metaWordsMax is the number of words of a meta command.
	metaWordsMax = 20
)

// metaLine is a meta command.
type metaLine struct {
	verb byte
	// key is the key on the line, and plain the key of the item.
	key, plain []byte
	flags      []byte

	isBase64, isQuiet, wantsValue, isPeek bool
	hasCompare, hasTTL, hasVivify         bool
	removesValue                          bool
	compare, delta, initial               uint64
	ttl, vivify                           int64
	clientFlags                           uint32
	mode                                  byte
	decoded                               [keyMax]byte
}

// metaLine executes a line that begins with an m and another letter, if that is a meta command.
func (c *conn) metaLine(b []byte, verb byte, rest []byte, head int) (executed int, isMeta bool) {
	switch verb {
	case 'n':
		return c.say(head, "MN\r\n"), true
	case 'g', 's', 'd', 'a', 'e':
	default:
		return 0, false
	}
	m := &metaLine{verb: verb, delta: 1}
	m.key, rest = cutWord(rest)
	if verb == 's' {
		return c.metaSet(b, m, rest, head), true
	}
	if reply := m.parse(rest); reply != "" {
		return c.say(head, reply), true
	}
	switch verb {
	case 'g':
		c.metaGet(m)
	case 'd':
		c.metaDelete(m)
	case 'a':
		c.metaCount(m)
	case 'e':
		c.metaDebug(m)
	}
	return head, true
}

// parse parses the key and the flags. It returns the response to invalid ones: as in memcached, a
// wrong letter of any flag takes precedence over an invalid key, and that over a wrong token.
func (m *metaLine) parse(rest []byte) (reply string) {
	if !isKey(m.key) {
		return badFormat
	}
	wrongLetter, wrongToken := m.parseFlags(rest)
	if reply = wrongLetter; reply == "" {
		reply = cmp.Or(m.decodeKey(), wrongToken)
	}
	isSpecific := reply == "" || reply == manyFlags || reply == longOpaque
	switch {
	case (m.verb == 'd' || m.verb == 'a') && !isSpecific:
		return anyBadFlag
	case m.verb == 'e' && reply == badKeyCode:
		return badFormat
	}
	return reply
}

// decodeKey sets the key of the item.
func (m *metaLine) decodeKey() (reply string) {
	if m.plain = m.key; !m.isBase64 {
		return ""
	}
	if base64.StdEncoding.DecodedLen(len(m.key)) > len(m.decoded) {
		return badKeyCode
	}
	count, err := base64.StdEncoding.Decode(m.decoded[:], m.key)
	if m.plain = m.decoded[:count]; err != nil || count == 0 {
		return badKeyCode
	}
	return ""
}

// parseFlags returns the response to the first flag with a wrong letter, and that to the first one
// with a wrong token, where a long opaque comes last.
func (m *metaLine) parseFlags(rest []byte) (wrongLetter, wrongToken string) {
	m.flags = rest
	var seen [2]uint64
	for words := 2; ; words++ {
		var word []byte
		if word, rest = cutWord(rest); len(word) == 0 {
			return "", wrongToken
		}
		letter := word[0]
		switch {
		case words >= metaWordsMax:
			return manyFlags, wrongToken
		case letter >= '0' && letter <= '9':
			return badFlag, wrongToken
		case letter < 'A' || letter > 'z':
			return badFormat, wrongToken
		case seen[letter>>6]&(1<<(letter&63)) != 0:
			return twoFlags, wrongToken
		case !isFlag(m.verb, letter):
			return badFlag, wrongToken
		}
		seen[letter>>6] |= 1 << (letter & 63)
		reply := m.parseFlag(letter, word[1:])
		if reply != "" && (wrongToken == "" || wrongToken == longOpaque) {
			wrongToken = reply
		}
	}
}

// parseFlag parses a flag.
func (m *metaLine) parseFlag(letter byte, token []byte) (reply string) {
	isGood, reply := true, badToken
	var number int32
	switch letter {
	case 'b':
		m.isBase64 = true
	case 'q':
		m.isQuiet = true
	case 'v':
		m.wantsValue = true
	case 'u':
		m.isPeek = true
	case 'x':
		m.removesValue = true
	case 'O':
		isGood, reply = len(token) <= opaqueMax, longOpaque
	case 'M':
		m.mode = ' '
		if len(token) > 0 {
			m.mode = token[0]
		}
	case 'C':
		m.hasCompare = true
		m.compare, isGood = parseUint(token)
	case 'D':
		reply = badDeltaFlag
		m.delta, isGood = parseUint(token)
	case 'J':
		reply = badInitial
		m.initial, isGood = parseUint(token)
	case 'F':
		var flags uint64
		flags, isGood = parseUint(token)
		reply, m.clientFlags = badFormat, uint32(flags)
	case 'T':
		number, isGood = parseExptime(token)
		m.hasTTL, m.ttl = true, int64(number)
	case 'N':
		number, isGood = parseExptime(token)
		m.hasVivify, m.vivify = true, int64(number)
	}
	if isGood {
		return ""
	}
	return reply
}

// isFlag returns true for the letters of flags. Flags that change what a command does and that this
// server lacks are refused like those that do not exist: the cache has no place for a token by the
// client (E), the mark of a stale item (I), and that of an item that a client fetches anew (N, R).
func isFlag(verb, letter byte) bool {
	switch letter {
	case 'b', 'c', 'f', 'h', 'k', 'l', 'q', 's', 't', 'u', 'v', 'x',
		'C', 'D', 'F', 'J', 'L', 'M', 'O', 'P', 'T':
		return true
	case 'E':
		return verb != 's' && verb != 'd' && verb != 'a'
	case 'I':
		return verb != 's' && verb != 'd'
	case 'N', 'R':
		return verb != 'g'
	}
	return false
}

// show appends the flags that a response repeats, and details of an item if there is one.
func (m *metaLine) show(out []byte, detail func(out []byte, letter byte) []byte) []byte {
	for rest := m.flags; ; {
		var word []byte
		if word, rest = cutWord(rest); len(word) == 0 {
			return append(out, "\r\n"...)
		}
		switch word[0] {
		case 'O':
			out = append(append(out, ' '), word...)
		case 'k':
			out = append(append(out, " k"...), m.key...)
			if m.isBase64 {
				out = append(out, " b"...)
			}
		default:
			if detail != nil {
				out = detail(out, word[0])
			}
		}
	}
}

func (c *conn) metaGet(m *metaLine) {
	c.lookup = lookup{visit: c.lookup.visit, form: metaForm, meta: m}
	switch {
	case m.hasTTL:
		c.lookup.mode, c.lookup.exptime = touching, m.ttl
	case m.isPeek:
		c.lookup.mode = peeking
	}
	if c.find(textOf(m.plain)) || m.isQuiet {
		return
	}
	c.out = m.show(append(c.out, "EN"...), nil)
}

// visitMeta appends the response to mg or me.
func (c *conn) visitMeta(value []byte, item engine.Item) {
	m := c.lookup.meta
	length := item.Bytes
	if m.verb == 'e' || !m.wantsValue {
		value, length = nil, 0
	}
	if more := length + len(m.flags) + 8*keyMax; !c.hasRoom(more) || len(value) < length {
		c.lookup.wanted = length + len(m.flags) + 8*keyMax
		return
	}
	if m.verb == 'e' {
		c.showDebug(m, item)
		return
	}
	hasValue := m.wantsValue && !(m.hasCompare && m.compare == item.Token)
	out := append(c.out, "HD"...)
	if hasValue {
		out = appendUint(append(c.out, "VA"...), uint64(item.Bytes))
	}
	deadline := item.Deadline
	out = m.show(out, func(out []byte, letter byte) []byte {
		switch letter {
		case 'T':
			_, deadline = c.touched(item, m.ttl)
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
	if hasValue {
		out = append(append(out, value...), "\r\n"...)
	}
	c.out = out
}

func appendFlag(out []byte, letter byte, number uint64) []byte {
	return strconv.AppendUint(append(out, ' ', letter), number, 10)
}

func (c *conn) appendTTL(out []byte, deadline int64) []byte {
	if deadline == 0 {
		return append(out, " t-1"...)
	}
	return appendFlag(out, 't', uint64(max(deadline-c.engine.Now()+999, 0)/1000))
}

// sinceAccess returns the seconds since the last access, 0 if the cache does not record accesses.
func (c *conn) sinceAccess(item engine.Item) uint64 {
	if item.Access == 0 {
		return 0
	}
	return uint64(max(c.engine.Now()/1000-item.Access, 0))
}

// metaSet executes ms once its value has arrived.
func (c *conn) metaSet(b []byte, m *metaLine, rest []byte, head int) int {
	word, rest := cutWord(rest)
	length, ok := parseLength(word)
	if !ok {
		return c.say(head, badFormat)
	}
	all := head + length + len("\r\n")
	reply := m.parse(rest)
	verb, isMode := setVerbs[m.mode]
	if reply == "" && !isMode {
		reply = badModeSet
	}
	if reply != "" {
		return c.skipAfter(head, all-head, reply)
	}
	if c.isTooLarge(len(m.plain), length, m.clientFlags) {
		c.rejectLarge(textOf(m.plain), true)
		return c.skipAfter(head, all-head, tooLarge)
	}
	if len(b) < all {
		c.need = all
		return 0
	}
	if b[all-2] != '\r' || b[all-1] != '\n' {
		return c.say(all, badChunk)
	}
	r := storing{
		verb: verb, key: textOf(m.plain), value: b[head : all-2], flags: m.clientFlags, exptime: m.ttl,
		creates: m.hasVivify, token: m.compare,
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
	case m.removesValue:
		result = c.removeValue(m)
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

// removeValue keeps an item and empties it.
func (c *conn) removeValue(m *metaLine) (result outcome) {
	c.server.change(textOf(m.plain))
	deadline := c.engine.Deadline(c.ttl(m.ttl))
	_, err := c.engine.Update(textOf(m.plain), func(item engine.Item, _ []byte, isFound bool) engine.Change {
		switch result = stored; {
		case !isFound:
			result = notFound
		case m.hasCompare && m.compare != item.Token:
			result = exists
		}
		if result != stored {
			return engine.Change{}
		}
		return engine.Change{Action: engine.Write, Deadline: deadline}
	})
	if err != nil {
		result = outcomeOf(err)
	}
	return result
}

func (c *conn) metaCount(m *metaLine) {
	r := counting{
		delta: m.delta, token: m.compare, creates: m.hasVivify, initial: m.initial, exptime: m.vivify,
		touches: m.hasTTL, touch: m.ttl,
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
	out := append(append(c.out, "ME "...), m.key...)
	if out = append(out, " exp="...); item.Deadline == 0 {
		out = append(out, "-1"...)
	} else {
		out = strconv.AppendInt(out, max(item.Deadline-c.engine.Now()+999, 0)/1000, 10)
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

// classOf returns the number of memcached's size class of an item.
func classOf(bytes int) int {
	const first, largest, factor = 96, 512 << 10, 1.25
	class := 1
	for size := first; size < bytes && float64(size) <= largest/factor; class++ {
		size = (int(float64(size)*factor) + 7) &^ 7
	}
	return class
}
