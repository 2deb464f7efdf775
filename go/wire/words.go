package wire

import (
	"iter"
	"math"
	"strings"

	"larder.example/larder/internal/grammar"
)

// Words is a list of words from a line, separated by one or more spaces.
type Words []byte

// All returns an iterator over the list.
func (w Words) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for word, rest := grammar.CutWord(w); len(word) > 0; word, rest = grammar.CutWord(rest) {
			if !yield(word) {
				return
			}
		}
	}
}

// First returns the first word, or an empty slice.
func (w Words) First() []byte {
	word, _ := grammar.CutWord(w)
	return word
}

// cutRequest returns the line of a request at the start of b without its end, and its length
// including the end.
func cutRequest(b []byte) (line []byte, n int, err error) {
	line, n = grammar.CutLine(b, MaxLineBytes)
	switch {
	case n > 0:
		return line, n, nil
	case len(b) < MaxLineBytes:
		return nil, 0, ErrShort
	case !grammar.IsList(b):
		// memcached closes the connection without a response.
		return nil, 0, syntax("a line of at most 2048 bytes, or a list of keys", b, "")
	}
	return cutLongLine(b, outOfMemory)
}

// cutResponse is like cutRequest, for a response.
func cutResponse(b []byte) (line []byte, n int, err error) { return cutLongLine(b, "") }

func cutLongLine(b []byte, reply string) (line []byte, n int, err error) {
	line, n = grammar.CutLine(b, MaxListBytes)
	switch {
	case n > 0:
		return line, n, nil
	case len(b) < MaxListBytes:
		return nil, 0, ErrShort
	}
	return nil, 0, syntax("a line of at most 64 KiB", b, reply)
}

// messageBytes returns the length of a message: a line or header of head bytes, and length bytes
// after it. It returns false if an int cannot hold the sum: on 32-bit systems the longest value of
// the protocols leaves no space for the line. No connection continues after such a message.
func messageBytes(head int, length uint64) (n int, fits bool) {
	sum := uint64(head) + length
	return int(sum), sum <= math.MaxInt
}

// valueMessageBytes is like messageBytes, for a value with its line end.
func valueMessageBytes(head, length int) (n int, fits bool) {
	return messageBytes(head, uint64(length)+uint64(len("\r\n")))
}

// tooLong returns the error for a message whose length an int cannot hold.
func tooLong(line []byte, reply string) error {
	return refusal("a message of less than 2 GiB", line, reply)
}

// cutValue returns the value of a message of n bytes, after its line of head bytes.
func cutValue(b []byte, head, n int, reply string) (value []byte, err error) {
	if len(b) < n {
		return nil, ErrShort
	}
	if b[n-2] != '\r' || b[n-1] != '\n' {
		return nil, refusal("a line end after the value", b[n-2:n], reply)
	}
	return b[head : n-2 : n-2], nil
}

// refusal returns the error for an invalid request to which package grammar has a response.
func refusal(want string, got []byte, reply string) error {
	return syntax(want, got, strings.TrimSuffix(reply, "\r\n"))
}

// ParseUint parses a decimal number as memcached writes it. It returns false for other input, and
// for numbers of 2^64 or more.
func ParseUint(word []byte) (uint64, bool) { return grammar.ParseUint(word) }
