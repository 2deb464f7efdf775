package wire

import (
	"bytes"
	"errors"
	"io"
)

// Parser is a message of any of the protocols.
type Parser interface {
	Parse(b []byte) (int, error)
}

// What a connection is read with while nothing large comes, and what it is grown by where a peer has announced much:
// what has come, again.
const (
	readBytes = 16 << 10
	growBytes = 1 << 20
)

// DefaultMaxMessageBytes is how long a message may be if nothing else is said.
const DefaultMaxMessageBytes = 128 << 20

// Reader reads messages from a connection. It is used by one goroutine at a time.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int
	// What is left of a message that is being skipped.
	skip int
	max  int
	// How large the buffer was that was left to the last message, if it was.
	released int
}

// NewReader reads from src. A message that is longer than maxMessageBytes is an error; 0 stands for
// DefaultMaxMessageBytes. 16 KiB are allocated with the first read, and a large message is believed only as it comes.
func NewReader(src io.Reader, maxMessageBytes int) *Reader {
	if maxMessageBytes <= 0 {
		maxMessageBytes = DefaultMaxMessageBytes
	}
	return &Reader{src: src, max: maxMessageBytes}
}

// Buffered is how many bytes have come that no message has been made of.
func (r *Reader) Buffered() int { return r.end - r.start }

// Read reads the next message into m. What it leaves there is good until the next Read.
//
// After a [*SyntaxError] with a Reply, and after a [*TooLargeError], the next Read goes on behind what was wrong.
// After any other error the connection is best closed: io.EOF where the peer has closed it between two messages,
// io.ErrUnexpectedEOF within one.
func (r *Reader) Read(m Parser) error {
	if err := r.discard(); err != nil {
		return err
	}
	for {
		n, err := m.Parse(r.buf[r.start:r.end])
		short := errors.Is(err, ErrShort)
		switch {
		case err != nil && !short:
			r.skip = n
			return err
		case n > r.max:
			r.skip = n
			return &TooLargeError{Bytes: n, LimitBytes: r.max}
		case !short:
			r.start += n
			r.releaseLarge()
			return nil
		}
		if err := r.fill(n); err != nil {
			return err
		}
	}
}

// leaveLarge lets go of a large buffer with nothing in it but the last message, so that it is not kept while the
// connection is idle.
func (r *Reader) releaseLarge() {
	r.released = 0
	if r.start == r.end && len(r.buf) > 4*readBytes {
		r.released = len(r.buf)
		r.buf, r.start, r.end = nil, 0, 0
	}
}

// Take returns bytes of the last message that are the caller's to keep: a copy, or of a large message, whose buffer is
// not used again, the bytes themselves.
func (r *Reader) Take(b []byte) []byte {
	if r.released > 0 && len(b) > r.released/4*3 {
		return b
	}
	return bytes.Clone(b)
}

func (r *Reader) discard() error {
	for r.skip > 0 {
		if r.Buffered() == 0 {
			if err := r.fill(0); err != nil {
				return err
			}
		}
		n := min(r.skip, r.Buffered())
		r.start += n
		r.skip -= n
	}
	return nil
}

// fill reads once, with room for a message of want bytes if that is not much more than what is there.
func (r *Reader) fill(want int) error {
	r.grow(want)
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if n > 0 {
			return nil
		}
		if err == io.EOF && (r.Buffered() > 0 || r.skip > 0) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (r *Reader) grow(want int) {
	have := r.Buffered()
	if have == 0 {
		r.start, r.end = 0, 0
	}
	size := max(readBytes, min(want, have+max(have, growBytes)))
	if want <= have && have >= size {
		size = 2 * have
	}
	switch {
	case size > len(r.buf):
		grown := make([]byte, size)
		copy(grown, r.buf[r.start:r.end])
		r.buf, r.start, r.end = grown, 0, have
	case r.start > 0 && r.start+size > len(r.buf):
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, have
	}
}
