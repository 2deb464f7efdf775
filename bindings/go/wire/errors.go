package wire

import (
	"errors"
	"fmt"
)

// ErrShort means that a message is incomplete: Parse needs more bytes.
var ErrShort = errors.New("wire: incomplete message")

// MaxLineBytes limits a line of the text and meta protocols, including its end.
const MaxLineBytes = 64 << 10

// MaxKeyBytes limits the length of a key.
const MaxKeyBytes = 250

// SyntaxError means that bytes are not a valid message.
type SyntaxError struct {
	// Want describes the expected input.
	Want string
	// Got is the start of the actual input.
	Got string
	// Reply is memcached's response to such a request, without the line end. It is empty for
	// responses.
	Reply string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("wire: expected %s, got %q", e.Want, e.Got)
}

// The maximum number of input bytes in an error.
const excerptBytes = 64

func syntax(want string, got []byte, reply string) *SyntaxError {
	return &SyntaxError{Want: want, Got: string(got[:min(len(got), excerptBytes)]), Reply: reply}
}

// TooLargeError means that a message exceeds the limit of a [Reader].
type TooLargeError struct {
	// Bytes is the size of the message; LimitBytes is the limit of the reader.
	Bytes, LimitBytes int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("wire: message of %d bytes exceeds the limit of %d", e.Bytes, e.LimitBytes)
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
