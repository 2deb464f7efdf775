//go:build linux && cgo

package larder

/*
#include <larder.h>
*/
import "C"

import "errors"

// Errors of this package, for [errors.Is].
var (
	// ErrNotFound says that there is no such item, or that it has died.
	ErrNotFound = status(C.LARDER_MISSING)
	// ErrExists says that there is such an item already, which stays.
	ErrExists = status(C.LARDER_EXISTS)
	// ErrChanged says that the item has been changed since its token was read: read it again.
	ErrChanged = status(C.LARDER_CHANGED)
	// ErrKey says that a key is empty, or longer than 250 bytes.
	ErrKey = status(C.LARDER_KEY)
	// ErrTooLarge says that the item is larger than [Options.ItemMax].
	ErrTooLarge = status(C.LARDER_TOO_LARGE)
	// ErrNoMemory says that there is no memory for the item, with [Options.NoEviction].
	ErrNoMemory = status(C.LARDER_NO_MEMORY)
	// ErrNotANumber says that the value is no counter.
	ErrNotANumber = status(C.LARDER_NOT_A_NUMBER)
	// ErrNoTokens says that the cache was opened without [Options.CAS].
	ErrNoTokens = status(C.LARDER_NO_TOKENS)
	// ErrStuck says that another process that shares the cache has been stopped in the middle of a change.
	ErrStuck = status(C.LARDER_STUCK)
	// ErrNotOpened says that the cache could not be opened.
	ErrNotOpened = status(C.LARDER_NOT_OPENED)
	// ErrUnsupported says that a connected cache cannot do that.
	ErrUnsupported = status(C.LARDER_UNSUPPORTED)
	// ErrUnreachable says that the server is not there, or does not answer. A change may have been made all the same.
	ErrUnreachable = status(C.LARDER_UNREACHABLE)
	// ErrRefused says that the server refused.
	ErrRefused = status(C.LARDER_REFUSED)
	// ErrProtocol says that what came from the server is not memcached's protocol.
	ErrProtocol = status(C.LARDER_PROTOCOL)
	// ErrDefect says that there is a defect in the library.
	ErrDefect = status(C.LARDER_DEFECT)
	// ErrInvalid says that an argument is out of bounds.
	ErrInvalid = status(C.LARDER_INVALID)

	// ErrClosed says that the cache is closed.
	ErrClosed = errors.New("larder: the cache is closed")
	// ErrRecursive says that a loader asks for the key that it is to load.
	ErrRecursive = errors.New("larder: the loader waits for itself: it asks for the key it is to load")
)

// status is what a call into C came to, where that was an error.
type status uint32

func (s status) Error() string {
	return "larder: " + C.GoString(C.larder_status_text(C.uint32_t(s)))
}

// failure is nil where all went well.
func statusError(outcome uint32) error {
	switch outcome {
	case C.LARDER_OK:
		return nil
	case statusClosed:
		return ErrClosed
	}
	return status(outcome)
}
