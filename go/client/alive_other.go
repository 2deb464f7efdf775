//go:build !unix || aix

package client

import "net"

// liveness checks whether the peer has closed a connection; not supported on this system.
type liveness struct{}

func livenessOf(net.Conn) *liveness { return nil }

func (*liveness) check() bool { return true }
