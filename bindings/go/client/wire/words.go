package wire

import (
	"bytes"
	"iter"
	"math"
)

// Words are words of a line as they stand there, with one or more spaces between them.
type Words []byte

// All goes through the words.
func (w Words) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for word, rest := nextWord(w); len(word) > 0; word, rest = nextWord(rest) {
			if !yield(word) {
				return
			}
		}
	}
}

// First is the first word, and empty if there is none.
func (w Words) First() []byte {
	word, _ := nextWord(w)
	return word
}

func nextWord(b []byte) (word, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	if end := bytes.IndexByte(b, ' '); end >= 0 {
		return b[:end:end], b[end:]
	}
	return b, nil
}

// cutLine finds the line at the beginning of b, without its end, and how many bytes it takes with it.
func cutLine(b []byte) (line []byte, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), MaxLineBytes)], '\n')
	if end < 0 {
		if len(b) >= MaxLineBytes {
			return nil, 0, syntax("a line of at most 64 KiB", b, lineTooLarge)
		}
		return nil, 0, ErrShort
	}
	line = b[:end:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	return line, end + 1, nil
}

// A value that cannot be: memcached reads the line behind such a command as the next one.
const maxValueBytes = math.MaxInt32 - 2

// cutValue finds the value of length bytes behind a line that took head bytes of b.
func cutValue(b []byte, head, length int, reply string) (value []byte, n int, err error) {
	n = head + length + len("\r\n")
	if len(b) < n {
		return nil, n, ErrShort
	}
	if b[n-2] != '\r' || b[n-1] != '\n' {
		return nil, n, syntax("the end of a line behind the value", b[n-2:n], reply)
	}
	return b[head : n-2 : n-2], n, nil
}

// parseLength reads how long a value is.
func parseLength(word []byte) (int, bool) {
	v, ok := ParseUint(word)
	return int(v), ok && v <= maxValueBytes
}

// ParseUint reads a decimal number, as memcached writes it. It is false for anything else, and from 2^64 on.
func ParseUint(word []byte) (uint64, bool) {
	if len(word) == 0 || len(word) > 20 {
		return 0, false
	}
	var v uint64
	for _, c := range word {
		digit := uint64(c - '0')
		if digit > 9 || v > math.MaxUint64/10 || v*10 > math.MaxUint64-digit {
			return 0, false
		}
		v = v*10 + digit
	}
	return v, true
}

func parseInt(word []byte) (int64, bool) {
	if len(word) > 0 && word[0] == '-' {
		v, ok := ParseUint(word[1:])
		return -int64(v), ok && v <= math.MaxInt64
	}
	v, ok := ParseUint(word)
	return int64(v), ok && v <= math.MaxInt64
}

func isKey(key []byte) bool {
	return len(key) > 0 && len(key) <= MaxKeyBytes
}
