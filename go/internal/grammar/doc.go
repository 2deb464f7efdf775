// Package grammar parses the lines of memcached's text and meta commands, and provides memcached's
// responses to invalid lines. Packages wire and server share it.
//
// The results of all functions refer to their input: they copy nothing.
package grammar

import "math"

const (
	// LineMax is the length of the longest line with its end. Only lists of keys may be longer.
	LineMax = 2048
	// KeyMax is the length of the longest key.
	KeyMax = 250
	// ValueMax is the length of memcached's longest value: the sum of the length and a line end fits
	// in 31 bits.
	ValueMax = math.MaxInt32 - 2
	// OpaqueMax is the length of the longest opaque token.
	OpaqueMax = 31
	// wordsMax is the number of words of a line that memcached parses, and metaWordsMax is that number
	// for a meta command. It ignores further words.
	wordsMax     = 23
	metaWordsMax = 20
)

// The responses to invalid lines.
const (
	BadFormat  = "CLIENT_ERROR bad command line format\r\n"
	BadChunk   = "CLIENT_ERROR bad data chunk\r\n"
	BadExptime = "CLIENT_ERROR invalid exptime argument\r\n"
	BadDelta   = "CLIENT_ERROR invalid numeric delta argument\r\n"
	BadUsage   = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
	BadFlag    = "CLIENT_ERROR invalid flag\r\n"
	TwoFlags   = "CLIENT_ERROR duplicate flag\r\n"
	LongOpaque = "CLIENT_ERROR opaque token too long\r\n"
	BadKeyCode = "CLIENT_ERROR error decoding key\r\n"
	TooLarge   = "SERVER_ERROR object too large for cache\r\n"
	Unknown    = "ERROR\r\n"

	anyBadFlag   = "CLIENT_ERROR invalid or duplicate flag\r\n"
	badToken     = "CLIENT_ERROR bad token in command line format\r\n"
	badInitial   = "CLIENT_ERROR invalid numeric initial value\r\n"
	badDeltaFlag = "CLIENT_ERROR invalid numeric delta value\r\n"
	manyFlags    = "CLIENT_ERROR options flags are too long\r\n"
	badModeSet   = "CLIENT_ERROR invalid mode for ms M token\r\n"
	badModeCount = "CLIENT_ERROR invalid mode for ma M token\r\n"
)

// IsKey returns true for a key of a valid length.
func IsKey(key []byte) bool { return len(key) > 0 && len(key) <= KeyMax }
