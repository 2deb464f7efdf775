// Package accept accepts connections, also while the process has no free file descriptors.
package accept

import (
	"errors"
	"net"
	"time"
)

// The pause after a temporary error. It doubles up to the maximum.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = time.Second
)

// Loop calls serve for each connection of a listener, until the listener fails or done is closed.
// It returns nil if done is closed; the caller then closes the listener, which ends the wait for a
// connection. Temporary errors do not end the loop: the process may have no free file descriptor.
func Loop(listener net.Listener, done <-chan struct{}, serve func(net.Conn)) error {
	pause := time.Duration(0)
	for {
		conn, err := listener.Accept()
		switch {
		case isClosed(done):
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case err == nil:
			pause = 0
			serve(conn)
		case !isTemporary(err):
			return err
		default:
			pause = min(max(2*pause, pauseMin), pauseMax)
			select {
			case <-time.After(pause):
			case <-done:
				return nil
			}
		}
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func isTemporary(err error) bool {
	// Temporary is deprecated because it is not well defined, but package net documents it for errors
	// of Accept.
	var failure interface{ Temporary() bool }
	return errors.As(err, &failure) && failure.Temporary()
}
