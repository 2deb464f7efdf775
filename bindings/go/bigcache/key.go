package bigcache

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// BigCache takes any key. Those that the cache has no room for are kept by their digest, with the key in front of the entry,
// and so are those that begin like a digest.
const (
	framedMark  = "\xFF"
	keyBytesMax = 250
)

// nameOf is the name by which the entry of a key is kept, and whether the key stands in front of it.
func nameOf(key string) (name string, framed bool) {
	if 0 < len(key) && len(key) <= keyBytesMax && !isFramed(key) {
		return key, false
	}
	digest := sha256.Sum256([]byte(key))
	return framedMark + string(digest[:]), true
}

func isFramed(name string) bool { return strings.HasPrefix(name, framedMark) }

func frame(key string, entry []byte) []byte {
	framed := binary.AppendUvarint(make([]byte, 0, len(key)+len(entry)+binary.MaxVarintLen64), uint64(len(key)))
	framed = append(framed, key...)
	return append(framed, entry...)
}

// open gives the key and the entry behind it; false where there are none.
func parseFrame(framed []byte) (key string, entry []byte, ok bool) {
	length, digits := binary.Uvarint(framed)
	if digits <= 0 || length > uint64(len(framed)-digits) {
		return "", nil, false
	}
	rest := framed[digits:]
	return string(rest[:length]), rest[length:], true
}

// unframe gives the entry of this key; false where it is of another.
func unframe(framed []byte, key string) ([]byte, bool) {
	found, entry, ok := parseFrame(framed)
	return entry, ok && found == key
}
