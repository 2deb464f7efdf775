package server

import (
	"math"

	"larder.example/larder/internal/grammar"
	"larder.example/larder/wire"
)

// stepText executes a request of the text or meta protocol.
func (c *conn) stepText(b []byte) int {
	line, head := grammar.CutLine(b, grammar.LineMax)
	switch {
	case head == 0 && len(b) < grammar.LineMax:
		return 0
	case head == 0:
		return c.longLine(b)
	}
	// Check for the most frequent command first.
	if len(line) > 4 && string(line[:4]) == "get " {
		return c.getKeys(b, line[4:], head, wire.TextGet)
	}
	word, rest, reply := grammar.CutCommand(line, head)
	switch reply {
	case "":
	case grammar.Unknown:
		return c.refuseUnknown(word, rest, head)
	default:
		return c.say(head, reply)
	}
	if verb, isMeta := grammar.CutMeta(word); isMeta {
		return c.metaLine(b, verb, rest, head)
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
	w := grammar.CutWords(rest)
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
	case "lru_crawler":
		return c.say(head, c.textCrawler(&w))
	case "slabs":
		return c.say(head, textSlabs(&w))
	}
	return c.refuseUnknown(word, rest, head)
}

// refuseUnknown responds to a line without a command.
func (c *conn) refuseUnknown(word, rest []byte, head int) int {
	w := grammar.UnknownWords(word, rest)
	if w.IsHTTP() {
		c.isClosing = true
		return head
	}
	return c.answer(head, &w, grammar.Unknown)
}

// say sends the response to a line of head bytes.
func (c *conn) say(head int, reply string) int {
	c.out = append(c.out, reply...)
	return head
}

// answer is like say, for a line that may end in noreply.
func (c *conn) answer(head int, w *grammar.Words, reply string) int {
	if w.IsQuiet() {
		return head
	}
	return c.say(head, reply)
}

func (c *conn) textDelete(w *grammar.Words) string {
	if reply := w.CheckDelete(); reply != "" {
		return reply
	}
	c.server.prefixes.note(textOf(w.First[0]), prefixCounts{deletes: 1})
	switch c.remove(textOf(w.First[0]), 0) {
	case stored:
		return "DELETED\r\n"
	case failed:
		return cacheClosed
	}
	return "NOT_FOUND\r\n"
}

func (c *conn) textCount(w *grammar.Words, subtract bool) string {
	delta, reply := w.Delta()
	if reply != "" {
		return reply
	}
	number, _, result := c.count(textOf(w.First[0]), counting{delta: delta, subtract: subtract})
	switch result {
	case stored:
		if !w.IsQuiet() {
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

func (c *conn) textTouch(w *grammar.Words) string {
	exptime, reply := w.Touch()
	if reply != "" {
		return reply
	}
	c.lookup = lookup{visit: c.lookup.visit, form: noForm, mode: touching, exptime: int64(exptime)}
	if c.find(textOf(w.First[0])) {
		return "TOUCHED\r\n"
	}
	return "NOT_FOUND\r\n"
}

func (c *conn) textFlush(w *grammar.Words) string {
	delay, reply := w.FlushDelay()
	if reply != "" {
		return reply
	}
	c.clearCache(int64(delay))
	return "OK\r\n"
}

func (c *conn) textVerbosity(w *grammar.Words) string {
	level, reply := w.Verbosity()
	if reply != "" {
		return reply
	}
	c.server.verbosity.Store(min(level, 2))
	return "OK\r\n"
}

// textMemoryLimit refuses to change the memory limit, like a memcached that has allocated all
// memory at startup.
func textMemoryLimit(w *grammar.Words) string {
	limit, ok := grammar.ParseUint(w.First[0])
	switch {
	case !ok || limit > math.MaxUint32:
		return grammar.Unknown
	case limit < 8:
		return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
	case limit > 1000000000:
		return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"
	}
	return "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
}

// textSlabs refuses to move memory between size classes, because the cache does not have them. Only
// slabs automove may end in noreply.
func textSlabs(w *grammar.Words) string {
	word := string(w.First[0])
	switch {
	case word == "":
		return grammar.Unknown
	case isAnyPrefix(word, "automove") && w.Count > 1 && w.IsQuiet():
		return ""
	case isAnyPrefix(word, "reassign") && w.Count == 3, isAnyPrefix(word, "automove") && w.Count > 1:
		return "CLIENT_ERROR slab reassignment disabled\r\n"
	}
	return grammar.Unknown
}

// textShutdown refuses to end the server. Only the program can end it.
func textShutdown(w *grammar.Words) string {
	if word := string(w.First[0]); w.Count > 0 && word != "noreply" && !isAnyPrefix(word, "graceful") {
		return "CLIENT_ERROR invalid shutdown mode\r\n"
	}
	return "SERVER_ERROR: shutdown not enabled\r\n"
}

// storeLine executes a storage command once its value has arrived.
func (c *conn) storeLine(b, rest []byte, head int, verb wire.TextVerb) int {
	var line grammar.Store
	reply := line.Parse(rest, verb == wire.TextCAS)
	if !line.HasLength {
		return c.say(head, reply)
	}
	key, length := line.Key, line.Length
	switch {
	case reply != "":
	case c.isReserved(line.Flags):
		reply = reservedFlags
	case c.isTooLarge(len(key), length, line.Flags):
		c.server.prefixes.note(textOf(key), prefixCounts{sets: 1})
		c.rejectLarge(textOf(key), verb == wire.TextSet)
		reply = grammar.TooLarge
	}
	if reply != "" {
		if line.IsQuiet {
			reply = ""
		}
		return c.skipValue(head, length, reply)
	}
	all := head + length + len("\r\n")
	if len(b) < all {
		c.need = all
		return 0
	}
	if b[all-2] != '\r' || b[all-1] != '\n' {
		return c.answerIf(!line.IsQuiet, all, grammar.BadChunk)
	}
	c.server.prefixes.note(textOf(key), prefixCounts{sets: 1})
	result, _ := c.store(&storing{
		verb: verb, key: textOf(key), value: b[head : all-2], flags: line.Flags,
		exptime: int64(line.Exptime), token: line.Token,
	})
	if line.IsQuiet {
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
	noMemory: outOfMemory, overLimit: grammar.TooLarge, failed: cacheClosed, notNumber: badNumber,
}
