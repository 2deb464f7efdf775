package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// serverConn is a connection of a [Server]. Its reads flush the responses first: pipelined commands
// thus share one write, and no client waits for a response in the buffer.
type serverConn struct {
	net.Conn
	server *Server
	r      *Reader
	w      *Writer
	// hasDeadline is true while a read deadline is set. isPartial is true while that is the deadline
	// of a command of which a part has arrived.
	hasDeadline, isPartial bool

	mu sync.Mutex
	// isIdle is true while the connection waits for a command.
	isIdle bool
}

func newServerConn(s *Server, socket net.Conn) *serverConn {
	c := &serverConn{Conn: socket, server: s, w: NewWriter(socket)}
	c.r = NewReader(c, s.MaxMessageBytes)
	if timeout := orDefault(s.WriteTimeout, DefaultWriteTimeout); timeout > 0 {
		c.w.deadline = &writeDeadline{conn: socket, timeout: timeout}
	}
	return c
}

// run serves the connection until its end.
func (c *serverConn) run() error {
	defer c.server.open.remove(c)
	defer c.Close()
	request := new(Request)
	for {
		err := c.r.Read(request)
		// The timeout of the next command starts at its first byte.
		c.isPartial = false
		switch {
		case err == io.EOF:
			return c.w.Flush()
		case err != nil:
			if !c.w.respondToError(request, err) {
				_ = c.w.Flush()
				return err
			}
		case request.quits():
			c.w.quit(request)
			return c.w.Flush()
		default:
			c.server.Handler.Answer(c.w, request)
		}
		if c.w.err != nil {
			return c.w.err
		}
	}
}

// Read reads more of the commands. After a shutdown it reads no new command and returns io.EOF.
func (c *serverConn) Read(b []byte) (int, error) {
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	isIdle := c.r.Buffered() == 0 && c.r.skip == 0
	if !c.beginRead(isIdle) {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b)
	if isIdle {
		c.mu.Lock()
		c.isIdle = false
		c.mu.Unlock()
		if n == 0 && err != nil && c.server.open.isDraining() {
			err = io.EOF
		}
	}
	return n, err
}

// beginRead sets the deadline of a read. It returns false if the connection should not read any
// more.
func (c *serverConn) beginRead(isIdle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Set isIdle before the check of isDraining. Shutdown does the opposite: it begins to drain and
	// then reads isIdle. So either this connection notices the shutdown, or Shutdown ends this read.
	c.isIdle = isIdle
	if isIdle && c.server.open.isDraining() {
		return false
	}
	timeout := c.server.IdleTimeout
	if !isIdle {
		timeout = orDefault(c.server.ReadTimeout, DefaultReadTimeout)
	}
	switch {
	case !isIdle && c.isPartial:
		// The timeout starts at the first byte of the command.
	case timeout > 0:
		_ = c.SetReadDeadline(time.Now().Add(timeout))
		c.hasDeadline = true
	case c.hasDeadline:
		_ = c.SetReadDeadline(time.Time{})
		c.hasDeadline = false
	}
	c.isPartial = !isIdle
	return true
}

// endIdle ends the wait for a command.
func (c *serverConn) endIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

// openConns are the connections and listeners of a [Server].
type openConns struct {
	// running counts the connections.
	running sync.WaitGroup

	// draining is true after the beginning of Shutdown. It is stored with mu held, and loaded before
	// each wait for a command.
	draining atomic.Bool

	mu    sync.Mutex
	conns map[*serverConn]struct{}
	// atDrains are the functions that drain calls to end the calls of Serve.
	atDrains map[*func()]struct{}
}

var errTooManyConns = errors.New("wire: too many open connections")

func (o *openConns) add(c *serverConn, connsMax int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.draining.Load():
		return ErrServerClosed
	case len(o.conns) >= connsMax:
		return errTooManyConns
	}
	if o.conns == nil {
		o.conns = map[*serverConn]struct{}{}
	}
	o.conns[c] = struct{}{}
	o.running.Add(1)
	return nil
}

func (o *openConns) remove(c *serverConn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, c)
	o.running.Done()
}

// atDrain registers f, which drain calls unless forget was called before. It returns false if drain
// was already called.
func (o *openConns) atDrain(f func()) (forget func(), isOpen bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.draining.Load() {
		return nil, false
	}
	if o.atDrains == nil {
		o.atDrains = map[*func()]struct{}{}
	}
	o.atDrains[&f] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.atDrains, &f)
	}, true
}

func (o *openConns) isDraining() bool { return o.draining.Load() }

// drain ends the calls of Serve, and the connections that wait for a command.
func (o *openConns) drain() {
	o.mu.Lock()
	o.draining.Store(true)
	var conns []*serverConn
	for c := range o.conns {
		conns = append(conns, c)
	}
	for f := range o.atDrains {
		(*f)()
	}
	o.mu.Unlock()
	for _, c := range conns {
		c.endIdle()
	}
}

func (o *openConns) closeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.conns {
		_ = c.Close()
	}
}
