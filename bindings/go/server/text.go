package server

import (
	"bytes"
	"math"

	"larder.example/larder/wire"
)

// stepText executes a request of the text or meta protocol.
func (c *conn) stepText(b []byte) int {
	at := bytes.IndexByte(b[:min(len(b), lineMax)], '\n')
	if at < 0 {
		if len(b) < lineMax {
			return 0
		}
		return c.longLine(b)
	}
	line, head := b[:at], at+1
	if at > 0 && line[at-1] == '\r' {
		line = line[:at-1]
	}
	if head < 4 {
		return c.say(head, badFormat)
	}
	// The most frequent command first.
	if len(line) > 4 && string(line[:4]) == "get " {
		return c.getKeys(b, line[4:], head, wire.TextGet)
	}
	if line[0] == ' ' {
		w := cutWords(line)
		return c.refuseUnknown(head, &w)
	}
	word, rest := cutWord(line)
	if len(word) == 2 && word[0] == 'm' {
		if executed, isMeta := c.metaLine(b, word[1], rest, head); isMeta {
			return executed
		}
	}
	switch string(word) {
	case "get":
		return c.getKeys(b, rest, head, wire.TextGet)
	case "gets":
		return c.getKeys(b, rest, head, wire.TextGets)
	case "gat":
		return c.touchKeys(rest, head, wire.TextGat)
	case "gats":
		return c.touchKeys(rest, head, wire.TextGats)
	case "set":
		return c.storeLine(b, rest, head, wire.TextSet)
	case "add":
		return c.storeLine(b, rest, head, wire.TextAdd)
	case "replace":
		return c.storeLine(b, rest, head, wire.TextReplace)
	case "append":
		return c.storeLine(b, rest, head, wire.TextAppend)
	case "prepend":
		return c.storeLine(b, rest, head, wire.TextPrepend)
	case "cas":
		return c.storeLine(b, rest, head, wire.TextCAS)
	}
	w := cutWords(rest)
	switch string(word) {
	case "incr", "decr", "touch":
		if w.count < 2 {
			// The only word is the key, also if it is noreply.
			return c.say(head, badFormat)
		}
	case "lru_crawler":
		return c.say(head, c.textCrawler(&w))
	case "slabs":
		return c.say(head, textSlabs(&w))
	}
	switch string(word) {
	case "delete":
		return c.answer(head, &w, c.textDelete(&w))
	case "incr":
		return c.answer(head, &w, c.textCount(&w, false))
	case "decr":
		return c.answer(head, &w, c.textCount(&w, true))
	case "touch":
		return c.answer(head, &w, c.textTouch(&w))
	case "flush_all":
		return c.answer(head, &w, c.textFlush(&w))
	case "verbosity":
		return c.answer(head, &w, c.textVerbosity(&w))
	case "version":
		return c.say(head, "VERSION "+Version+"\r\n")
	case "quit":
		c.isClosing = true
		return head
	case "stats":
		c.textStats(&w)
		return head
	case "cache_memlimit":
		return c.answer(head, &w, textMemoryLimit(&w))
	case "watch":
		return c.answer(head, &w, "CLIENT_ERROR watch commands not allowed\r\n")
	case "shutdown":
		return c.answer(head, &w, textShutdown(&w))
	}
	if w.count == 0 {
		w.last = word
	}
	return c.refuseUnknown(head, &w)
}

// refuseUnknown responds to a line without a command.
func (c *conn) refuseUnknown(head int, w *words) int {
	if bytes.HasPrefix(w.last, []byte("HTTP/")) {
		// A browser was made to send its request here.
		c.isClosing = true
		return head
	}
	return c.answer(head, w, unknown)
}

// say responds to a line of head bytes.
func (c *conn) say(head int, reply string) int {
	c.out = append(c.out, reply...)
	return head
}

// answer is say for a line that may end in noreply.
func (c *conn) answer(head int, w *words, reply string) int {
	if w.isQuiet() {
		return head
	}
	return c.say(head, reply)
}

func (c *conn) textDelete(w *words) string {
	if !isKey(w.first[0]) {
		return badFormat
	}
	// Old clients send a delay, which they expect to be kept.
	others := w.count - 1
	if others > 0 && w.isQuiet() {
		others--
	}
	if others > 1 {
		return badUsage
	}
	if others == 1 && isDelay(w.first[1]) {
		return badUsage
	}
	c.server.prefixes.note(textOf(w.first[0]), prefixCounts{deletes: 1})
	switch c.remove(textOf(w.first[0]), 0) {
	case stored:
		return "DELETED\r\n"
	case failed:
		return cacheClosed
	}
	return "NOT_FOUND\r\n"
}

// isDelay returns true for a number, of any size, that is not 0.
func isDelay(word []byte) bool {
	digits := bytes.TrimPrefix(word, []byte("-"))
	return len(bytes.Trim(digits, "0123456789")) == 0 && len(bytes.Trim(digits, "0")) > 0
}

