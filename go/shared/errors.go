//go:build linux && cgo

package shared

/*
#include <larder.h>
*/
import "C"

import "larder.example/larder"

// Errors of this package. Test for them with [errors.Is]. Errors that package larder also has are
// the same values.
var (
	// ErrNotFound means that the item does not exist, or that it has expired.
	ErrNotFound = larder.ErrNotFound
	// ErrExists means that the key already has an item, which is unchanged.
	ErrExists = status(C.LARDER_EXISTS)
	// ErrChanged means that the item has changed since its token was read. Read it again.
	ErrChanged = larder.ErrChanged
	// ErrKey means that a key is empty or longer than 250 bytes.
	ErrKey = larder.ErrKey
	// ErrTooLarge means that the item is larger than [Options.ItemMax].
	ErrTooLarge = larder.ErrTooLarge
	// ErrNoMemory means that the cache has no memory left for the item, with [Options.NoEviction].
	ErrNoMemory = larder.ErrNoMemory
	// ErrNotANumber means that the value is not a decimal number.
	ErrNotANumber = larder.ErrNotANumber
	// ErrNoTokens means that the cache was opened without [Options.CAS].
	ErrNoTokens = larder.ErrNoTokens
	// ErrStuck means that the operation has waited for another process that shares the cache, and that
	// was stopped (not killed) in the middle of a change.
	ErrStuck = status(C.LARDER_STUCK)
	// ErrNotOpened means that the cache could not be opened.
	ErrNotOpened = larder.ErrNotOpened
	// ErrUnsupported means that a cache with a disk tier does not support the operation.
	ErrUnsupported = status(C.LARDER_UNSUPPORTED)
	// ErrDefect means that the library has a bug.
	ErrDefect = status(C.LARDER_DEFECT)
	// ErrInvalid means that an argument is out of range.
	ErrInvalid = larder.ErrInvalid
	// ErrDiskFull means that the disk has no room for the item. The old item stays.
	ErrDiskFull = status(C.LARDER_DISK_FULL)
	// ErrDiskBusy means that a change was not made because earlier changes still waited for the disk.
	// The call has waited for [Tier.Wait].
	ErrDiskBusy = status(C.LARDER_DISK_BUSY)
	// ErrDiskFailed means that the disk has failed and the cache accepts no changes until it is opened
	// again. A change that was waiting for the disk when it failed may or may not be in the cache
	// after that. [Cache.TierTrouble] returns the reason.
	ErrDiskFailed = status(C.LARDER_DISK_FAILED)
	// ErrDiskUnreadable means that the item is on the disk, but that reading it failed or the bytes
	// are damaged.
	ErrDiskUnreadable = status(C.LARDER_DISK_UNREADABLE)

	// ErrClosed means that the cache is closed.
	ErrClosed = larder.ErrClosed
	// ErrRecursive means that a loader requests the key that it is loading.
	ErrRecursive = larder.ErrRecursive
	// ErrLoadTimeout means that a load exceeded [Options.LoadTimeout].
	ErrLoadTimeout = larder.ErrLoadTimeout
)

// commonErrors maps statuses of the C library to errors of package larder.
var commonErrors = map[status]error{
	C.LARDER_MISSING: ErrNotFound, C.LARDER_CHANGED: ErrChanged, C.LARDER_KEY: ErrKey,
	C.LARDER_TOO_LARGE: ErrTooLarge, C.LARDER_NO_MEMORY: ErrNoMemory,
	C.LARDER_NOT_A_NUMBER: ErrNotANumber, C.LARDER_NO_TOKENS: ErrNoTokens,
	C.LARDER_NOT_OPENED: ErrNotOpened, C.LARDER_INVALID: ErrInvalid,
}

// PanicError is the error that all callers of a load receive if its loader panics.
type PanicError = larder.PanicError

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
	case C.LARDER_MISSING:
		return ErrNotFound
	case statusClosed:
		return ErrClosed
	}
	if common := commonErrors[status(outcome)]; common != nil {
		return common
	}
	return status(outcome)
}
