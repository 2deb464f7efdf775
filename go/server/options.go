package server

import (
	"time"

	"larder.example/larder/internal/grammar"
)

// The defaults of Options.
const (
	DefaultMaxConns     = 1024
	DefaultReadTimeout  = time.Minute
	DefaultWriteTimeout = time.Minute
	DefaultItemMax      = 1 << 20
	DefaultMaxMemory    = 64 << 20
)

// Options configures a server. The zero value of each field is its default.
type Options struct {
	// MaxConns limits the number of open connections; the default is DefaultMaxConns. The server
	// closes a connection above the limit with "ERROR Too many open connections".
	MaxConns int
	// ReadTimeout limits the time from the first to the last byte of a request, and the time of a TLS
	// handshake; the default is DefaultReadTimeout. A negative value means no limit.
	ReadTimeout time.Duration
	// IdleTimeout limits the time between two requests of a connection. By default it is unlimited,
	// because clients keep connections in pools.
	IdleTimeout time.Duration
	// WriteTimeout limits the time in which a client must read 64 KiB of responses, and the time for
	// which the server waits for memory; the default is DefaultWriteTimeout. A negative value means
	// no limit.
	WriteTimeout time.Duration
	// ItemMax is the size of the largest item, counted like memcached's -I: key, value, and 59 or 63
	// bytes of overhead. The default is DefaultItemMax. The cache may have a lower limit.
	ItemMax int
	// MaxMemory limits the memory of the buffers of all connections together. It does not include the
	// first 16 KiB for requests and the first 16 KiB for responses of each connection. The default is
	// DefaultMaxMemory; the minimum is four times ItemMax. Connections whose clients have not yet sent
	// a request after receiving a response share half of it. At the limit, connections wait for
	// memory, and the server closes the largest connection among those whose clients have neither sent
	// nor read a byte for a second.
	MaxMemory int64
	// Auth returns true if a client may log in. If it is set, clients log in by SASL PLAIN in the
	// binary protocol, and in the text protocol by a first "set" of any key with the value "user
	// password". See Login in the documentation of the package. Auth is called concurrently. Use
	// crypto/subtle to compare passwords.
	Auth func(user, password string) bool
	// SoftExpiry keeps items with flags 0 for this multiple of their exptime: with 2, an item of 60
	// seconds is readable for 120. Values up to 1 disable it, which is the default. See Soft expiry
	// in the documentation of the package.
	SoftExpiry float64
}

func (o Options) withDefaults() Options {
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = DefaultReadTimeout
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	if o.ItemMax <= 0 {
		o.ItemMax = DefaultItemMax
	}
	o.ItemMax = min(o.ItemMax, grammar.ValueMax)
	if o.MaxMemory <= 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	o.MaxMemory = max(o.MaxMemory, 4*int64(o.ItemMax))
	return o
}

// tick returns the interval at which the server checks the timeouts of the connections.
func (o Options) tick() time.Duration {
	tick := 250 * time.Millisecond
	for _, timeout := range []time.Duration{o.ReadTimeout, o.IdleTimeout, o.WriteTimeout} {
		if timeout > 0 {
			tick = min(tick, max(timeout/4, 5*time.Millisecond))
		}
	}
	return tick
}
