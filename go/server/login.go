package server

import (
	"bytes"
	"strings"

	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// passwordMax is the longest value of a login.
const passwordMax = 16384

const (
	unauthenticated = "CLIENT_ERROR unauthenticated\r\n"
	badLogin        = "CLIENT_ERROR authentication failure\r\n"
	badLoginValue   = "CLIENT_ERROR bad authentication token format\r\n"
	longLogin       = "CLIENT_ERROR auth token too long\r\n"
	badLoginEnd     = "CLIENT_ERROR bad command line termination\r\n"
	// skippedMax is the length of the longest login value that the server skips. After a longer value
	// the server expects a line.
	skippedMax = 1 << 20
	// mechanismMax is the length of the longest name of a SASL mechanism, and credentialsMax is the
	// length of its longest value.
	mechanismMax   = 32
	credentialsMax = 4096
)

// stepLogin executes a line of the text protocol before the login: a set whose value is user and
// password.
func (c *conn) stepLogin(b []byte) int {
	line, head := grammar.CutLine(b, grammar.LineMax)
	if head == 0 && len(b) < grammar.LineMax {
		return 0
	}
	if head < 7 {
		c.isClosing = true
		return len(b)
	}
	word, rest := grammar.CutWord(line)
	w := grammar.CutWords(rest)
	length, ok := grammar.ParseLength(w.First[3])
	if string(word) != "set" || w.Count < 4 || !ok {
		return c.say(head, unauthenticated)
	}
	if length > passwordMax {
		c.out = append(c.out, longLogin...)
		if length <= skippedMax {
			c.skip, c.reply = int64(length+len("\r\n")), c.reply[:0]
		}
		return head
	}
	all := head + length + len("\r\n")
	if len(b) < all {
		c.need = all
		return 0
	}
	value := b[head : all-2]
	if b[all-2] != '\r' || b[all-1] != '\n' {
		return c.say(all, badLoginEnd)
	}
	// In memcached the password is the second word, so it cannot contain spaces.
	user, password, _ := bytes.Cut(bytes.Trim(value, " "), []byte(" "))
	password = bytes.TrimLeft(password, " ")
	if len(user) == 0 || len(password) == 0 {
		return c.say(all, badLoginValue)
	}
	if !c.logIn(user, password) {
		return c.say(all, badLogin)
	}
	c.step = (*conn).stepText
	return c.say(all, storeReplies[stored])
}

func (c *conn) logIn(user, password []byte) bool {
	c.counters.add1(authCommands, 1)
	c.isLoggedIn = c.server.options.Auth(string(user), string(password))
	c.counters.add1(authErrors, one(!c.isLoggedIn))
	return c.isLoggedIn
}

// logInPlain logs in by the value of PLAIN: the authorization identity, which must be empty or the
// user, the user and the password.
func (c *conn) logInPlain(value []byte) bool {
	parts := bytes.Split(value, []byte{0})
	if len(parts) != 3 || len(parts[0]) > 0 && !bytes.Equal(parts[0], parts[1]) {
		return false
	}
	return c.logIn(parts[1], parts[2])
}

func isLogin(loud wire.Opcode) bool {
	return loud == wire.OpSASLListMechs || loud == wire.OpSASLAuth || loud == wire.OpSASLStep
}

// binaryLogin executes the SASL opcodes. PLAIN is the only mechanism.
func (c *conn) binaryLogin(b []byte, r *wire.BinaryRequest, keyBytes, extras int, value int64) int {
	const head = wire.BinaryHeaderBytes
	isList := r.Opcode == wire.OpSASLListMechs
	if extras != 0 || isList != (keyBytes == 0) || isList && value != 0 {
		return c.refuseBinary(r, wire.StatusInvalid)
	}
	if keyBytes > mechanismMax || value > credentialsMax {
		return c.skipBinary(r, head, int64(keyBytes)+value, wire.StatusInvalid)
	}
	if isList {
		c.respond(r, wire.StatusOK, 0, nil, nil, "PLAIN")
		return head
	}
	all := head + keyBytes + int(value)
	if len(b) < all {
		c.need = all
		return 0
	}
	isPlain := strings.EqualFold(textOf(b[head:head+keyBytes]), "PLAIN")
	c.isLoggedIn = false
	if r.Opcode == wire.OpSASLAuth && isPlain && c.logInPlain(b[head+keyBytes:all]) {
		c.respond(r, wire.StatusOK, 0, nil, nil, "Authenticated")
	} else {
		c.fail(r, wire.StatusAuthError)
	}
	return all
}
