package client

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// node is a server: its idle connections, and whether it is to be left alone.
type node struct {
	addr net.Addr
	// local is nil where the server's memory cannot be read.
	local *local
	// inUse has a place for each connection that may be in use; it is nil if any number may.
	inUse chan struct{}

	mu   sync.Mutex
	idle []*conn
	// generation is one higher each time all connections are to go. Those in use go when they come back.
	generation int
	// failures are those since something last went well. Until downUntil nobody but the first after it is let through.
	failures  int
	downUntil time.Time
	lastErr   error
	// textOnly says that the server hangs up when it is asked for the meta protocol. It is forgotten when something
	// goes wrong: the next server at this address may be another one.
	textOnly bool
}

// So many timeouts or broken connections in a row are needed for a server to be left alone. One refusal is enough.
const failuresUntilDown = 3

func (c *Client) newNode(addr net.Addr) *node {
	n := &node{addr: addr, local: c.localOf(addr)}
	if c.options.MaxConns > 0 {
		n.inUse = make(chan struct{}, c.options.MaxConns)
	}
	return n
}

// use lets f talk to the server. It asks once more on a new connection if one that was idle turns out to be closed, and
// either the request changes nothing, or no byte of it has been written.
func (n *node) use(ctx context.Context, c *Client, repeatable bool, f func(*conn) error) error {
	if err := n.acquire(ctx, c); err != nil {
		return err
	}
	defer n.release()
	cn, reused, err := n.takeConn(ctx, c, !repeatable)
	if err != nil {
		return err
	}
	before := cn.w.Written()
	err = n.run(ctx, c, cn, f)
	if !reused || !closedByPeer(err) {
		return n.classify(ctx, c, err)
	}
	// Who hung up on one has hung up on all.
	n.close()
	if !repeatable && cn.w.Written() != before {
		return &FaultError{Server: n.addr, Err: err}
	}
	// It may be another server that is there now.
	if cn, err = n.open(ctx, c, true); err != nil {
		return err
	}
	return n.classify(ctx, c, n.run(ctx, c, cn, f))
}

// enter waits until there may be one more connection in use. The total is bounded by that, for new ones are opened only
// where none is idle.
func (n *node) acquire(ctx context.Context, c *Client) error {
	if n.inUse == nil {
		return nil
	}
	select {
	case n.inUse <- struct{}{}:
		return nil
	default:
	}
	timeout := time.NewTimer(c.timeout())
	defer timeout.Stop()
	select {
	case n.inUse <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &FaultError{Server: n.addr, Err: ctx.Err()}
	case <-timeout.C:
		return &FaultError{Server: n.addr, Err: ErrBusy}
	}
}

func (n *node) release() {
	if n.inUse != nil {
		<-n.inUse
	}
}

// talk has f talk on a connection and takes it back.
func (n *node) run(ctx context.Context, c *Client, cn *conn, f func(*conn) error) error {
	usable, err := cn.runUntil(ctx, time.Now().Add(c.timeout()), func() error { return f(cn) })
	keepable := keepsConn(err)
	n.mu.Lock()
	if keepable {
		n.failures, n.downUntil, n.lastErr = 0, time.Time{}, nil
	}
	keep := keepable && usable && cn.generation == n.generation && len(n.idle) < c.maxIdleConns()
	if keep {
		n.idle = append(n.idle, cn)
	}
	n.mu.Unlock()
	if !keep {
		cn.Close()
	}
	return err
}

// judge says what an error means: for the server, and for the caller.
func (n *node) classify(ctx context.Context, c *Client, err error) error {
	if keepsConn(err) {
		return err
	}
	// Who does not want to wait any longer says nothing about the server.
	if contextError(ctx) == nil {
		n.recordFailure(c, err, failuresUntilDown)
	}
	var reply *ReplyError
	if errors.As(err, &reply) {
		return err
	}
	return &FaultError{Server: n.addr, Err: err}
}

