//go:build linux && cgo

package shared

/*
#include <larder.h>
*/
import "C"

import "errors"

// Errors of this package, to be tested with [errors.Is].
var (
	// ErrNotFound means that there is no such item, or that it has expired.
	ErrNotFound = status(C.LARDER_MISSING)
	// ErrExists means that there is an item already, which is kept.
	ErrExists = status(C.LARDER_EXISTS)
	// ErrChanged means that the item has changed since its token was read. Read it again.
	ErrChanged = status(C.LARDER_CHANGED)
	// ErrKey means that a key is empty or longer than 250 bytes.
	ErrKey = status(C.LARDER_KEY)
	// ErrTooLarge means that the item is larger than [Options.ItemMax].
	ErrTooLarge = status(C.LARDER_TOO_LARGE)
	// ErrNoMemory means that there is no memory for the item, with [Options.NoEviction].
	ErrNoMemory = status(C.LARDER_NO_MEMORY)
	// ErrNotANumber means that the value is not a decimal number.
	ErrNotANumber = status(C.LARDER_NOT_A_NUMBER)
	// ErrNoTokens means that the cache was opened without [Options.CAS].
	ErrNoTokens = status(C.LARDER_NO_TOKENS)
	// ErrStuck means that another process that shares the cache has been stopped in the middle of a
	// change.
	ErrStuck = status(C.LARDER_STUCK)
	// ErrNotOpened means that the cache could not be opened.
	ErrNotOpened = status(C.LARDER_NOT_OPENED)
	// ErrUnsupported means that a connected cache, or one with a disk tier, does not support the
	// operation.
	ErrUnsupported = status(C.LARDER_UNSUPPORTED)
	// ErrUnreachable means that the server does not respond. It may have applied a change
	// nevertheless.
	ErrUnreachable = status(C.LARDER_UNREACHABLE)
	// ErrRefused means that the server rejected the request.
	ErrRefused = status(C.LARDER_REFUSED)
	// ErrProtocol means that the server's response is not valid memcached protocol.
	ErrProtocol = status(C.LARDER_PROTOCOL)
	// ErrDefect means that the library has a bug.
	ErrDefect = status(C.LARDER_DEFECT)
	// ErrInvalid means that an argument is out of range.
	ErrInvalid = status(C.LARDER_INVALID)
	// ErrDiskFull means that the disk has no room for the item. The old item stays.
	ErrDiskFull = status(C.LARDER_DISK_FULL)
	// ErrDiskBusy means that the disk has not kept up with the changes for [Tier.Wait]. Nothing has
	// changed.
	ErrDiskBusy = status(C.LARDER_DISK_BUSY)
	// ErrDiskFailed means that the disk has failed and takes no changes until the cache is opened
	// again. A change that waited for the disk may survive or not. [Cache.TierTrouble] returns the
	// reason.
	ErrDiskFailed = status(C.LARDER_DISK_FAILED)
	// ErrDiskUnreadable means that the disk has the item but did not return it, or that the item is
	// damaged.
	ErrDiskUnreadable = status(C.LARDER_DISK_UNREADABLE)

	// ErrClosed means that the cache is closed.
	ErrClosed = errors.New("larder: the cache is closed")
	// ErrRecursive means that a loader requests the key that it is loading.
	ErrRecursive = errors.New("larder: recursive load: the loader requests the key that it is loading")
)

// status is an error status of the C library.
type status uint32

func (s status) Error() string {
	return "larder: " + C.GoString(C.larder_status_text(C.uint32_t(s)))
}

// statusError returns the error of a status, and nil for success.
func statusError(outcome uint32) error {
	switch outcome {
	case C.LARDER_OK:
		return nil
	case statusClosed:
		return ErrClosed
	}
	return status(outcome)
}
