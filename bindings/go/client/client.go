package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// DefaultTimeout is how long an operation may take if nothing else is said.
	DefaultTimeout = 500 * time.Millisecond
	// DefaultMaxIdleConns is how many idle connections to a server are kept if nothing else is said. It is more than
	// gomemcache's two, which a program with more goroutines than that closes and opens all the time.
	DefaultMaxIdleConns = 16
	// DefaultMaxValueBytes is how long a value may be that is read, if nothing else is said.
	DefaultMaxValueBytes = 128 << 20
	// DefaultBackoffMin and DefaultBackoffMax bound how long a server is left alone that has failed.
	DefaultBackoffMin = 100 * time.Millisecond
	DefaultBackoffMax = 30 * time.Second
)

// Protocol is what a client speaks.
type Protocol int

// The protocols. ProtocolAuto asks on each new connection whether the server knows the meta protocol, and speaks text if
// not; keys are those that both can have.
const (
	ProtocolAuto Protocol = iota
	ProtocolMeta
	ProtocolText
	ProtocolBinary
)

// Failover is what happens to a key whose server cannot be reached or is left alone.
type Failover int

const (
	// FailoverError returns an error: a cache that is not there is a miss, and no key is at two servers.
	FailoverError Failover = iota
	// FailoverNext asks the next server in the order of the key. When the first one is back it has what it had before.
	FailoverNext
)

// Options are what can be chosen. The zero value of each is a sensible choice.
type Options struct {
	// Servers are "host:port", "[v6]:port" or the path of a unix socket.
	Servers []string
	// Weights are how much each server gets: all the same if there are none. HashModulo and HashRendezvous know none.
	Weights []int
	// Hashing says which server has which key.
	Hashing Hashing
	// Selector, if it is not nil, says so instead of Servers, Weights and Hashing. It knows no next server.
	Selector ServerSelector
	// Failover says what happens to the keys of a server that fails.
	Failover Failover

	// Timeout is how long an operation may take on its connection: DefaultTimeout if 0.
	Timeout time.Duration
	// DialTimeout is how long it may take to open one, TLS and login included: Timeout if 0.
	DialTimeout time.Duration
	// MaxIdleConns is how many idle connections to a server are kept: DefaultMaxIdleConns if 0, none if negative.
	MaxIdleConns int
	// MaxConns is how many connections there may be to a server: any number if 0. Who finds all in use waits for one, as
	// long as the context and Timeout allow, and gets ErrBusy then.
	MaxConns int
	// MaxValueBytes is how long a value may be that is read: DefaultMaxValueBytes if 0.
	MaxValueBytes int
	// BackoffMin is how long a server is left alone that cannot be connected to, or whose third answer in a row did not
	// come. The time is doubled with each further failure, up to BackoffMax. Half of it at least is waited; how much of
	// the rest is by chance, so that clients do not all come back at once.
	// DefaultBackoffMin and DefaultBackoffMax if 0; a negative BackoffMin leaves no server alone.
	BackoffMin, BackoffMax time.Duration

	// NoLocalReads has a larderd asked for everything. Else hits are found in its memory, without asking it, where Servers
	// name it by a unix socket and it was started with --local-readers; not with TLS, a Username or a DialContext. Other
	// servers are asked about it once in a while, and for everything.
	NoLocalReads bool
	// Protocol is what to speak.
	Protocol Protocol
	// Username and Password, if there is a user, are told on each new connection: by SASL's PLAIN in the binary
	// protocol, else by memcached's login for text.
	Username, Password string
	// TLS, if it is not nil, is how to encrypt connections. Without a ServerName the server's host is taken.
	TLS *tls.Config
	// DialContext opens a connection, if it is not nil, instead of net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client asks servers. It can be used by many goroutines at once. Its fields are to be set before its first use.
type Client struct {
	// DialContext opens a connection, if it is not nil, instead of net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout is how long an operation may take: DefaultTimeout if 0.
	Timeout time.Duration
	// MaxIdleConns is how many idle connections to a server are kept: DefaultMaxIdleConns if 0, none if negative. It
	// should be as many as there are operations at the same time.
	MaxIdleConns int

	options  Options
	selector ServerSelector
	invalid  error

	mu    sync.RWMutex
	nodes map[string]*node

	localReads counter
}

// New makes a client of servers: "host:port", "[v6]:port" or the path of a unix socket. A key is at the server at which
// gomemcache has it. Nothing is connected to yet; an address that is none is what each operation returns.
func New(servers ...string) *Client {
	list := new(ServerList)
	err := list.SetServers(servers...)
	c := NewFromSelector(list)
	c.invalid = err
	return c
}

// NewFromSelector makes a client of whatever says which server has which key.
func NewFromSelector(selector ServerSelector) *Client {
	return &Client{selector: selector, nodes: make(map[string]*node)}
}

// NewWithOptions makes a client. Nothing is connected to yet. The error says which option cannot be, and why.
func NewWithOptions(options Options) (*Client, error) {
	if options.Protocol < ProtocolAuto || options.Protocol > ProtocolBinary {
		return nil, fmt.Errorf("larder client: there is no Protocol %d", options.Protocol)
	}
	if options.Failover < FailoverError || options.Failover > FailoverNext {
		return nil, fmt.Errorf("larder client: there is no Failover %d", options.Failover)
	}
	if options.MaxConns < 0 {
		return nil, fmt.Errorf("larder client: MaxConns is %d; it should be 0, for any number, or more", options.MaxConns)
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
	return c, nil
}

// LocalReads is how many items have been found in the memory of servers without asking them.
func (c *Client) LocalReads() uint64 { return c.localReads.sum() }

// Close closes all connections: those in use when their operation has ended. The client can be used again, and opens
// new ones then.
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
	}
	return n
}

// pick is the node to ask for a key where those that come before it, tried of them, cannot be asked. Where there is no
// such node, err is nil and n too.
func (c *Client) pick(key string, tried int) (n *node, err error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	var addr net.Addr
	if list, ok := c.selector.(*ServerList); ok {
		addr, err = list.pick(key, tried)
	} else if tried == 0 {
		addr, err = c.selector.PickServer(key)
	}
	if err != nil || addr == nil {
		return nil, err
	}
	return c.node(addr), nil
}

// do asks the server of a key, and the next ones where that is wanted.
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

// goesOn says whether the next server is asked after such an error: only if this one has not been asked.
func (c *Client) triesNext(err error) bool {
	return c.options.Failover == FailoverNext && wasNotSent(err)
}

// each asks all servers, and returns the first error.
func (c *Client) each(ctx context.Context, v verb) error {
	if c.invalid != nil {
		return c.invalid
	}
	return c.selector.Each(func(addr net.Addr) error {
		o := operation{verb: v}
		return c.node(addr).use(ctx, c, v.repeatable(), func(cn *conn) error { return cn.do(&o) })
	})
}