// take takes an idle connection or opens one. With mustLive it leaves out those that the server has closed, which costs
// a system call.
func (n *node) takeConn(ctx context.Context, c *Client, mustBeOpen bool) (cn *conn, reused bool, err error) {
	if err := contextError(ctx); err != nil {
		return nil, false, &FaultError{Server: n.addr, Err: err}
	}
	n.mu.Lock()
	err = n.checkDown(c)
	if err == nil {
		cn = n.popIdle()
	}
	n.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	if cn != nil && mustBeOpen && !cn.alive.check() {
		// A server that hung up on one hung up on all.
		cn.Close()
		n.close()
		cn = nil
	}
	isDue := n.local.isDue()
	if cn != nil && !isDue {
		return cn, true, nil
	}
	if cn != nil {
		// Whose memory is read is found out with a new one.
		cn.Close()
	}
	cn, err = n.open(ctx, c, isDue)
	return cn, false, err
}

// pop takes an idle connection; nil where there is none. Under the lock.
func (n *node) popIdle() (cn *conn) {
	if last := len(n.idle) - 1; last >= 0 {
		cn = n.idle[last]
		n.idle[last] = nil
		n.idle = n.idle[:last]
	}
	return cn
}

// open opens a connection, and looks whether the server's memory can be read if that is due.
func (n *node) open(ctx context.Context, c *Client, isDue bool) (*conn, error) {
	n.mu.Lock()
	generation, protocol := n.generation, c.options.Protocol
	if n.textOnly && protocol == ProtocolAuto {
		protocol = ProtocolText
	}
	n.mu.Unlock()
	cn, err := c.dial(ctx, n.addr, protocol)
	if errors.Is(err, errClosedOnMeta) {
		if cn, err = c.dial(ctx, n.addr, ProtocolText); err == nil {
			n.mu.Lock()
			n.textOnly = true
			n.mu.Unlock()
		}
	}
	if err != nil {
		if contextError(ctx) == nil {
			n.recordFailure(c, err, 1)
		}
		return nil, err
	}
	cn.generation = generation
	if n.local != nil && n.local.verify(ctx, isDue, func() bool { return n.isCurrent(generation) }) {
		cn.generation = n.nextGeneration(generation)
	}
	return cn, nil
}

func (n *node) isCurrent(generation int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.generation == generation
}

// renew has all connections of a generation go but the one that calls, and returns the next one. Where they are to go
// already, that one has to as well.
func (n *node) nextGeneration(generation int) int {
	n.mu.Lock()
	if n.generation != generation {
		n.mu.Unlock()
		return generation
	}
	n.generation++
	old := n.idle
	n.idle = nil
	n.mu.Unlock()
	closeAll(old)
	return generation + 1
}

// down says whether the server is left alone. When its time is over one is let through, and the others have to wait
// until that one is back. The caller has the lock.
func (n *node) checkDown(c *Client) error {
	if n.downUntil.IsZero() {
		return nil
	}
	now := time.Now()
	if now.Before(n.downUntil) {
		return &DownError{Server: n.addr, Until: n.downUntil, Err: n.lastErr}
	}
	n.downUntil = now.Add(2 * c.timeout())
	return nil
}

// failed notes that the server has not answered. With the limit-th failure in a row it is left alone, for twice as long with each
// further one, and not by all clients for the same time.
func (n *node) recordFailure(c *Client, err error, limit int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures++
	n.lastErr, n.textOnly = err, false
	if n.failures < limit || c.options.BackoffMin < 0 {
		return
	}
	wait, most := c.backoff()
	for range n.failures - limit {
		if wait >= most {
			break
		}
		wait *= 2
	}
	wait = min(wait, most)
	n.downUntil = time.Now().Add(wait/2 + rand.N(wait/2+1))
}

// close closes idle connections now and those in use when they come back.
func (n *node) close() error {
	n.mu.Lock()
	n.generation++
	old := n.idle
	n.idle = nil
	n.mu.Unlock()
	return closeAll(old)
}

func closeAll(conns []*conn) (first error) {
	for _, cn := range conns {
		if err := cn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}

// hungUp says whether the other side had closed the connection before it could be asked.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
