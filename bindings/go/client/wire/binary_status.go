package wire

import "fmt"

// BinaryStatus is the status of a response of the binary protocol.
type BinaryStatus uint16

// The statuses of memcached.
const (
	StatusOK             BinaryStatus = 0x00
	StatusNotFound       BinaryStatus = 0x01
	StatusExists         BinaryStatus = 0x02
	StatusTooLarge       BinaryStatus = 0x03
	StatusInvalid        BinaryStatus = 0x04
	StatusNotStored      BinaryStatus = 0x05
	StatusNonNumeric     BinaryStatus = 0x06
	StatusAuthError      BinaryStatus = 0x20
	StatusAuthContinue   BinaryStatus = 0x21
	StatusUnknownCommand BinaryStatus = 0x81
	StatusOutOfMemory    BinaryStatus = 0x82
)

// String returns the text that memcached writes into the body of such a response, or the number of
// the status.
func (s BinaryStatus) String() string {
	switch s {
	case StatusOK:
		return "OK"
	case StatusNotFound:
		return "Not found"
	case StatusExists:
		return "Data exists for key."
	case StatusTooLarge:
		return "Too large."
	case StatusInvalid:
		return "Invalid arguments"
	case StatusNotStored:
		return "Not stored."
	case StatusNonNumeric:
		return "Non-numeric server-side value for incr or decr"
	case StatusAuthError:
		return "Auth failure."
	case StatusAuthContinue:
		return "Continue"
	case StatusUnknownCommand:
		return "Unknown command"
	case StatusOutOfMemory:
		return "Out of memory"
	}
	return fmt.Sprintf("status 0x%04x", uint16(s))
}