func (c *conn) textCount(w *words, subtract bool) string {
	if !isKey(w.first[0]) {
		return badFormat
	}
	delta, ok := parseUint(w.first[1])
	if !ok {
		return badDelta
	}
	number, _, result := c.count(textOf(w.first[0]), counting{delta: delta, subtract: subtract})
	switch result {
	case stored:
		if !w.isQuiet() {
			// A number has no word in front of it.
			at := len(c.out)
			c.out = appendUint(c.out, number)
			c.out = append(append(c.out[:at], c.out[at+1:]...), "\r\n"...)
		}
		return ""
	case notNumber:
		return badNumber
	case noMemory:
		return "SERVER_ERROR out of memory\r\n"
	case failed:
		return cacheClosed
	}
	return "NOT_FOUND\r\n"
}

func (c *conn) textTouch(w *words) string {
	if !isKey(w.first[0]) {
		return badFormat
	}
	exptime, ok := parseExptime(w.first[1])
	if !ok {
		return badExptime
	}
	c.lookup = lookup{visit: c.lookup.visit, form: noForm, mode: touching, exptime: int64(exptime)}
	if c.find(textOf(w.first[0])) {
		return "TOUCHED\r\n"
	}
	return "NOT_FOUND\r\n"
}

func (c *conn) textFlush(w *words) string {
	delay := int32(0)
	if w.count > 1 || w.count == 1 && !w.isQuiet() {
		var ok bool
		if delay, ok = parseExptime(w.first[0]); !ok {
			return badExptime
		}
	}
	c.clearCache(int64(delay))
	return "OK\r\n"
}

func (c *conn) textVerbosity(w *words) string {
	level, ok := parseUint(w.first[0])
	if !ok || level > math.MaxUint32 {
		return badFormat
	}
	c.server.verbosity.Store(min(uint32(level), 2))
	return "OK\r\n"
}

// textMemoryLimit refuses another memory limit, as a memcached does that has taken all memory at
// its start.
func textMemoryLimit(w *words) string {
	limit, ok := parseUint(w.first[0])
	switch {
	case !ok || limit > math.MaxUint32:
		return unknown
	case limit < 8:
		return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
	case limit > 1000000000:
		return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"
	}
	return "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
}

// textSlabs refuses to move memory between size classes, which the cache does not have. Of its
// forms only automove may end in noreply.
func textSlabs(w *words) string {
	word := string(w.first[0])
	switch {
	case word == "":
		return unknown
	case isAnyPrefix(word, "automove") && w.count > 1 && w.isQuiet():
		return ""
	case isAnyPrefix(word, "reassign") && w.count == 3, isAnyPrefix(word, "automove") && w.count > 1:
		return "CLIENT_ERROR slab reassignment disabled\r\n"
	}
	return unknown
}

// textShutdown refuses to end the server, which is the program's part.
func textShutdown(w *words) string {
	if word := string(w.first[0]); w.count > 0 && word != "noreply" && !isAnyPrefix(word, "graceful") {
		return "CLIENT_ERROR invalid shutdown mode\r\n"
	}
	return "SERVER_ERROR: shutdown not enabled\r\n"
}

// storeLine executes a storage command once its value has arrived.
func (c *conn) storeLine(b, rest []byte, head int, verb wire.TextVerb) int {
	w := cutWords(rest)
	least := 4
	if verb == wire.TextCAS {
		least = 5
	}
	length, ok := parseLength(w.first[3])
	if !ok {
		// The client is out of step, and has to notice.
		return c.say(head, badFormat)
	}
	key := w.first[0]
	flags, flagsOK := parseUint(withoutPlus(w.first[1]))
	exptime, exptimeOK := parseInt(withoutPlus(w.first[2]))
	var token uint64
	tokenOK := true
	if verb == wire.TextCAS {
		token, tokenOK = parseUint(w.first[4])
	}
	isQuiet := w.isQuiet()
	refuse := func(reply string) int {
		if isQuiet {
			reply = ""
		}
		return c.skipValue(head, length, reply)
	}
	if w.count < least || !isKey(key) || !flagsOK || !exptimeOK || !tokenOK {
		return refuse(badFormat)
	}
	if c.isReserved(uint32(flags)) {
		return refuse(reservedFlags)
	}
	if c.isTooLarge(len(key), length, uint32(flags)) {
		c.server.prefixes.note(textOf(key), prefixCounts{sets: 1})
		c.rejectLarge(textOf(key), verb == wire.TextSet)
		return refuse(tooLarge)
	}
	all := head + length + len("\r\n")
	if len(b) < all {
		c.need = all
		return 0
	}
	if b[all-2] != '\r' || b[all-1] != '\n' {
		return c.answerIf(!isQuiet, all, badChunk)
	}
	c.server.prefixes.note(textOf(key), prefixCounts{sets: 1})
	result, _ := c.store(&storing{
		verb: verb, key: textOf(key), value: b[head : all-2], flags: uint32(flags),
		exptime: int64(int32(exptime)), token: token,
	})
	if isQuiet {
		return all
	}
	return c.say(all, storeReplies[result])
}

func (c *conn) answerIf(isWanted bool, head int, reply string) int {
	if isWanted {
		return c.say(head, reply)
	}
	return head
}

var storeReplies = [...]string{
	stored: "STORED\r\n", notStored: "NOT_STORED\r\n", exists: "EXISTS\r\n", notFound: "NOT_FOUND\r\n",
	noMemory: outOfMemory, overLimit: tooLarge, failed: cacheClosed, notNumber: badNumber,
}
