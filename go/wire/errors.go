package wire

import (
	"errors"
	"fmt"

	"larder.example/larder/internal/grammar"
)

// ErrShort means that a message is incomplete: Parse needs more bytes.
var ErrShort = errors.New("wire: incomplete message")

const (
	// MaxLineBytes limits a line of a request in the text and meta protocols, including its end.
	MaxLineBytes = grammar.LineMax
	// MaxListBytes limits the lines that may be longer: the lines of the commands that list keys
	// (TextGet to TextGats), and the lines of responses.
	MaxListBytes = 64 << 10
	// MaxKeyBytes limits the length of a key.
	MaxKeyBytes = grammar.KeyMax
)

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

// outOfMemory is the response to a list of keys that is too long.
const outOfMemory = "SERVER_ERROR out of memory reading request"
