package wire

import (
	"errors"
	"fmt"
)

// ErrShort says that a message has begun and not ended: Parse needs more bytes.
var ErrShort = errors.New("wire: the message is not complete")

// MaxLineBytes is how long a line of the text and meta protocols may be, its end included.
const MaxLineBytes = 64 << 10

// MaxKeyBytes is how long a key may be.
const MaxKeyBytes = 250

// SyntaxError says why bytes are no message.
type SyntaxError struct {
	// Want says what was expected.
	Want string
	// Got is the beginning of what was there instead.
	Got string
	// Reply is what memcached answers to such a request, without the end of the line. It is empty in responses.
	Reply string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("wire: expected %s, got %q", e.Want, e.Got)
}

// Only so much of foreign bytes is shown in an error.
const excerptBytes = 64

func syntax(want string, got []byte, reply string) *SyntaxError {
	return &SyntaxError{Want: want, Got: string(got[:min(len(got), excerptBytes)]), Reply: reply}
}

// TooLargeError says that a message is longer than a [Reader] takes.
type TooLargeError struct {
	// Bytes is how long the message is; LimitBytes is what the reader takes.
	Bytes, LimitBytes int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("wire: a message of %d bytes; at most %d are taken, unless the limit is raised", e.Bytes, e.LimitBytes)
}

const (
	badFormat     = "CLIENT_ERROR bad command line format"
	badChunk      = "CLIENT_ERROR bad data chunk"
	badExptime    = "CLIENT_ERROR invalid exptime argument"
	badDelta      = "CLIENT_ERROR invalid numeric delta argument"
	badFlag       = "CLIENT_ERROR invalid flag"
	duplicateFlag = "CLIENT_ERROR duplicate flag"
	longOpaque    = "CLIENT_ERROR opaque token too long"
	tooLarge      = "SERVER_ERROR object too large for cache"
	lineTooLarge  = "SERVER_ERROR out of memory reading request"
)
