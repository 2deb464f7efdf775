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

// use lets f talk to the server. It asks once more on a new connection if one that was idle turns out to be closed and
// it makes no difference whether the server has been asked already.
func (n *node) use(ctx context.Context, c *Client, repeatable bool, f func(*conn) error) error {
	cn, reused, err := n.take(ctx, c)
	if err != nil {
		return err
	}
	err = n.talk(ctx, c, cn, f)
	if !reused || !hungUp(err) {
		return n.judge(ctx, c, err)
	}
	// Who hung up on one has hung up on all.
	n.close()
	if !repeatable {
		return &FaultError{Server: n.addr, Err: err}
	}
	if cn, err = n.open(ctx, c); err != nil {
		return err
	}
	return n.judge(ctx, c, n.talk(ctx, c, cn, f))
}

// talk has f talk on a connection and takes it back.
func (n *node) talk(ctx context.Context, c *Client, cn *conn, f func(*conn) error) error {
	undisturbed, err := cn.within(ctx, time.Now().Add(c.timeout()), func() error { return f(cn) })
	inStep := keepsStep(err)
	n.mu.Lock()
	if inStep {
		n.failures, n.downUntil, n.lastErr = 0, time.Time{}, nil
	}
	keep := inStep && undisturbed && cn.generation == n.generation && len(n.idle) < c.maxIdleConns()
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
func (n *node) judge(ctx context.Context, c *Client, err error) error {
	if keepsStep(err) {
		return err
	}
	// Who does not want to wait any longer says nothing about the server.
	if isOver(ctx) == nil {
		n.failed(c, err, failuresUntilDown)
	}
	var reply *ReplyError
	if errors.As(err, &reply) {
		return err
	}
	return &FaultError{Server: n.addr, Err: err}
}

// take takes an idle connection or opens one.
func (n *node) take(ctx context.Context, c *Client) (cn *conn, reused bool, err error) {
	if err := isOver(ctx); err != nil {
		return nil, false, &FaultError{Server: n.addr, Err: err}
	}
	n.mu.Lock()
	err = n.down(c)
	if last := len(n.idle) - 1; err == nil && last >= 0 {
		cn = n.idle[last]
		n.idle[last] = nil
		n.idle = n.idle[:last]
	}
	n.mu.Unlock()
	if err != nil || cn != nil {
		return cn, true, err
	}
	cn, err = n.open(ctx, c)
	return cn, false, err
}

func (n *node) open(ctx context.Context, c *Client) (*conn, error) {
	n.mu.Lock()
	generation, protocol := n.generation, c.options.Protocol
	if n.textOnly && protocol == ProtocolAuto {
		protocol = ProtocolText
	}
	n.mu.Unlock()
	cn, err := c.dial(ctx, n.addr, protocol)
	if errors.Is(err, errHungUpOnMeta) {
		if cn, err = c.dial(ctx, n.addr, ProtocolText); err == nil {
			n.mu.Lock()
			n.textOnly = true
			n.mu.Unlock()
		}
	}
	if err != nil {
		if isOver(ctx) == nil {
			n.failed(c, err, 1)
		}
		return nil, err
	}
	cn.generation = generation
	return cn, nil
}

// down says whether the server is left alone. When its time is over one is let through, and the others have to wait
// until that one is back. The caller has the lock.
func (n *node) down(c *Client) error {
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
func (n *node) failed(c *Client, err error, limit int) {
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
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
