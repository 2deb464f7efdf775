//go:build !plan9

package client

import (
	"errors"
	"io"
	"syscall"
)

// closedByPeer reports whether an error of a read or write means that the peer had closed the
// connection.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
