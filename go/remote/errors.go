package remote

import "errors"

// Errors of this package. Test for them with [errors.Is]. The other errors are those of package
// larder.
var (
	// ErrUnreachable means that the server does not respond. It may still have applied a change.
	ErrUnreachable = errors.New("larder: the server does not respond")
	// ErrRefused means that the server rejected the request.
	ErrRefused = errors.New("larder: the server has refused the request")
	// ErrProtocol means that the response is not memcached's protocol.
	ErrProtocol = errors.New("larder: the response is not memcached's protocol")
)
