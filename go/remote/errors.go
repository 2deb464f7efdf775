package remote

import "errors"

// Errors of this package, to be tested with [errors.Is]. The others are those of package larder.
var (
	// ErrUnreachable means that the server does not respond. It may have applied a change
	// nevertheless.
	ErrUnreachable = errors.New("larder: the server does not respond")
	// ErrRefused means that the server rejected the request.
	ErrRefused = errors.New("larder: the server has refused the request")
	// ErrProtocol means that the response is not memcached's protocol.
	ErrProtocol = errors.New("larder: the response is not memcached's protocol")
)
