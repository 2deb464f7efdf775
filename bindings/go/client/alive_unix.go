//go:build unix

package client

import (
	"crypto/tls"
	"net"
	"syscall"
)

// liveness looks whether the other side has closed a connection, without waiting and without taking bytes from it.
type liveness struct {
	raw         syscall.RawConn
	peek        func(descriptor uintptr) bool
	isEncrypted bool
	isAlive     bool
	byte        [1]byte
}

// livenessOf is nil where nothing can be told: of a connection that is not the system's.
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
			// Bytes that nobody asked for; under TLS they may be a new session's, but an alert is the end.
			l.isAlive = l.isEncrypted && l.byte[0] != tlsAlert
		}
		return true
	}
	return l
}

const tlsAlert = 21

// check is false where the connection cannot be used any more.
func (l *liveness) check() bool {
	if l == nil {
		return true
	}
	l.isAlive = false
	return l.raw.Read(l.peek) == nil && l.isAlive
}
