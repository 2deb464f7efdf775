package server

import (
	"strconv"
	"strings"
)

const (
	// classMax is the number of the last of memcached's size classes.
	classMax = 63
	// dumpMax and dumpBytesMax limit the items that a dump visits, and its length.
	dumpMax      = 30000
	dumpBytesMax = 2 << 20
)

// cacheDump responds to stats cachedump with keys of a size class.
func (c *conn) cacheDump(w *words) {
	if w.count < 3 {
		c.out = append(c.out, "CLIENT_ERROR bad command line\r\n"...)
		return
	}
	class, classOK := parseUint(w.first[1])
	limit, limitOK := parseUint(w.first[2])
	switch {
	case !classOK || !limitOK:
		c.out = append(c.out, badFormat...)
		return
	case class > classMax:
		c.out = append(c.out, "CLIENT_ERROR Illegal slab id\r\n"...)
		return
	}
	visited, shown, length := 0, uint64(0), 0
	var value []byte
	for key := range c.engine.Keys("") {
		if visited++; visited > dumpMax || length > dumpBytesMax || c.isBroken {
			break
		}
		copied, item, found := c.engine.Peek(value[:0], key)
		value = copied
		if !found || classOf(itemBytes(len(key), item.Bytes, item.Flags)) != int(class) {
			continue
		}
		expiry := int64(0)
		if item.Deadline != 0 {
			expiry = (item.Deadline - c.engine.Now() + c.engine.Wall()) / 1000
		}
		before := len(c.out)
		c.out = append(append(c.out, "ITEM "...), encodeKey(key)...)
		c.out = strconv.AppendInt(append(c.out, " ["...), int64(item.Bytes), 10)
		c.out = strconv.AppendInt(append(c.out, " b; "...), expiry, 10)
		c.out = append(c.out, " s]\r\n"...)
		if length += len(c.out) - before; len(c.out) >= freeBytes-1024 {
			c.flush()
		}
		if shown++; shown == limit {
			break
		}
	}
	c.out = append(c.out, end...)
}

// encodeKey returns a key in URI encoding if it would break the line otherwise.
func encodeKey(key string) string {
	const digits = "0123456789ABCDEF"
	if !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return key
	}
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
