package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/accept"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/own"
)

// ErrServerClosed is the error that Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("server is closed")

// Server serves a cache to memcached clients. All methods are safe for concurrent use.
type Server struct {
	engine *engine.Engine
	// cache keeps the owner of the engine reachable, because the garbage collector closes an
	// unreachable cache.
	cache any
	// change is called before each change of a key. If the program is loading a value for the key
	// (GetOrLoad), the load then does not store its value over the change.
	change  func(key string)
	options Options
	started time.Time
	// now is the time from the start to the last tick, in nanoseconds.
	now atomic.Int64
	// held is the number of bytes of the connections' buffers that count against Options.MaxMemory.
	held atomic.Int64
	// wanted is the number of bytes that connections wait for, and relieved is the time of the last
	// search for stalled connections.
	wanted, relieved atomic.Int64
	isDraining       atomic.Bool
	// drained is closed when isDraining becomes true.
	drained   chan struct{}
	verbosity atomic.Uint32
	// accepted, rejected and closed count connections.
	accepted, rejected atomic.Uint64
	clearing           delayedClear
	prefixes           prefixes

	mu sync.Mutex
	// The fields below are guarded by mu.

	// listeners maps the numbers shown in "stats conns" to listeners. It is not a set of listeners
	// because the type of a listener may not be comparable.
	listeners map[uint64]net.Listener
	// numbers is the largest number that was assigned to a listener or a connection.
	numbers uint64
	conns   map[*conn]struct{}
	// counters are the sums of the counters of the connections that have ended. baseline holds the
	// values at the last "stats reset".
	counters counters
	baseline baseline
	// ticking is closed to stop the goroutine that checks timeouts. It is nil while the goroutine
	// does not run.
	ticking chan struct{}

	serving sync.WaitGroup
}

// New returns a server of a cache. Closing the server does not close the cache, and closing the
// cache does not close the server.
func New(cache *larder.Cache, options Options) *Server {
	s := newServer(own.EngineOf(cache), options)
	s.cache, s.change = cache, own.ChangesOf(cache)
	return s
}

// newServer returns a server of an engine.
func newServer(e *engine.Engine, options Options) *Server {
	return &Server{
		engine: e, options: options.withDefaults(), started: time.Now(),
		change:    func(string) {},
		drained:   make(chan struct{}),
		listeners: map[uint64]net.Listener{}, conns: map[*conn]struct{}{},
	}
}

// Serve accepts connections until the listener fails, or until Shutdown or Close, and closes the
// listener. Each connection has a goroutine. Serve may be called with several listeners; a listener
// of [tls.NewListener] serves TLS. Serve always returns an error: after Shutdown and Close it is
// [ErrServerClosed].
func (s *Server) Serve(listener net.Listener) error {
	defer listener.Close()
	number, isOpen := s.addListener(listener)
	if !isOpen {
		return ErrServerClosed
	}
	defer s.removeListener(number)
	err := accept.Loop(listener, s.drained, func(socket net.Conn) {
		if c := s.admit(socket); c != nil {
			go c.run()
		}
	})
	if err == nil {
		err = ErrServerClosed
	}
	return err
}

// addListener returns false if the server is closed.
func (s *Server) addListener(listener net.Listener) (number uint64, isOpen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining.Load() {
		return 0, false
	}
	s.numbers++
	s.listeners[s.numbers] = listener
	return s.numbers, true
}

func (s *Server) removeListener(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, number)
}

// admit registers a connection. If there are too many connections, it responds as memcached does,
// closes the connection and returns nil.
func (s *Server) admit(socket net.Conn) *conn {
	s.mu.Lock()
	isFull := len(s.conns) >= s.options.MaxConns
	if isFull || s.isDraining.Load() {
		s.mu.Unlock()
		if isFull {
			s.refuse(socket)
		}
		_ = socket.Close()
		return nil
	}
	defer s.mu.Unlock()
	s.accepted.Add(1)
	c := newConn(s, socket)
	s.numbers++
	c.number = s.numbers
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	if s.ticking == nil {
		s.ticking = make(chan struct{})
		s.now.Store(int64(time.Since(s.started)))
		go s.tickUntil(s.ticking)
	}
	return c
}

func (s *Server) refuse(socket net.Conn) {
	s.rejected.Add(1)
	if _, isTLS := socket.(*tls.Conn); isTLS {
		// The client of a TLS connection expects a handshake before the message. Serve does not wait for
		// it, so close the connection without a message.
		return
	}
	_ = socket.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = socket.Write([]byte("ERROR Too many open connections\r\n"))
}

// release removes a connection that has ended.
func (s *Server) release(c *conn) {
	_ = c.socket.Close()
	s.held.Add(-c.held.Swap(0))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.counters.add(&c.counters)
	if len(s.conns) == 0 && s.ticking != nil {
		close(s.ticking)
		s.ticking = nil
	}
	s.serving.Done()
}

// Shutdown closes the listeners and the idle connections. It waits until the other connections have
// completed the requests that have arrived, also in part. When ctx ends, it closes them and returns
// the error of ctx. The cache stays open.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain(false)
	done := make(chan struct{})
	go func() {
		s.await()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.drain(true)
		<-done
		return ctx.Err()
	}
}

// Close closes the listeners and all connections, and waits for their goroutines. The cache stays
// open.
func (s *Server) Close() error {
	s.drain(true)
	s.await()
	return nil
}

// await waits for the connections to end. Only then does it cancel a flush_all with a delay,
// because a request during the wait may have begun one.
func (s *Server) await() {
	s.serving.Wait()
	s.clearing.cancel()
}

// drain ends the server. Connections end after the current request, or immediately if atOnce is
// true.
func (s *Server) drain(atOnce bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isDraining.Swap(true) {
		close(s.drained)
	}
	for _, listener := range s.listeners {
		_ = listener.Close()
	}
	for c := range s.conns {
		switch {
		case atOnce:
			c.abort()
		case c.activity.Load().phase() == idle:
			// The deadline ends the read in which the connection waits. If a request has arrived since
			// activity was loaded, the connection executes it first.
			_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		}
	}
}
