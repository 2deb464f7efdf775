package client

import (
	"errors"
	"io"
	"strings"
)

// closedByPeer reports whether the error means that the peer had closed the connection. Plan 9 has
// texts for errors, not numbers.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "hungup channel")
}
