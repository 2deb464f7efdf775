package client

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"larder/client/wire"
)

// What is compared with ==, as gomemcache's users do, is returned as it is; the others are found with errors.Is.
var (
	// ErrCacheMiss says that there is no such key.
	ErrCacheMiss = errors.New("larder client: there is no such key")
	// ErrCASConflict says that the item has been changed since it was read.
	ErrCASConflict = errors.New("larder client: the item has been changed since it was read")
	// ErrNotStored says that a condition did not hold: Add found the key, Replace, Append or Prepend did not.
	ErrNotStored = errors.New("larder client: not stored, for the condition does not hold")
	// ErrServerError says that the server could not do it; the error is a *ReplyError.
	ErrServerError = errors.New("larder client: the server could not do it")
	// ErrClientError says that the server took the request for wrong; the error is a *ReplyError.
	ErrClientError = errors.New("larder client: the server takes the request for wrong")
	// ErrNoStats is here for programs that name it; nothing returns it.
	ErrNoStats = errors.New("larder client: there are no statistics")
	// ErrMalformedKey says that no server can have such a key.
	ErrMalformedKey = errors.New("larder client: malformed key: it has to have 1 to 250 bytes, without spaces and control characters; ProtocolBinary takes those as well, and ProtocolMeta in keys of up to 186 bytes")
	// ErrNoServers says that the client was given no servers.
	ErrNoServers = errors.New("larder client: there are no servers; give New or SetServers at least one")
	// ErrServerDown says that a server has failed a short time ago and is left alone until later; the error is a
	// *DownError.
	ErrServerDown = errors.New("larder client: the server is left alone, for it has failed")
	// ErrBusy says that as many connections to a server as may be were in use all the time; the error is a *FaultError.
	ErrBusy error = busyError{}
	// ErrProtocol says that the server sent what is no answer; the error is a *FaultError.
	ErrProtocol = errors.New("larder client: the server sent what is no answer")
	// ErrLogin says that the server did not take user and password; the error is a *ReplyError.
	ErrLogin = errors.New("larder client: the server does not take user and password")
)

// ReplyError is an error that a server has told. Its connection goes on.
type ReplyError struct {
	Server net.Addr
	// Line is what the server said.
	Line string
	kind error
}

func (e *ReplyError) Error() string {
	// Programs look for these words of gomemcache's.
	what := "server error"
	switch e.kind {
	case ErrClientError:
		what = "client error"
	case ErrLogin:
		what = "login refused"
	}
	return fmt.Sprintf("larder client: %s: %v says: %s", what, e.Server, e.Line)
}

// Unwrap is ErrServerError, ErrClientError, or ErrLogin.
func (e *ReplyError) Unwrap() error { return e.kind }

// FaultError says what happened to a connection, or that there was none. It has been closed; whether the server has done
// what it was asked for is not known.
type FaultError struct {
	Server net.Addr
	// Err is what happened: an error of net or io, of a context that is done, or of package wire.
	Err error
	// It happened before the server was asked.
	dialing bool
}

func (e *FaultError) Error() string { return fmt.Sprintf("larder client: %v: %v", e.Server, e.Err) }

// Unwrap is Err.
func (e *FaultError) Unwrap() error { return e.Err }

// Is says that it is ErrProtocol where the server sent nonsense.
func (e *FaultError) Is(target error) bool {
	var wrong *wire.SyntaxError
	return target == ErrProtocol && errors.As(e.Err, &wrong)
}

// Timeout says whether the server took too long, so that FaultError is a net.Error.
func (e *FaultError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Temporary is what Timeout is.
func (e *FaultError) Temporary() bool { return e.Timeout() }

// ConnectTimeoutError says that a connection did not come about in time.
type ConnectTimeoutError struct {
	Addr net.Addr
}

func (e *ConnectTimeoutError) Error() string {
	return fmt.Sprintf("larder client: no connection to %v in time", e.Addr)
}

// Timeout is true, so that ConnectTimeoutError is a net.Error.
func (e *ConnectTimeoutError) Timeout() bool { return true }

// Temporary is true.
func (e *ConnectTimeoutError) Temporary() bool { return true }

// DownError says that a server was not asked because it has failed.
type DownError struct {
	Server net.Addr
	// Until is when it will be asked again.
	Until time.Time
	// Err is how it failed.
	Err error
}

func (e *DownError) Error() string {
	return fmt.Sprintf("larder client: %v is left alone until %s, for it has failed: %v", e.Server, e.Until.Format(time.TimeOnly), e.Err)
}

// Unwrap is ErrServerDown, and how the server failed.
func (e *DownError) Unwrap() []error { return []error{ErrServerDown, e.Err} }

type busyError struct{}

func (busyError) Error() string {
	return "larder client: all connections were in use until the time was over; allow more by Options.MaxConns, or a longer Timeout"
}

func (busyError) Timeout() bool { return true }

// unexpected is an answer that is one, but not to this question.
func unexpected(want string, got any) error {
	return &wire.SyntaxError{Want: want, Got: strings.TrimSpace(fmt.Sprint(got))}
}

// keepsStep says whether the connection can be used again after an operation that ended with this error.
func keepsConn(err error) bool {
	switch err {
	case nil, ErrCacheMiss, ErrCASConflict, ErrNotStored, ErrMalformedKey:
		return true
	}
	// Who does not know a command does not know what belongs to it.
	var reply *ReplyError
	return errors.As(err, &reply) && !strings.HasPrefix(reply.Line, "ERROR")
}

// wasNotAsked says whether the server cannot have done anything, so that another one may be asked.
func wasNotSent(err error) bool {
	var down *DownError
	var slow *ConnectTimeoutError
	var fault *FaultError
	return errors.As(err, &down) || errors.As(err, &slow) || errors.As(err, &fault) && fault.dialing
}
