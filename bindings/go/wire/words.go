package wire

import (
	"bytes"
	"iter"
	"math"
)

// Words are words of a line, separated by one or more spaces.
type Words []byte

// All returns an iterator over the words.
func (w Words) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for word, rest := nextWord(w); len(word) > 0; word, rest = nextWord(rest) {
			if !yield(word) {
				return
			}
		}
	}
}

// First returns the first word, or an empty slice.
func (w Words) First() []byte {
	word, _ := nextWord(w)
	return word
}

const shortWordBytes = 8

func nextWord(b []byte) (word, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	// Most words are short, and a call takes longer than a loop over them.
	for end := range min(len(b), shortWordBytes) {
		if b[end] == ' ' {
			return b[:end:end], b[end:]
		}
	}
	if len(b) <= shortWordBytes {
		return b, nil
	}
	if end := bytes.IndexByte(b[shortWordBytes:], ' '); end >= 0 {
		end += shortWordBytes
		return b[:end:end], b[end:]
	}
	return b, nil
}

// cutLine returns the line at the start of b without its end, and its length including the end.
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

// The maximum length of a value. memcached parses the bytes after a command with a greater length
// as the next command.
const maxValueBytes = math.MaxInt32 - 2

// messageBytes returns the length of a message: a line or header of head bytes, and length bytes
// after it. It returns false if an int cannot hold the sum: on 32-bit systems the longest value of
// the protocols leaves no space for the line. No connection continues after such a message.
func messageBytes(head int, length uint64) (n int, fits bool) {
	sum := uint64(head) + length
	return int(sum), sum <= math.MaxInt
}

// tooLong returns the error for a message whose length an int cannot hold.
func tooLong(length []byte, reply string) error {
	return syntax("a message of less than 2 GiB", length, reply)
}

// cutValue returns the value of a message of n bytes, after its line of head bytes.
func cutValue(b []byte, head, n int, reply string) (value []byte, err error) {
	if len(b) < n {
		return nil, ErrShort
	}
	if b[n-2] != '\r' || b[n-1] != '\n' {
		return nil, syntax("a line end after the value", b[n-2:n], reply)
	}
	return b[head : n-2 : n-2], nil
}

// parseLength parses the length of a value, and returns it with that of the line end after it.
func parseLength(word []byte) (uint64, bool) {
	v, ok := ParseUint(word)
	return v + uint64(len("\r\n")), ok && v <= maxValueBytes
}

// ParseUint parses a decimal number as memcached writes it. It returns false for other input, and
// from 2^64 on.
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
