package client

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"larder.example/larder/wire"
)

// Errors of this package. Outcomes are returned unwrapped, because gomemcache's users compare them
// with ==. Test for the other errors with errors.Is.
var (
	// ErrCacheMiss means that the item does not exist.
	ErrCacheMiss = errors.New("larder client: no such item")
	// ErrCASConflict means that the item has changed since it was read.
	ErrCASConflict = errors.New("larder client: the item has changed since it was read")
	// ErrNotStored means that a condition did not hold: the key of Add had an item, or the key of
	// Replace, Append or Prepend had no item.
	ErrNotStored = errors.New("larder client: not stored: the condition does not hold")
	// ErrServerError means that the server failed to execute a request; the error is a *ReplyError.
	ErrServerError = errors.New("larder client: the server failed to execute the request")
	// ErrClientError means that the server rejected a request as invalid; the error is a
	// *ReplyError.
	ErrClientError = errors.New("larder client: the server rejected the request as invalid")
	// ErrNoStats exists for compatibility with gomemcache; no method returns it.
	ErrNoStats = errors.New("larder client: no statistics")
	// ErrMalformedKey means that a key is invalid in the client's protocol.
	ErrMalformedKey = errors.New("larder client: malformed key: want 1 to 250 bytes without spaces and control characters; ProtocolBinary allows those too, as does ProtocolMeta in keys of up to 186 bytes")
	// ErrNoServers means that the client has no servers.
	ErrNoServers = errors.New("larder client: no servers: pass at least one to New or SetServers")
	// ErrServerDown means that a server failed recently and is in backoff; the error is a
	// *DownError.
	ErrServerDown = errors.New("larder client: the server failed and is in backoff")
	// ErrBusy means that MaxConns connections were in use until the timeout; the error is a
	// *FaultError.
	ErrBusy error = busyError{}
	// ErrProtocol means that the server sent an invalid response; the error is a *FaultError.
	ErrProtocol = errors.New("larder client: invalid response from the server")
	// ErrLogin means that the server rejected user or password; the error is a *ReplyError.
	ErrLogin = errors.New("larder client: the server rejected user or password")
)

// ReplyError is an error line that a server has sent. The connection remains open.
type ReplyError struct {
	Server net.Addr
	// Line is the error line.
	Line string
	kind error
}

func (e *ReplyError) Error() string {
	// Programs that use gomemcache search for this text.
	what := "server error"
	switch e.kind {
	case ErrClientError:
		what = "client error"
	case ErrLogin:
		what = "login rejected"
	}
	return fmt.Sprintf("larder client: %s: %v says: %s", what, e.Server, e.Line)
}

// Unwrap returns ErrServerError, ErrClientError or ErrLogin.
func (e *ReplyError) Unwrap() error { return e.kind }

// FaultError means that a connection failed or could not be opened. The client has closed it. The
// server may have executed the request.
type FaultError struct {
	Server net.Addr
	// Err is the cause: an error of package net, io or wire, or the error of an ended context.
	Err error
	// dialing is true if the connection could not be opened, so that the request was not sent.
	dialing bool
}

func (e *FaultError) Error() string { return fmt.Sprintf("larder client: %v: %v", e.Server, e.Err) }

// Unwrap returns Err.
func (e *FaultError) Unwrap() error { return e.Err }

// Is reports whether target is ErrProtocol and the server sent an invalid response.
func (e *FaultError) Is(target error) bool {
	var wrong *wire.SyntaxError
	return target == ErrProtocol && errors.As(e.Err, &wrong)
}

// Timeout reports whether the server took too long, so that FaultError is a net.Error.
func (e *FaultError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Temporary returns the result of Timeout.
func (e *FaultError) Temporary() bool { return e.Timeout() }

// ConnectTimeoutError means that a connection was not established in time.
type ConnectTimeoutError struct {
	Addr net.Addr
}

func (e *ConnectTimeoutError) Error() string {
	return fmt.Sprintf("larder client: connecting to %v timed out", e.Addr)
}

// Timeout returns true, so that ConnectTimeoutError is a net.Error.
func (e *ConnectTimeoutError) Timeout() bool { return true }

// Temporary returns true.
func (e *ConnectTimeoutError) Temporary() bool { return true }

// DownError means that a request was not sent because the server is in backoff.
type DownError struct {
	Server net.Addr
	// Until is the end of the backoff.
	Until time.Time
	// Err is the last failure.
	Err error
}

func (e *DownError) Error() string {
	return fmt.Sprintf("larder client: %v failed and is in backoff until %s: %v",
		e.Server, e.Until.Format(time.TimeOnly), e.Err)
}

// Unwrap returns ErrServerDown and the last failure.
func (e *DownError) Unwrap() []error { return []error{ErrServerDown, e.Err} }

type busyError struct{}

func (busyError) Error() string {
	return "larder client: all connections in use until the timeout: raise Options.MaxConns or Timeout"
}

func (busyError) Timeout() bool { return true }

// unexpected returns an error for a valid response that does not match the request.
func unexpected(want string, got any) error {
	return &wire.SyntaxError{Want: want, Got: strings.TrimSpace(fmt.Sprint(got))}
}

// keepsConn reports whether the connection remains usable after a request that returned this error.
func keepsConn(err error) bool {
	switch err {
	case nil, ErrCacheMiss, ErrCASConflict, ErrNotStored, ErrMalformedKey:
		return true
	}
	// After the line ERROR the connection is not usable: a server that does not support a command may
	// parse the command's value as further commands.
	var reply *ReplyError
	return errors.As(err, &reply) && !strings.HasPrefix(reply.Line, "ERROR")
}

// wasNotSent reports whether an error means that the request was not sent, so that the client may
// send it to another server without executing it twice.
func wasNotSent(err error) bool {
	var down *DownError
	var slow *ConnectTimeoutError
	var fault *FaultError
	return errors.As(err, &down) || errors.As(err, &slow) || errors.As(err, &fault) && fault.dialing
}
