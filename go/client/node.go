package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// node is a server, its idle connections and its backoff.
type node struct {
	addr net.Addr
	// local is nil if the server's memory cannot be read.
	local *local
	// inUse contains an element for each connection in use. Its capacity is Options.MaxConns; it is
	// nil if the number is unlimited.
	inUse chan struct{}

	mu sync.Mutex
	// idle are the idle connections, in the order of their last use.
	idle []*conn
	// reaper closes connections that stay idle. It is nil while no connection is idle.
	reaper *time.Timer
	// hasLeft is true if the server was removed from the list.
	hasLeft bool
	// generation increases when all connections become invalid. A connection of an older generation
	// that is in use is closed when its operation ends.
	generation int
	// failures counts the failures since the last success. The client sends no request before
	// downUntil; then one request probes the server.
	failures  int
	downUntil time.Time
	lastErr   error
	// textOnly is true if the server closes connections on meta commands. A failure resets it,
	// because another server may take over the address.
	textOnly bool
}

// failuresUntilDown is the number of consecutive timeouts or broken connections before backoff
// begins. If a connection cannot be opened, backoff begins after one failure.
const failuresUntilDown = 3

func (c *Client) newNode(addr net.Addr) *node {
	n := &node{addr: addr, local: c.localOf(addr)}
	if c.options.MaxConns > 0 {
		n.inUse = make(chan struct{}, c.options.MaxConns)
	}
	return n
}

// use runs f on a connection. If an idle connection turns out to be closed, use retries once on a
// new connection, but only if the request changes nothing or no byte of it was written.
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
	// The peer has probably closed all idle connections, not only this one.
	n.close()
	if !repeatable && cn.w.Written() != before {
		return &FaultError{Server: n.addr, Err: err}
	}
	// Another server may have taken over the address, so request its memory now.
	if cn, err = n.open(ctx, c, true); err != nil {
		return err
	}
	return n.classify(ctx, c, n.run(ctx, c, cn, f))
}

// acquire waits until one more connection may be in use. This also limits the total number of
// connections, because an operation opens a connection only if none is idle.
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

// run runs f on a connection and returns the connection to the pool.
func (n *node) run(ctx context.Context, c *Client, cn *conn, f func(*conn) error) error {
	cn.usedAt = time.Now()
	usable, err := cn.runUntil(ctx, cn.usedAt.Add(c.timeout()), func() error { return f(cn) })
	keepable := keepsConn(err)
	n.mu.Lock()
	if keepable {
		n.failures, n.downUntil, n.lastErr = 0, time.Time{}, nil
	}
	keep := keepable && usable && !n.hasLeft && cn.generation == n.generation && len(n.idle) < c.maxIdleConns()
	if keep {
		n.idle = append(n.idle, cn)
		if timeout := c.idleTimeout(); n.reaper == nil && timeout > 0 {
			n.reaper = time.AfterFunc(timeout, func() { n.reap(timeout) })
		}
	}
	n.mu.Unlock()
	if !keep {
		cn.Close()
	}
	return err
}

// classify records an error that is a failure of the server, and returns the error that the caller
// of the client receives.
func (n *node) classify(ctx context.Context, c *Client, err error) error {
	if keepsConn(err) {
		return err
	}
	// If the caller's context has ended, the error is not a failure of the server.
	if contextError(ctx) == nil {
		n.recordFailure(c, err, failuresUntilDown)
	}
	var reply *ReplyError
	if errors.As(err, &reply) {
		return err
	}
	return &FaultError{Server: n.addr, Err: err}
}

// takeConn returns an idle connection or opens one. With mustBeOpen it checks whether the peer has
// closed an idle connection, which costs a system call.
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
		// The peer has probably closed all idle connections, not only this one.
		cn.Close()
		n.close()
		cn = nil
	}
	isDue := n.local.isDue()
	if cn != nil && !isDue {
		return cn, true, nil
	}
	if cn != nil {
		// The server's memory is requested only with a new connection, so do not use the idle one.
		cn.Close()
	}
	cn, err = n.open(ctx, c, isDue)
	return cn, false, err
}

// popIdle returns an idle connection, or nil. The caller holds the lock.
func (n *node) popIdle() (cn *conn) {
	if last := len(n.idle) - 1; last >= 0 {
		cn = n.idle[last]
		n.idle[last] = nil
		n.idle = n.idle[:last]
	}
	return cn
}

// open opens a connection and attaches to the server's memory if that is due.
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

// nextGeneration invalidates all connections of a generation except the caller's new connection,
// which should have the returned generation. If the generation has already changed since the caller
// opened its connection, that connection is also invalid, and nextGeneration returns the old
// generation.
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

// checkDown returns an error while the server is in backoff. After the backoff it allows one
// request, a probe, and moves the end of the backoff by twice the timeout. Until then other
// requests still fail, unless the probe succeeds and ends the backoff. The caller holds the lock.
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

// recordFailure counts a failure. After limit consecutive failures the server is in backoff. The
// backoff doubles with each further failure, and a part of it is random so that clients do not
// return at the same time.
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

// close closes idle connections immediately, and connections in use when they return.
func (n *node) close() error {
	n.mu.Lock()
	n.generation++
	old := n.idle
	n.idle = nil
	n.mu.Unlock()
	return closeAll(old)
}

// reap closes the connections that were idle for the timeout.
func (n *node) reap(timeout time.Duration) {
	n.mu.Lock()
	now, count := time.Now(), 0
	for count < len(n.idle) && now.Sub(n.idle[count].usedAt) >= timeout {
		count++
	}
	old := slices.Clone(n.idle[:count])
	n.idle = slices.Delete(n.idle, 0, count)
	if len(n.idle) > 0 {
		n.reaper.Reset(n.idle[0].usedAt.Add(timeout).Sub(now))
	} else {
		n.reaper = nil
	}
	n.mu.Unlock()
	_ = closeAll(old)
}

// leave closes the connections to a server that was removed from the list: the idle connections
// immediately, and the connections in use when they return.
func (n *node) leave() {
	n.mu.Lock()
	n.hasLeft = true
	n.mu.Unlock()
	_ = n.close()
	n.local.close()
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
