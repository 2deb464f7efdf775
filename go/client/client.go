package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultTimeout limits an operation if Client.Timeout is 0.
	DefaultTimeout = 500 * time.Millisecond
	// DefaultMaxIdleConns is the number of idle connections kept per server if Client.MaxIdleConns is
	// 0. gomemcache keeps two by default; then a program with more goroutines constantly closes and
	// opens connections.
	DefaultMaxIdleConns = 16
	// DefaultIdleTimeout is the time after which an idle connection is closed if
	// Options.IdleTimeout is 0.
	DefaultIdleTimeout = 5 * time.Minute
	// DefaultMaxValueBytes limits the size of a value that is read if Options.MaxValueBytes is 0.
	DefaultMaxValueBytes = 128 << 20
	// DefaultBackoffMin and DefaultBackoffMax bound the backoff, the time in which the client sends no
	// requests to a server that has failed.
	DefaultBackoffMin = 100 * time.Millisecond
	DefaultBackoffMax = 30 * time.Second
)

// Protocol selects the protocol of a client.
type Protocol int

// The protocols. ProtocolAuto detects on each new connection whether the server supports the meta
// protocol, and otherwise uses the text protocol. It accepts only keys that are valid in both.
const (
	ProtocolAuto Protocol = iota
	ProtocolMeta
	ProtocolText
	ProtocolBinary
)

// Failover selects what happens to a key whose server is unreachable or in backoff.
type Failover int

const (
	// FailoverError returns an error. No key is ever stored on two servers.
	FailoverError Failover = iota
	// FailoverNext uses the next server for the key. Beware of old values: when the first server is
	// reachable again, it may still have the items from before its failure.
	FailoverNext
)

// Options configure a client. The zero value of each field is a sensible default.
type Options struct {
	// Servers are "host:port", "[v6]:port" or the path of a unix socket.
	Servers []string
	// Weights are the relative shares of the servers; equal if empty. HashModulo and HashRendezvous
	// do not support them.
	Weights []int
	// Hashing selects the distribution of keys to servers.
	Hashing Hashing
	// Selector, if not nil, replaces Servers, Weights and Hashing. It does not support
	// FailoverNext.
	Selector ServerSelector
	// Failover selects what happens to the keys of a failed server.
	Failover Failover

	// Timeout limits an operation on its connection: DefaultTimeout if 0.
	Timeout time.Duration
	// DialTimeout limits the opening of a connection, including TLS and login: Timeout if 0.
	DialTimeout time.Duration
	// MaxIdleConns is the number of idle connections kept per server: DefaultMaxIdleConns if 0, none
	// if negative.
	MaxIdleConns int
	// IdleTimeout closes connections that were idle for this time: DefaultIdleTimeout if 0, never if
	// negative. Connections to a server that was removed from the list are closed immediately.
	IdleTimeout time.Duration
	// MaxConns limits the connections per server; unlimited if 0. If all are in use, an operation
	// waits for one until the context ends, or returns ErrBusy after Timeout.
	MaxConns int
	// MaxValueBytes limits the size of a value that is read: DefaultMaxValueBytes if 0.
	MaxValueBytes int
	// BackoffMin is the backoff after a failed connection attempt, or after the third failed
	// response in a row. It doubles with each further failure, up to BackoffMax. The second half of
	// each pause is random, so that clients do not return at the same time. DefaultBackoffMin and
	// DefaultBackoffMax if 0; a negative BackoffMin disables backoff.
	BackoffMin, BackoffMax time.Duration

	// NoLocalReads disables local reads: hits that the client reads directly from the memory of a
	// larderd on the same machine. By default the client uses them for a server in Servers that is a
	// unix socket of a larderd with --local-readers, unless TLS, Username or DialContext is set. If a
	// server with a unix socket refuses to share its memory, the client requests it again from time to
	// time.
	NoLocalReads bool
	// Protocol selects the protocol.
	Protocol Protocol
	// Username and Password authenticate each new connection if Username is not empty. The binary
	// protocol uses SASL PLAIN; the others use memcached's login for the text protocol.
	Username, Password string
	// TLS, if not nil, encrypts the connections. An empty ServerName defaults to the host of the
	// server.
	TLS *tls.Config
	// DialContext, if not nil, opens connections instead of net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client is a memcached client. It is safe for concurrent use. Set its fields before the first use.
type Client struct {
	// DialContext, if not nil, opens connections instead of net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout limits an operation: DefaultTimeout if 0.
	Timeout time.Duration
	// MaxIdleConns is the number of idle connections kept per server: DefaultMaxIdleConns if 0,
	// none if negative. It should match the number of concurrent operations.
	MaxIdleConns int

	options  Options
	selector ServerSelector
	invalid  error

	// mu guards nodes and login.
	mu    sync.RWMutex
	nodes map[string]*node
	login *login
	// changes is the value of ServerList.changes when the client last searched the list for removed
	// servers.
	changes atomic.Uint64

	localReads counter
}

// New returns a client of servers: "host:port", "[v6]:port" or the path of a unix socket. It
// distributes keys as gomemcache does. It opens no connection; if an address is invalid, every
// operation returns the error.
func New(servers ...string) *Client {
	list := new(ServerList)
	err := list.SetServers(servers...)
	c := NewFromSelector(list)
	c.invalid = err
	return c
}

// NewFromSelector returns a client whose selector maps keys to servers.
func NewFromSelector(selector ServerSelector) *Client {
	return &Client{selector: selector, nodes: make(map[string]*node)}
}

// NewWithOptions returns a client. It opens no connection. The error names the invalid option.
func NewWithOptions(options Options) (*Client, error) {
	if options.Protocol < ProtocolAuto || options.Protocol > ProtocolBinary {
		return nil, fmt.Errorf("larder client: invalid Protocol %d", options.Protocol)
	}
	if options.Failover < FailoverError || options.Failover > FailoverNext {
		return nil, fmt.Errorf("larder client: invalid Failover %d", options.Failover)
	}
	if options.MaxConns < 0 {
		return nil, fmt.Errorf("larder client: invalid MaxConns %d: want 0, for no limit, or more", options.MaxConns)
	}
	selector := options.Selector
	if selector == nil {
		list := &ServerList{Hashing: options.Hashing}
		if err := list.SetWeighted(options.Servers, options.Weights); err != nil {
			return nil, err
		}
		selector = list
	}
	c := NewFromSelector(selector)
	c.DialContext, c.Timeout, c.MaxIdleConns, c.options = options.DialContext, options.Timeout, options.MaxIdleConns, options
	if options.Username != "" {
		c.login = &login{options.Username, options.Password}
	}
	return c, nil
}

// LocalReads returns the number of items that the client has read directly from the memory of
// servers.
func (c *Client) LocalReads() uint64 { return c.localReads.sum() }

// Close closes the idle connections immediately, and the connections in use when their operations
// end. The client remains usable and opens new connections on demand.
func (c *Client) Close() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var first error
	for _, n := range c.nodes {
		if err := n.close(); err != nil && first == nil {
			first = err
		}
		n.local.close()
	}
	return first
}

