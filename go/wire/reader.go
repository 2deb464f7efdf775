package wire

import (
	"errors"
	"io"
	"math"
)

// Parser is implemented by the messages of all protocols.
type Parser interface {
	Parse(b []byte) (int, error)
}

// firstBytes is the size of the read buffer until a read has filled it, and readBytes is its size
// afterwards. A connection that sends little therefore needs little memory.
const (
	firstBytes = 4 << 10
	readBytes  = 16 << 10
)

// growFactor limits the buffer for a large message: it grows at most to growFactor times the bytes
// that have arrived, so that a peer cannot occupy memory by announcing a length.
const growFactor = 4

// DefaultMaxMessageBytes is the default limit of a message.
const DefaultMaxMessageBytes = 128 << 20

// Reader reads messages from a connection. It is not safe for concurrent use.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int
	// The remaining bytes of a message that is being skipped.
	skip int
	max  int
	// busy is true after a read has filled the buffer.
	busy bool
	// released is the size of the buffer that the last message owns since releaseLarge, or 0.
	released int
}

// NewReader returns a reader of src. Messages longer than maxMessageBytes are errors; 0 means
// DefaultMaxMessageBytes. The first read allocates 4 KiB. The buffer grows only as the bytes of a
// large message arrive.
func NewReader(src io.Reader, maxMessageBytes int) *Reader {
	if maxMessageBytes <= 0 {
		maxMessageBytes = DefaultMaxMessageBytes
	}
	return &Reader{src: src, max: maxMessageBytes}
}

// Buffered returns the number of bytes that were received but not parsed.
func (r *Reader) Buffered() int { return r.end - r.start }

// Read parses the next message into m, which is valid until the next Read.
//
// After a [*TooLargeError], and after a [*SyntaxError] with a Reply other than a SERVER_ERROR, the
// next Read continues after the invalid message. After any other error the connection should be
// closed: io.EOF means that the peer has closed it between two messages, and io.ErrUnexpectedEOF
// that it has closed it within a message.
func (r *Reader) Read(m Parser) error {
	if r.skip > 0 {
		if err := r.discard(); err != nil {
			return err
		}
	}
	for {
		n, err := m.Parse(r.buf[r.start:r.end])
		switch {
		case n > r.max && (err == nil || errors.Is(err, ErrShort)):
			r.skip = n
			return &TooLargeError{Bytes: n, LimitBytes: r.max}
		case err == nil:
			r.start += n
			r.released = 0
			if r.start == r.end {
				r.releaseLarge()
			}
			return nil
		case !errors.Is(err, ErrShort):
			r.skip = n
			return err
		}
		if err := r.fill(n); err != nil {
			return err
		}
	}
}

// releaseLarge releases a large buffer that contains only the last message, so that an idle
// connection does not keep it.
func (r *Reader) releaseLarge() {
	if len(r.buf) > 4*readBytes {
		r.released = len(r.buf)
		r.buf, r.start, r.end = nil, 0, 0
	}
}

// Take returns bytes of the last message in memory that the caller may keep. It returns a copy, or
// for a large message the bytes themselves; the reader then does not reuse their buffer.
func (r *Reader) Take(b []byte) []byte {
	if r.released > 0 && len(b) > r.released/4*3 {
		return b
	}
	// The compiler does not clear memory that copy overwrites.
	taken := make([]byte, len(b))
	copy(taken, b)
	return taken
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

// fill reads once, with space for a message of want bytes if growFactor allows that.
func (r *Reader) fill(want int) error {
	r.grow(want)
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if n > 0 {
			r.busy = r.busy || r.end == len(r.buf)
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
	size := firstBytes
	if r.busy {
		size = readBytes
	}
	// Compare in 64 bits: a multiple of have may exceed an int of 32 bits.
	size = max(size, int(min(uint64(want), growFactor*uint64(have))))
	if want <= have && have >= size {
		size = int(min(2*uint64(have), math.MaxInt))
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
