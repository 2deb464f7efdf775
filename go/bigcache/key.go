package bigcache

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// BigCache accepts any key; a larder cache accepts 1 to 250 bytes. This package therefore stores an
// entry under a digest of its key if the key is empty or too long, or if it begins with the byte
// that marks a digest. To find out whether an entry really belongs to a key, the stored bytes of
// such an entry begin with a frame, which contains the complete key.
const (
	framedMark  = "\xFF"
	keyBytesMax = 250
)

// nameOf returns the name of a key, which is the key of its entry in the larder cache: the key
// itself or its digest. framed is true if it is the digest.
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

// parseFrame returns the key and the entry of a frame, and false if the frame is invalid.
func parseFrame(framed []byte) (key string, entry []byte, ok bool) {
	length, digits := binary.Uvarint(framed)
	if digits <= 0 || length > uint64(len(framed)-digits) {
		return "", nil, false
	}
	rest := framed[digits:]
	return string(rest[:length]), rest[length:], true
}

// unframe returns the entry of a key, and false if the frame belongs to another key.
func unframe(framed []byte, key string) ([]byte, bool) {
	found, entry, ok := parseFrame(framed)
	return entry, ok && found == key
}
