package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

// wantOutcome fails the test unless err is want itself: gomemcache's users compare outcomes with
// ==.
func wantOutcome(t testing.TB, err, want error) {
	t.Helper()
	if err != want {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// wantErrorAs reports an error if err has no E in its chain, and returns it otherwise.
func wantErrorAs[E error](t testing.TB, err error) (as E) {
	t.Helper()
	if !errors.As(err, &as) {
		t.Errorf("error %v (%T), want a %T", err, err, as)
	}
	return as
}

// wantValue reads an item, and fails the test if its value is not want.
func wantValue(t testing.TB, c *Client, key, want string) *Item {
	t.Helper()
	item, err := c.Get(key)
	if err != nil {
		t.Fatalf("Get(%q): %v", key, err)
	}
	if string(item.Value) != want || item.Key != key {
		t.Fatalf("Get(%q) = %q with key %q, want %q", key, item.Value, item.Key, want)
	}
	return item
}

// freePort returns a loopback address with a free port.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// newClient returns a client that is closed at the end of the test.
func newClient(t testing.TB, options Options) *Client {
	t.Helper()
	if options.Timeout == 0 {
		// The machine may be loaded.
		options.Timeout = 5 * time.Second
	}
	c, err := NewWithOptions(options)
	check.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// forEachServer runs a test in each protocol on each server, and on a server with local reads.
func forEachServer(t *testing.T, test func(t *testing.T, c *Client)) {
	for _, server := range [][]string{{"larderd"}, localLarderd, {"memcached"}} {
		t.Run(strings.Join(server, " "), func(t *testing.T) {
			socket := testserver.Start(t, server[0], server[1:]...)
			for protocol, name := range []string{"auto", "meta", "text", "binary"} {
				t.Run(name, func(t *testing.T) {
					c := newClient(t, Options{Servers: []string{socket}, Protocol: Protocol(protocol)})
					check.NoError(t, c.FlushAll())
					test(t, c)
				})
			}
		})
	}
}

// localLarderd is the command line of a larderd that lets this user read its memory.
var localLarderd = []string{"larderd", "--local-readers=same-uid"}

// fakeServer starts a server that calls serve for each connection, and returns its address.
func fakeServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				serve(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		cancel()
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// dialCounter counts the open connections and all connections that were ever opened.
type dialCounter struct {
	open, dialed chan int
}

func newDialCounter() *dialCounter {
	c := &dialCounter{make(chan int, 1), make(chan int, 1)}
	c.open <- 0
	c.dialed <- 0
	return c
}

// addTo adds n to a counter and returns the sum.
func addTo(counter chan int, n int) int {
	sum := <-counter + n
	counter <- sum
	return sum
}

func (c *dialCounter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	addTo(c.open, 1)
	addTo(c.dialed, 1)
	return &counted{Conn: conn, counter: c}, nil
}

type counted struct {
	net.Conn
	counter *dialCounter
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	if err == nil {
		addTo(c.counter.open, -1)
	}
	return err
}

// testKeys returns n keys.
func testKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key:%d", i)
	}
	return keys
}

// newCountedClient returns a client with a short timeout that counts its connections.
func newCountedClient(t *testing.T, options Options, servers ...string) (*Client, *dialCounter) {
	t.Helper()
	connections := newDialCounter()
	options.Servers, options.DialContext = servers, connections.dial
	if options.Timeout == 0 {
		options.Timeout = 200 * time.Millisecond
	}
	return newClient(t, options), connections
}

// wantOpen reports an error if another number of connections is open.
func wantOpen(t *testing.T, c *dialCounter, want int) {
	t.Helper()
	check.Equal(t, "open connections", addTo(c.open, 0), want)
}

// request sends a request on a new connection, and returns the first line of the response.
func request(t testing.TB, socket, request string) string {
	t.Helper()
	conn, lines := sendTo(t, socket, request)
	defer conn.Close()
	line, err := lines.ReadString('\n')
	check.NoError(t, err)
	return line
}

// statOf returns a number from a server's statistics.
func statOf(t testing.TB, socket, name string) (number int) {
	t.Helper()
	conn, lines := sendTo(t, socket, "stats\r\n")
	defer conn.Close()
	for {
		line, err := lines.ReadString('\n')
		check.NoError(t, err)
		if line == "END\r\n" {
			return number
		}
		fmt.Sscanf(line, "STAT "+name+" %d", &number)
	}
}

func connectionsOf(t testing.TB, socket string) int { return statOf(t, socket, "total_connections") }

// sendTo sends a request on a new connection, and returns the connection.
func sendTo(t testing.TB, socket, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	check.NoError(t, err)
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = conn.Write([]byte(request))
	check.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// replyWith returns a server that sends the same response to every line.
func replyWith(response string) func(net.Conn) {
	return func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
			io.WriteString(conn, response)
		}
	}
}

// serveTextOnly is a server without the meta protocol that has the value v for each key.
func serveTextOnly(conn net.Conn) { serveText(conn, "ERROR\r\n") }

// serveAndHangUp closes the connection on unknown commands, as routers do.
func serveAndHangUp(conn net.Conn) { serveText(conn, "") }

func serveText(conn net.Conn, unknown string) {
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch {
		case words[0] == "gets" || words[0] == "gats":
			fmt.Fprintf(conn, "VALUE %s 0 1 1\r\nv\r\nEND\r\n", words[len(words)-1])
		case unknown == "":
			return
		default:
			fmt.Fprint(conn, unknown)
		}
	}
}
