package client

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is where a server's program lies.
func program(t testing.TB, name string) string {
	t.Helper()
	path, advice := name, "run conformance/install.sh"
	isNamed := false
	if name == "larderd" {
		path, advice = os.Getenv("LARDERD"), "run `make build`, or let LARDERD name one"
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

// start starts a server with a unix socket and returns its path. The server ends with the test.
func startServer(t testing.TB, name string, args ...string) (socket string) {
	t.Helper()
	socket = tempSocket(t)
	startServerAt(t, socket, name, args...)
	return socket
}

// socketIn is a path for a socket. One of t.TempDir's may be longer than the system takes.
func tempSocket(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "larder")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	return filepath.Join(folder, "sock")
}

// startAt starts a server at a path where there may have been another one.
func startServerAt(t testing.TB, socket, name string, args ...string) *exec.Cmd {
	t.Helper()
	server := runServer(t, name, append([]string{"-s", socket}, args...)...)
	waitForServer(t, "unix", socket)
	return server
}

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
	t.Fatalf("no server at %s", address)
}

// freePort is a port of the loopback that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newClient(t testing.TB, options Options) *Client {
	t.Helper()
	if options.Timeout == 0 {
		// The machine may be busy.
		options.Timeout = 5 * time.Second
	}
	c, err := NewWithOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// everywhere runs a test in each protocol on each server, and on one whose memory can be read.
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

// localLarderd lets this user read its memory.
var localLarderd = []string{"larderd", "--local-readers=same-uid"}

// fake is a server that does with each connection what a test wants.
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

// counting counts the connections that are open.
type dialCounter struct {
	open, dialed chan int
}

func newDialCounter() *dialCounter {
	c := &dialCounter{make(chan int, 1), make(chan int, 1)}
	c.open <- 0
	c.dialed <- 0
	return c
}

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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key:%d", i)
	}
	return keys
}

// say says something to a server on a connection of its own, and returns the first line of the answer.
func request(t testing.TB, socket, request string) string {
	t.Helper()
	conn, lines := sendTo(t, socket, request)
	defer conn.Close()
	line, err := lines.ReadString('\n')
	must(t, err)
	return line
}

// statOf is a number of a server's statistics.
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

func sendTo(t testing.TB, socket, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	must(t, err)
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = conn.Write([]byte(request))
	must(t, err)
	return conn, bufio.NewReader(conn)
}
