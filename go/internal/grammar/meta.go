package grammar

import (
	"cmp"
	"encoding/base64"
	"math"
)

// Meta is a meta command with its flags.
type Meta struct {
	// Verb is the second letter of the command.
	Verb byte
	// Key is the key on the line, and Flags is the rest after it, or after the length of ms.
	Key   []byte
	Flags []byte

	IsBase64, IsQuiet, WantsValue, IsPeek bool
	// LeavesToken is true if the client leaves the recache token to others.
	LeavesToken                           bool
	HasCompare, HasTTL, HasVivify         bool
	HasRecache, RemovesValue, Invalidates bool
	HasNewToken                           bool
	// IsTTLLast is true if T follows N.
	IsTTLLast                         bool
	Compare, Delta, Initial, NewToken uint64
	TTL, Vivify, Recache              int64
	ClientFlags                       uint32
	// Mode is 'S', 'E', 'A', 'P' or 'R' for ms, and 'I' or 'D' for ma.
	Mode byte
}

// CutMeta returns the letter of a meta command. Text commands that begin with an m are longer.
func CutMeta(command []byte) (verb byte, isMeta bool) {
	if len(command) != 2 || command[0] != 'm' {
		return 0, false
	}
	switch command[1] {
	case 'n', 'g', 's', 'd', 'a', 'e':
		return command[1], true
	}
	return 0, false
}

// Parse parses the flags, and returns the key of the item. If the key is in base64, Parse decodes
// it into buffer, which has space for KeyMax bytes; if buffer is nil, it only checks that the key
// is valid base64. Otherwise it returns Key. A wrong letter of any flag takes precedence over an
// invalid key, and an invalid key over a wrong token, as in memcached.
func (m *Meta) Parse(rest, buffer []byte) (key []byte, reply string) {
	m.Flags, m.Delta = rest, 1
	if !IsKey(m.Key) {
		return nil, BadFormat
	}
	wrongLetter, wrongToken := m.parseFlags(rest)
	if reply = wrongLetter; reply == "" {
		key, reply = m.decodeKey(buffer)
		reply = cmp.Or(reply, wrongToken)
	}
	isSpecific := reply == manyFlags || reply == LongOpaque
	switch {
	case reply == "":
		return key, m.parseMode()
	case (m.Verb == 'd' || m.Verb == 'a') && !isSpecific:
		return nil, anyBadFlag
	case m.Verb == 'e' && reply == BadKeyCode:
		return nil, BadFormat
	}
	return nil, reply
}

func (m *Meta) decodeKey(buffer []byte) (key []byte, reply string) {
	if !m.IsBase64 {
		return m.Key, ""
	}
	if base64.StdEncoding.DecodedLen(len(m.Key)) > KeyMax {
		return nil, BadKeyCode
	}
	if buffer == nil {
		return nil, checkCode(m.Key)
	}
	count, err := base64.StdEncoding.Decode(buffer, m.Key)
	if err != nil || count == 0 {
		return nil, BadKeyCode
	}
	return buffer[:count], ""
}

// checkCode returns BadKeyCode for a key that is not valid base64.
func checkCode(key []byte) (reply string) {
	var decoded [KeyMax]byte
	if count, err := base64.StdEncoding.Decode(decoded[:], key); err != nil || count == 0 {
		return BadKeyCode
	}
	return ""
}

// parseMode replaces the letter after M with the canonical letter of its mode.
func (m *Meta) parseMode() (reply string) {
	switch m.Verb {
	case 's':
		switch m.Mode {
		case 0, 's':
			m.Mode = 'S'
		case 'e', 'a', 'p', 'r':
			m.Mode -= 'a' - 'A'
		case 'S', 'E', 'A', 'P', 'R':
		default:
			return badModeSet
		}
	case 'a':
		switch m.Mode {
		case 0, 'I', 'i', '+':
			m.Mode = 'I'
		case 'D', 'd', '-':
			m.Mode = 'D'
		default:
			return badModeCount
		}
	}
	return ""
}

// parseFlags returns the response to the first flag with a wrong letter, and the response to the
// first flag with a wrong token. A long opaque has the lowest precedence.
func (m *Meta) parseFlags(rest []byte) (wrongLetter, wrongToken string) {
	var seen [2]uint64
	for words := 2; ; words++ {
		var word []byte
		if word, rest = CutWord(rest); len(word) == 0 {
			return "", wrongToken
		}
		letter := word[0]
		switch {
		case words >= metaWordsMax:
			return manyFlags, wrongToken
		case letter >= '0' && letter <= '9':
			return BadFlag, wrongToken
		case letter < 'A' || letter > 'z':
			return BadFormat, wrongToken
		case seen[letter>>6]&(1<<(letter&63)) != 0:
			return TwoFlags, wrongToken
		case !isFlag(letter) && !(letter == '_' && m.Verb == 'g'):
			return BadFlag, wrongToken
		}
		seen[letter>>6] |= 1 << (letter & 63)
		reply := m.parseFlag(letter, word[1:])
		if reply != "" && (wrongToken == "" || wrongToken == LongOpaque) {
			wrongToken = reply
		}
	}
}

func (m *Meta) parseFlag(letter byte, token []byte) (reply string) {
	isGood, reply := true, badToken
	var number int32
	switch letter {
	case 'b':
		m.IsBase64 = true
	case 'q':
		m.IsQuiet = true
	case 'v':
		m.WantsValue = true
	case 'u':
		m.IsPeek = true
	case '_':
		m.LeavesToken = true
	case 'x':
		m.RemovesValue = true
	case 'I':
		m.Invalidates = true
	case 'O':
		isGood, reply = len(token) <= OpaqueMax, LongOpaque
	case 'M':
		m.Mode = ' '
		if len(token) > 0 {
			m.Mode = token[0]
		}
	case 'C':
		m.HasCompare = true
		m.Compare, isGood = ParseUint(token)
	case 'E':
		m.HasNewToken = true
		m.NewToken, isGood = ParseUint(token)
	case 'D':
		reply = badDeltaFlag
		m.Delta, isGood = ParseUint(token)
	case 'J':
		reply = badInitial
		m.Initial, isGood = ParseUint(token)
	case 'F':
		var flags uint64
		flags, isGood = ParseUint(token)
		isGood = isGood && flags <= math.MaxUint32
		reply, m.ClientFlags = BadFormat, uint32(flags)
	case 'T':
		number, isGood = ParseExptime(token)
		m.HasTTL, m.TTL, m.IsTTLLast = true, int64(number), m.HasVivify
	case 'N':
		number, isGood = ParseExptime(token)
		m.HasVivify, m.Vivify = true, int64(number)
	case 'R':
		number, isGood = ParseExptime(token)
		m.HasRecache, m.Recache = true, int64(number)
	}
	if isGood {
		return ""
	}
	return reply
}

// isFlag returns true for the letters of flags. Each command ignores the flags of other commands.
func isFlag(letter byte) bool {
	switch letter {
	case 'b', 'c', 'f', 'h', 'k', 'l', 'q', 's', 't', 'u', 'v', 'x',
		'C', 'D', 'E', 'F', 'I', 'J', 'L', 'M', 'N', 'O', 'P', 'R', 'T':
		return true
	}
	return false
}

// ExptimeOfNew returns the exptime of an item that N creates. If the command has both N and T, the
// last one takes effect.
func (m *Meta) ExptimeOfNew() int64 {
	if m.IsTTLLast {
		return m.TTL
	}
	return m.Vivify
}
