package server

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"
)

const (
	// lineMax is the length of the longest line with its end. Only lists of keys may be longer.
	lineMax = 2048
	keyMax  = 250
	// valueMax is memcached's longest value: its length and a line end fit 31 bits.
	valueMax = math.MaxInt32 - 2
	// wordsMax is the number of words of a line that memcached looks at.
	wordsMax = 23
	// passwordMax is the longest value of a login.
	passwordMax = 16384
)

// The response lines that several commands have.
const (
	badFormat  = "CLIENT_ERROR bad command line format\r\n"
	badChunk   = "CLIENT_ERROR bad data chunk\r\n"
	badExptime = "CLIENT_ERROR invalid exptime argument\r\n"
	badDelta   = "CLIENT_ERROR invalid numeric delta argument\r\n"
	badNumber  = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
	badUsage   = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
	// reservedFlags is the response to a store of flags that belong to the server.
	reservedFlags = "CLIENT_ERROR flags from 0xe0000000 to 0xefffffff are reserved for soft expiry\r\n"

	tooLarge    = "SERVER_ERROR object too large for cache\r\n"
	outOfMemory = "SERVER_ERROR out of memory storing object\r\n"
	noBuffers   = "SERVER_ERROR out of memory reading request\r\n"
	cacheClosed = "SERVER_ERROR the cache is closed\r\n"
	unknown     = "ERROR\r\n"
	end         = "END\r\n"
)

// textOf returns bytes as a string without a copy, for a call that does not keep it.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// cutWord returns the first word of a line, and what follows it.
func cutWord(b []byte) (word, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	// Most words are short, and a call takes longer than a loop over them.
	for at := range min(len(b), 16) {
		if b[at] == ' ' {
			return b[:at], b[at:]
		}
	}
	if len(b) > 16 {
		if at := bytes.IndexByte(b[16:], ' '); at >= 0 {
			return b[:at+16], b[at+16:]
		}
	}
	return b, nil
}

// words are the words of a line behind its command.
type words struct {
	// first has the first words of the line.
	first [6][]byte
	// count is the number of all words.
	count int
	// last is the last word that memcached looks at.
	last []byte
}

// cutWords splits what follows a command.
func cutWords(rest []byte) (w words) {
	for {
		var word []byte
		if word, rest = cutWord(rest); len(word) == 0 {
			return w
		}
		if w.count < len(w.first) {
			w.first[w.count] = word
		}
		w.count++
		// The command is a word, too.
		if w.count < wordsMax {
			w.last = word
		}
	}
}

// isQuiet returns true if the line ends in noreply.
func (w *words) isQuiet() bool { return string(w.last) == "noreply" }

func isKey(key []byte) bool { return len(key) > 0 && len(key) <= keyMax }

// parseUint parses a decimal number below 2^64 of at most 22 digits.
func parseUint(word []byte) (number uint64, ok bool) {
	if len(word) == 0 || len(word) > 22 {
		return 0, false
	}
	for _, c := range word {
		digit := uint64(c - '0')
		if digit > 9 || number > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		number = number*10 + digit
	}
	return number, true
}

// withoutPlus returns a number without a leading plus sign, which the flags and the exptime of a
// storage command may have. In front of a minus sign it stays, and makes the number invalid.
func withoutPlus(word []byte) []byte {
	if len(word) > 1 && word[0] == '+' && word[1] != '-' {
		return word[1:]
	}
	return word
}

// parseInt parses a decimal number that may be negative.
func parseInt(word []byte) (number int64, ok bool) {
	isNegative := len(word) > 0 && word[0] == '-'
	if isNegative {
		word = word[1:]
	}
	size, ok := parseUint(word)
	switch {
	case !ok || size > math.MaxInt64+1 || size > math.MaxInt64 && !isNegative:
		return 0, false
	case isNegative:
		return -int64(size), true
	}
	return int64(size), true
}

// parseExptime parses a signed number of 32 bits. Routers write negative ones as unsigned numbers.
func parseExptime(word []byte) (exptime int32, ok bool) {
	number, ok := parseInt(word)
	return int32(number), ok && number >= math.MinInt32 && number <= math.MaxUint32
}

// parseLength parses the length of a value.
func parseLength(word []byte) (length int, ok bool) {
	number, ok := parseUint(word)
	return int(number), ok && number <= valueMax
}

// parseCounter parses a value that incr and decr change: digits between white space.
func parseCounter(value []byte) (number uint64, ok bool) {
	return parseUint(bytes.Trim(value, " \t\n\v\f\r"))
}

// appendUint appends a space and a number.
func appendUint(dst []byte, number uint64) []byte {
	if number < 10 {
		return append(dst, ' ', '0'+byte(number))
	}
	return strconv.AppendUint(append(dst, ' '), number, 10)
}
