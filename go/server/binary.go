package server

import (
	"encoding/binary"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// shape is the format that requests of an opcode must have.
type shape struct {
	verb     wire.TextVerb
	extras   int
	hasKey   bool
	hasValue bool
}

// shapes maps opcodes to their formats. A quiet opcode has the format of the loud opcode of the
// same command: a quiet one suppresses the usual response.
var shapes = map[wire.Opcode]shape{
	wire.OpGet: {wire.TextGet, 0, true, false}, wire.OpGetK: {wire.TextGet, 0, true, false},
	wire.OpSet: {wire.TextSet, 8, true, true}, wire.OpAdd: {wire.TextAdd, 8, true, true},
	wire.OpReplace: {wire.TextReplace, 8, true, true}, wire.OpDelete: {wire.TextDelete, 0, true, false},
	wire.OpIncrement: {wire.TextIncr, 20, true, false}, wire.OpDecrement: {wire.TextDecr, 20, true, false},
	wire.OpQuit: {verb: wire.TextQuit}, wire.OpFlush: {verb: wire.TextFlushAll}, wire.OpNoOp: {},
	wire.OpVersion: {verb: wire.TextVersion}, wire.OpAppend: {wire.TextAppend, 0, true, true},
	wire.OpPrepend: {wire.TextPrepend, 0, true, true}, wire.OpStat: {verb: wire.TextStats},
	wire.OpTouch: {wire.TextTouch, 4, true, false}, wire.OpGAT: {wire.TextGat, 4, true, false},
	wire.OpGATK: {wire.TextGat, 4, true, false},
}

// stepBinary executes a request of the binary protocol.
func (c *conn) stepBinary(b []byte) int {
	if b[0] != wire.MagicRequest {
		c.isClosing = true
		return len(b)
	}
	if len(b) < wire.BinaryHeaderBytes {
		c.need = wire.BinaryHeaderBytes
		return 0
	}
	var r wire.BinaryRequest
	keyBytes, extras := int(binary.BigEndian.Uint16(b[2:])), int(b[4])
	body := int64(binary.BigEndian.Uint32(b[8:]))
	r.Opcode, r.Opaque, r.CAS = wire.Opcode(b[1]), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])
	const head = wire.BinaryHeaderBytes
	value := body - int64(keyBytes+extras)
	loud := r.Opcode.Loud()
	form, isKnown := shapes[loud]
	switch {
	case value < 0:
		return c.refuseBinary(&r, wire.StatusUnknownCommand)
	case keyBytes > grammar.KeyMax:
		return c.refuseBinary(&r, wire.StatusInvalid)
	case c.server.options.Auth != nil && isLogin(loud):
		return c.binaryLogin(b, &r, keyBytes, extras, value)
	case c.server.options.Auth != nil && !c.isLoggedIn && loud != wire.OpVersion:
		return c.refuseBinary(&r, wire.StatusAuthError)
	case !isKnown || form.verb != wire.TextQuit && r.Opcode != loud && !canBeQuiet(loud):
		return c.skipBinary(&r, head, body, wire.StatusUnknownCommand)
	case !form.fits(loud, keyBytes, extras, value):
		return c.refuseBinary(&r, wire.StatusInvalid)
	}
	front := head + extras + keyBytes
	if len(b) < front {
		c.need = front
		return 0
	}
	r.Extras, r.Key = b[head:head+extras], b[head+extras:front]
	if form.hasValue {
		flags := uint32(0)
		if extras == 8 {
			flags = binary.BigEndian.Uint32(r.Extras)
		}
		if c.isReserved(flags) {
			return c.skipBinary(&r, front, value, wire.StatusInvalid)
		}
		if value > grammar.ValueMax || c.isTooLarge(keyBytes, int(value), flags) {
			c.rejectLarge(textOf(r.Key), form.verb == wire.TextSet)
			return c.skipBinary(&r, front, value, wire.StatusTooLarge)
		}
		all := front + int(value)
		if len(b) < all {
			c.need = all
			return 0
		}
		r.Value = b[front:all]
	}
	c.executeBinary(&r, loud, form.verb)
	return front + len(r.Value)
}

