//go:build !plan9

package reader

import (
	"errors"
	"syscall"
)

// isQueueFull reports whether a connection failed because the server's queue of new connections is
// full.
func isQueueFull(err error) bool {
	return errors.Is(err, syscall.EAGAIN)
}
