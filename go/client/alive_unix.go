//go:build unix && !aix

package client

import (
	"crypto/tls"
	"net"
	"syscall"
)

// liveness checks whether the peer has closed a connection, without blocking or consuming bytes.
type liveness struct {
	raw         syscall.RawConn
	peek        func(descriptor uintptr) bool
	isEncrypted bool
	isAlive     bool
	byte        [1]byte
}

// livenessOf returns nil for a connection without a file descriptor.
func livenessOf(conn net.Conn) *liveness {
	l := new(liveness)
	for {
		if _, ok := conn.(*tls.Conn); ok {
			l.isEncrypted = true
		}
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	system, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	var err error
	if l.raw, err = system.SyscallConn(); err != nil {
		return nil
	}
	l.peek = func(descriptor uintptr) bool {
		n, _, err := syscall.Recvfrom(int(descriptor), l.byte[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR:
			l.isAlive = true
		case err != nil || n == 0:
			l.isAlive = false
		default:
			// Bytes have arrived although no request is open. Under TLS they may be a session ticket, after
			// which the connection is usable; an alert means that the peer has closed it.
			l.isAlive = l.isEncrypted && l.byte[0] != tlsAlert
		}
		return true
	}
	return l
}

const tlsAlert = 21

// check reports whether the connection is usable.
func (l *liveness) check() bool {
	if l == nil {
		return true
	}
	l.isAlive = false
	return l.raw.Read(l.peek) == nil && l.isAlive
}