func canBeQuiet(loud wire.Opcode) bool { return loud <= wire.OpGATK }

// fits returns true if the lengths of a request are valid for its opcode.
func (s shape) fits(loud wire.Opcode, keyBytes, extras int, value int64) bool {
	if loud == wire.OpFlush && extras == 4 {
		extras = 0
	}
	if loud == wire.OpStat {
		return extras == 0 && value == 0
	}
	return extras == s.extras && (keyBytes > 0) == s.hasKey && (value == 0 || s.hasValue)
}

// refuseBinary responds to a request that does not have the format of its opcode, and ends the
// connection.
func (c *conn) refuseBinary(r *wire.BinaryRequest, status wire.BinaryStatus) int {
	c.fail(r, status)
	c.isClosing = true
	return c.end - c.start
}

// skipBinary ignores the rest of a request after its first bytes and then responds.
func (c *conn) skipBinary(r *wire.BinaryRequest, front int, rest int64, status wire.BinaryStatus) int {
	length := len(c.out)
	c.fail(r, status)
	c.skip, c.reply = rest, append(c.reply[:0], c.out[length:]...)
	if c.out = c.out[:length]; rest == 0 {
		c.out = append(c.out, c.reply...)
	}
	return front
}

// fail responds with a status and its text.
func (c *conn) fail(r *wire.BinaryRequest, status wire.BinaryStatus) {
	c.respond(r, status, 0, nil, nil, status.String())
}

func (c *conn) respond(
	r *wire.BinaryRequest, status wire.BinaryStatus, token uint64, extras, key []byte, value string,
) {
	response := wire.BinaryResponse{
		Opcode: r.Opcode, Opaque: r.Opaque, Status: status, CAS: token, Extras: extras, Key: key,
	}
	c.out = append(response.AppendHeadTo(c.out, len(value)), value...)
}

func (c *conn) executeBinary(r *wire.BinaryRequest, loud wire.Opcode, verb wire.TextVerb) {
	isQuiet := r.Opcode != loud
	switch verb {
	case wire.TextGet, wire.TextGat, wire.TextTouch:
		c.binaryGet(r, loud, verb, isQuiet)
		return
	case wire.TextSet, wire.TextAdd, wire.TextReplace, wire.TextAppend, wire.TextPrepend:
		c.binaryStore(r, verb, isQuiet)
		return
	case wire.TextDelete:
		c.server.prefixes.note(textOf(r.Key), prefixCounts{deletes: 1})
		c.conclude(r, isQuiet, binaryStatuses[c.remove(textOf(r.Key), r.CAS)], 0, "")
		return
	case wire.TextIncr, wire.TextDecr:
		c.binaryCount(r, verb, isQuiet)
		return
	case wire.TextFlushAll:
		delay, _ := wire.ParseUint32Extras(r.Extras)
		c.clearCache(int64(delay))
	case wire.TextVersion:
		c.respond(r, wire.StatusOK, 0, nil, nil, Version)
		return
	case wire.TextStats:
		c.binaryStats(r)
		return
	case wire.TextQuit:
		c.isClosing = true
	}
	c.conclude(r, isQuiet, wire.StatusOK, 0, "")
}

var binaryStatuses = [...]wire.BinaryStatus{
	stored: wire.StatusOK, notStored: wire.StatusNotStored, exists: wire.StatusExists,
	notFound: wire.StatusNotFound, notNumber: wire.StatusNonNumeric, noMemory: wire.StatusOutOfMemory,
	overLimit: wire.StatusTooLarge, failed: wire.StatusOutOfMemory,
}

// conclude responds to a change, unless the request is quiet and the change has succeeded.
func (c *conn) conclude(
	r *wire.BinaryRequest, isQuiet bool, status wire.BinaryStatus, token uint64, value string,
) {
	switch {
	case status != wire.StatusOK:
		c.fail(r, status)
	case !isQuiet:
		c.respond(r, status, token, nil, nil, value)
	}
}