func (c *Client) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return DefaultTimeout
}

func (c *Client) maxIdleConns() int {
	if c.MaxIdleConns == 0 {
		return DefaultMaxIdleConns
	}
	return c.MaxIdleConns
}

// idleTimeout returns the time after which an idle connection is closed; 0 for never.
func (c *Client) idleTimeout() time.Duration {
	if c.options.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return max(c.options.IdleTimeout, 0)
}

func (c *Client) maxValueBytes() int {
	if c.options.MaxValueBytes > 0 {
		return c.options.MaxValueBytes
	}
	return DefaultMaxValueBytes
}

func (c *Client) backoff() (least, most time.Duration) {
	least, most = c.options.BackoffMin, c.options.BackoffMax
	if least == 0 {
		least = DefaultBackoffMin
	}
	if most == 0 {
		most = DefaultBackoffMax
	}
	return least, most
}

func (c *Client) dialContext() func(ctx context.Context, network, address string) (net.Conn, error) {
	if c.DialContext != nil {
		return c.DialContext
	}
	return new(net.Dialer).DialContext
}

func (c *Client) node(addr net.Addr) *node {
	name := addr.String()
	c.mu.RLock()
	n := c.nodes[name]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.nodes[name]; n == nil {
		n = c.newNode(addr)
		c.nodes[name] = n
		if _, ok := c.selector.(*ServerList); !ok {
			// A ServerList counts its changes, other selectors do not. If such a selector returns a server
			// for the first time, it may have changed, so search it for removed servers.
			c.removeFormer(name)
		}
	}
	return n
}

// removeFormer closes the connections to servers that the selector no longer lists. wanted is a
// server that the selector has just returned. If its method Each does not list that server, Each is
// not a complete list, and removeFormer does nothing. The caller holds mu.
func (c *Client) removeFormer(wanted string) {
	names := map[string]bool{}
	err := c.selector.Each(func(addr net.Addr) error {
		names[addr.String()] = true
		return nil
	})
	if err != nil || wanted != "" && !names[wanted] {
		return
	}
	for name, n := range c.nodes {
		if !names[name] {
			delete(c.nodes, name)
			n.leave()
		}
	}
}

// follow closes the connections to servers that a list no longer has, if the list has changed.
func (c *Client) follow(list *ServerList) {
	changes := list.changes.Load()
	if c.changes.Swap(changes) != changes {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.removeFormer("")
	}
}

// pick returns the node to use for a key. tried is the number of nodes for the key that have failed
// already. It returns a nil node and a nil error if no nodes are left.
func (c *Client) pick(key string, tried int) (n *node, err error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	var addr net.Addr
	if list, ok := c.selector.(*ServerList); ok {
		if list.changes.Load() != c.changes.Load() {
			c.follow(list)
		}
		addr, err = list.pick(key, tried)
	} else if tried == 0 {
		addr, err = c.selector.PickServer(key)
	}
	if err != nil || addr == nil {
		return nil, err
	}
	return c.node(addr), nil
}

// do sends an operation to the server of its key, and on failure to the next servers if the options
// allow that.
func (c *Client) do(ctx context.Context, o *operation) error {
	if len(o.key) == 0 {
		return ErrMalformedKey
	}
	var failed error
	for tried := 0; ; tried++ {
		n, err := c.pick(o.key, tried)
		if err != nil {
			return err
		}
		if n == nil {
			return failed
		}
		if o.verb == verbGet {
			if o.item = n.local.read(ctx, c, o); o.item != nil {
				return nil
			}
		}
		failed = n.use(ctx, c, o.verb.repeatable(), func(cn *conn) error { return cn.do(o) })
		if !c.triesNext(failed) {
			return failed
		}
	}
}

// triesNext reports whether to try the next server after an error: only if the request was not
// sent.
func (c *Client) triesNext(err error) bool {
	return c.options.Failover == FailoverNext && wasNotSent(err)
}

// each sends a request to all servers and returns the first error.
func (c *Client) each(ctx context.Context, v verb) error {
	if c.invalid != nil {
		return c.invalid
	}
	return c.selector.Each(func(addr net.Addr) error { return c.doAt(ctx, addr, &operation{verb: v}) })
}

// doAt sends an operation to a server.
func (c *Client) doAt(ctx context.Context, addr net.Addr, o *operation) error {
	return c.node(addr).use(ctx, c, o.verb.repeatable(), func(cn *conn) error { return cn.do(o) })
}
