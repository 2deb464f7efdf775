package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// equal reports an error of the form "what = got, want want" if the two differ.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantOutcome fails the test unless err is want itself: gomemcache's users compare outcomes with
// ==.
func wantOutcome(t testing.TB, err, want error) {
	t.Helper()
	if err != want {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// wantError reports an error if err does not match target.
func wantError(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
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

// wantValue gets an item, and fails the test if it has another value than want.
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

// waitUntil waits until a condition holds, and fails the test after 15 seconds.
func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for started := time.Now(); !condition(); time.Sleep(time.Millisecond) {
		if time.Since(started) > 15*time.Second {
			t.Fatalf("after 15 s still waiting: %s", what)
		}
	}
}

// checkGoroutineLeaks fails the test if more goroutines run after it, when its clients are closed,
// than before.
func checkGoroutineLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 100 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines, want at most %d:\n%s",
			runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	})
}

// program returns the path of a server's executable. Without one it skips the test, unless the
// environment names one or CI is set.
func program(t testing.TB, name string) string {
	t.Helper()
	path, advice := name, "run conformance/install.sh"
	isNamed := false
	if name == "larderd" {
		path, advice = os.Getenv("LARDERD"), "run `make build`, or set LARDERD"
		if isNamed = path != ""; !isNamed {
			path = "../../../target/release/larderd"
		}
	}
	found, err := exec.LookPath(path)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	switch {
	case err == nil:
	case isNamed, os.Getenv("CI") != "":
		t.Fatalf("%v: %s", err, advice)
	default:
		t.Skipf("%v: %s", err, advice)
	}
	return found
}

// startServer starts a server at a unix socket and returns its path. The server ends with the test.
func startServer(t testing.TB, name string, args ...string) (socket string) {
	t.Helper()
	socket = tempSocket(t)
	startServerAt(t, socket, name, args...)
	return socket
}

// tempSocket returns a path for a socket. Paths below t.TempDir may exceed the system's limit.
func tempSocket(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "larder")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	return filepath.Join(folder, "sock")
}

// startServerAt starts a server at a path that another one may have used.
func startServerAt(t testing.TB, socket, name string, args ...string) *exec.Cmd {
	t.Helper()
	server := runServer(t, name, append([]string{"-s", socket}, args...)...)
	waitForServer(t, "unix", socket)
	return server
}

// runServer starts a server process, which ends with the test.
func runServer(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	args = append(args, "-m", "64", "-t", "2", "-U", "0")
	if os.Getuid() == 0 {
		args = append(args, "-u", "root")
	}
	server := exec.Command(program(t, name), args...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	return server
}

// waitForServer waits until a server accepts connections, for four seconds.
func waitForServer(t testing.TB, network, address string) {
	t.Helper()
	for range 200 {
		conn, err := net.Dial(network, address)
		if err == nil {
			conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("no server at %s after 4 s", address)
}

// freePort returns a loopback address with a free port.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// forEachServer runs a test in each protocol on each server, and on one with local reads.
func forEachServer(t *testing.T, test func(t *testing.T, c *Client)) {
	for _, server := range [][]string{{"larderd"}, localLarderd, {"memcached"}} {
		t.Run(strings.Join(server, " "), func(t *testing.T) {
			socket := startServer(t, server[0], server[1:]...)
			for protocol, name := range []string{"auto", "meta", "text", "binary"} {
				t.Run(name, func(t *testing.T) {
					c := newClient(t, Options{Servers: []string{socket}, Protocol: Protocol(protocol)})
					if err := c.FlushAll(); err != nil {
						t.Fatal(err)
					}
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
	if err != nil {
		t.Fatal(err)
	}
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

// dialCounter counts the connections that are open and those that were opened.
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
	equal(t, "open connections", addTo(c.open, 0), want)
}

// request sends a request on a new connection, and returns the first line of the response.
func request(t testing.TB, socket, request string) string {
	t.Helper()
	conn, lines := sendTo(t, socket, request)
	defer conn.Close()
	line, err := lines.ReadString('\n')
	must(t, err)
	return line
}

// statOf returns a number from a server's statistics.
func statOf(t testing.TB, socket, name string) (number int) {
	t.Helper()
	conn, lines := sendTo(t, socket, "stats\r\n")
	defer conn.Close()
	for {
		line, err := lines.ReadString('\n')
		must(t, err)
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
	must(t, err)
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = conn.Write([]byte(request))
	must(t, err)
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