func (c *conn) binaryGet(r *wire.BinaryRequest, loud wire.Opcode, verb wire.TextVerb, isQuiet bool) {
	c.lookup = lookup{visit: c.lookup.visit, form: binaryForm, binary: r}
	if verb != wire.TextGet {
		exptime, _ := wire.ParseUint32Extras(r.Extras)
		c.lookup.mode, c.lookup.exptime = touching, int64(exptime)
	}
	if c.find(textOf(r.Key)) || isQuiet || c.isBroken {
		return
	}
	if loud == wire.OpGetK || loud == wire.OpGATK {
		c.respond(r, wire.StatusNotFound, 0, nil, r.Key, "")
		return
	}
	c.fail(r, wire.StatusNotFound)
}

// visitBinary appends the response to a hit.
func (c *conn) visitBinary(value []byte, item engine.Item) {
	r := c.lookup.binary
	loud := r.Opcode.Loud()
	length := item.Bytes
	if loud == wire.OpTouch {
		value, length = nil, 0
	}
	if more := wire.BinaryHeaderBytes + 4 + len(r.Key) + length; !c.hasRoom(more) || len(value) < length {
		c.lookup.wanted = more
		return
	}
	item = c.soften(c.lookup.key, item)
	var extras [4]byte
	binary.BigEndian.PutUint32(extras[:], item.Flags)
	response := wire.BinaryResponse{
		Opcode: r.Opcode, Opaque: r.Opaque, CAS: item.Token, Extras: extras[:],
	}
	if loud == wire.OpGetK || loud == wire.OpGATK {
		response.Key = r.Key
	}
	c.out = append(response.AppendHeadTo(c.out, len(value)), value...)
}

func (c *conn) binaryStore(r *wire.BinaryRequest, verb wire.TextVerb, isQuiet bool) {
	store := storing{verb: verb, key: textOf(r.Key), value: r.Value, token: r.CAS}
	if flags, exptime, ok := wire.ParseStoreExtras(r.Extras); ok {
		store.flags, store.exptime = flags, int64(exptime)
		if r.CAS != 0 {
			store.verb = wire.TextCAS
		}
	}
	c.server.prefixes.note(store.key, prefixCounts{sets: 1})
	result, token := c.store(&store)
	status := binaryStatuses[result]
	switch {
	case result == notStored && verb == wire.TextAdd:
		status = wire.StatusExists
	case result == notStored && verb == wire.TextReplace:
		status = wire.StatusNotFound
	}
	c.conclude(r, isQuiet, status, token, "")
}

func (c *conn) binaryCount(r *wire.BinaryRequest, verb wire.TextVerb, isQuiet bool) {
	delta, initial, exptime, _ := wire.ParseCountExtras(r.Extras)
	number, token, result := c.count(textOf(r.Key), counting{
		delta: delta, token: r.CAS, subtract: verb == wire.TextDecr, initial: initial,
		creates: exptime != wire.ExptimeNoCreate, exptime: int64(exptime),
	})
	var value [8]byte
	binary.BigEndian.PutUint64(value[:], number)
	c.conclude(r, isQuiet, binaryStatuses[result], token, string(value[:]))
}

// binaryStats responds with one message for each statistic and an empty message at the end.
func (c *conn) binaryStats(r *wire.BinaryRequest) {
	group := string(r.Key)
	if group == "reset" {
		c.server.resetStats()
	} else {
		rows, isKnown := c.binaryDetail(group)
		if !isKnown {
			rows, isKnown = c.server.stats(group)
		}
		if !isKnown {
			c.fail(r, wire.StatusNotFound)
			return
		}
		for _, row := range rows {
			c.respond(r, wire.StatusOK, 0, nil, []byte(row.name), row.value)
		}
	}
	c.respond(r, wire.StatusOK, 0, nil, nil, "")
}
