package server

import (
	"cmp"
	"encoding/base64"
	"math"
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
	hasRecache, removesValue, invalidates bool
	// isTTLLast is true if T follows N.
	isTTLLast               bool
	compare, delta, initial uint64
	ttl, vivify, recache    int64
	newToken                chosenToken
	clientFlags             uint32
	mode                    byte
	decoded                 [keyMax]byte
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
		case !isFlag(letter):
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
	case 'I':
		m.invalidates = true
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
	case 'E':
		m.newToken.exists = true
		m.newToken.token, isGood = parseUint(token)
	case 'D':
		reply = badDeltaFlag
		m.delta, isGood = parseUint(token)
	case 'J':
		reply = badInitial
		m.initial, isGood = parseUint(token)
	case 'F':
		var flags uint64
		flags, isGood = parseUint(token)
		isGood = isGood && flags <= math.MaxUint32
		reply, m.clientFlags = badFormat, uint32(flags)
	case 'T':
		number, isGood = parseExptime(token)
		m.hasTTL, m.ttl, m.isTTLLast = true, int64(number), m.hasVivify
	case 'N':
		number, isGood = parseExptime(token)
		m.hasVivify, m.vivify = true, int64(number)
	case 'R':
		number, isGood = parseExptime(token)
		m.hasRecache, m.recache = true, int64(number)
	}
	if isGood {
		return ""
	}
	return reply
}

// isFlag returns true for the letters of flags. Each command ignores those of the others.
func isFlag(letter byte) bool {
	switch letter {
	case 'b', 'c', 'f', 'h', 'k', 'l', 'q', 's', 't', 'u', 'v', 'x',
		'C', 'D', 'E', 'F', 'I', 'J', 'L', 'M', 'N', 'O', 'P', 'R', 'T':
		return true
	}
	return false
}

// exptimeOfNew returns the exptime of an item that N creates. Of N and T, the last one counts.
func (m *metaLine) exptimeOfNew() int64 {
	if m.isTTLLast {
		return m.ttl
	}
	return m.vivify
}

// show appends the flags that a response repeats, details of an item if there is one, and the end
// of the line.
func (m *metaLine) show(out []byte, detail func(out []byte, letter byte) []byte) []byte {
	return append(m.showFlags(out, detail), "\r\n"...)
}

// showFlags is show without the end of the line.
func (m *metaLine) showFlags(out []byte, detail func(out []byte, letter byte) []byte) []byte {
	for rest := m.flags; ; {
		var word []byte
		if word, rest = cutWord(rest); len(word) == 0 {
			return out
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
