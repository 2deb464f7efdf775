package server

import (
	"bytes"
	"encoding/base64"
	"math/bits"
	"strconv"
	"strings"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/grammar"
)

const (
	// classMax is the number of the last of memcached's size classes.
	classMax = 63
	// dumpMax and dumpBytesMax limit the items that cachedump visits, and its length.
	dumpMax      = 30000
	dumpBytesMax = 2 << 20

	badClass = "BADCLASS invalid class id\r\n"
)

// cacheDump responds to stats cachedump with keys of a size class.
func (c *conn) cacheDump(w *grammar.Words) {
	if w.Count < 3 {
		c.out = append(c.out, "CLIENT_ERROR bad command line\r\n"...)
		return
	}
	class, classOK := grammar.ParseUint(w.First[1])
	limit, limitOK := grammar.ParseUint(w.First[2])
	switch {
	case !classOK || !limitOK:
		c.out = append(c.out, grammar.BadFormat...)
		return
	case class > classMax:
		c.out = append(c.out, "CLIENT_ERROR Illegal slab id\r\n"...)
		return
	}
	visited, shown, length := 0, uint64(0), 0
	for key := range c.engine.Keys("") {
		if visited++; visited > dumpMax || length > dumpBytesMax || c.isBroken {
			break
		}
		item, found := c.engine.Look(key)
		if !found || uint64(c.classOf(key, item)) != class {
			continue
		}
		line := []byte("ITEM " + encodeKey(key) + " [")
		line = append(strconv.AppendInt(line, int64(item.Bytes), 10), " b; "...)
		line = append(strconv.AppendInt(line, max(c.expiry(item), 0), 10), " s]\r\n"...)
		c.stream(string(line))
		length += len(line)
		if shown++; shown == limit {
			break
		}
	}
	c.out = append(c.out, end...)
}

// classOf returns the size class in which memcached would store an item.
func (c *conn) classOf(key string, item engine.Item) int {
	return classOf(itemBytes(len(key), item.Bytes, c.clientFlags(item)))
}

// clientFlags returns the flags that a client has given an item.
func (c *conn) clientFlags(item engine.Item) uint32 {
	if c.isSoft(item) {
		return 0
	}
	return item.Flags
}

// expiry returns the Unix time at which an item expires for clients, or -1.
func (c *conn) expiry(item engine.Item) int64 {
	if item.Deadline == 0 {
		return -1
	}
	// Round to the nearest second. A deadline is on the monotonic clock and the result on the wall
	// clock, and the two clocks change to the next millisecond at different moments. A deadline in
	// whole seconds may therefore be slightly before the second.
	return (c.deadline(item) - c.engine.Now() + c.engine.Wall() + 500) / 1000
}

// parseClasses returns the size classes that a dump shows, one bit for each class. For an invalid
// list it returns the response.
func parseClasses(list []byte) (classes uint64, reply string) {
	if string(list) == "all" || string(list) == "hash" {
		return 1<<64 - 1, ""
	}
	for word := range bytes.SplitSeq(list, []byte(",")) {
		if len(word) == 0 {
			continue
		}
		class, ok := grammar.ParseUint(word)
		if !ok || class < 1 || class > classMax {
			return 0, badClass
		}
		classes |= 1 << class
	}
	if bits.OnesCount64(classes) == 0 {
		return 0, "NOTSTARTED no items to crawl\r\n"
	}
	return classes, ""
}

// textCrawler responds to lru_crawler. Only its dumps are supported.
func (c *conn) textCrawler(w *grammar.Words) string {
	word := string(w.First[0])
	switch {
	case word == "":
		return grammar.Unknown
	case w.Count == 1 && isAnyPrefix(word, "enable", "disable"),
		w.Count == 2 && isAnyPrefix(word, "sleep", "tocrawl", "crawl"):
		return "CLIENT_ERROR lru crawler disabled\r\n"
	case !isAnyPrefix(word, "metadump", "mgdump") || w.Count != 2:
		return grammar.Unknown
	}
	classes, reply := parseClasses(w.First[1])
	if reply != "" {
		return reply
	}
	isMeta := isAnyPrefix(word, "metadump")
	c.stream("OK\r\n")
	for key := range c.engine.Keys("") {
		if c.isBroken {
			break
		}
		item, found := c.engine.Look(key)
		switch {
		case !found || classes>>c.classOf(key, item)&1 == 0:
		case isMeta:
			c.stream(c.metaDumpLine(key, item))
		default:
			c.stream(getDumpLine(key))
		}
	}
	if isMeta {
		return end
	}
	return "EN\r\n"
}

// isAnyPrefix returns true if full contains a word that begins with word.
func isAnyPrefix(word string, full ...string) bool {
	for _, text := range full {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}

// metaDumpLine returns the line of an item in metadump. It ends in a newline, without a carriage
// return.
func (c *conn) metaDumpLine(key string, item engine.Item) string {
	flags := c.clientFlags(item)
	size := itemBytes(len(key), item.Bytes, flags)
	line := []byte("key=" + encodeURI(key) + " exp=")
	line = append(strconv.AppendInt(line, c.expiry(item), 10), " la="...)
	access := int64(0)
	if since, ok := c.engine.SinceAccess(item); ok {
		access = c.engine.Wall()/1000 - since
	}
	line = append(strconv.AppendInt(line, access, 10), " cas="...)
	line = append(strconv.AppendUint(line, item.Token, 10), " fetch="...)
	line = append(append(line, yesNo(item.IsFetched())...), " cls="...)
	line = append(strconv.AppendInt(line, int64(classOf(size)), 10), " size="...)
	line = append(strconv.AppendInt(line, int64(size), 10), " flags="...)
	return string(append(strconv.AppendUint(line, uint64(flags), 10), " \n"...))
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// getDumpLine returns the command that fetches an item.
func getDumpLine(key string) string {
	if isPrintable(key) {
		return "mg " + key + "\r\n"
	}
	return "mg " + base64.StdEncoding.EncodeToString([]byte(key)) + " b\r\n"
}

// isPrintable returns false for a key that would break a line or a word.
func isPrintable(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// encodeKey returns a key in URI encoding if it would break the line otherwise.
func encodeKey(key string) string {
	if isPrintable(key) {
		return key
	}
	return encodeURI(key)
}

// encodeURI returns a key in URI encoding.
func encodeURI(key string) string {
	const digits = "0123456789ABCDEF"
	var encoded strings.Builder
	for at := range len(key) {
		switch b := key[at]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', strings.IndexByte("-._~", b) >= 0:
			encoded.WriteByte(b)
		default:
			encoded.WriteString("%" + digits[b>>4:b>>4+1] + digits[b&15:b&15+1])
		}
	}
	return encoded.String()
}
