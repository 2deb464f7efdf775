package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// program is where a server's program lies.
func program(t testing.TB, name string) string {
	t.Helper()
	switch name {
	case "larderd":
		if path := os.Getenv("LARDERD"); path != "" {
			return path
		}
		path, err := filepath.Abs("../../../target/release/larderd")
		if _, statErr := os.Stat(path); err != nil || statErr != nil {
			t.Skip("larderd is not built: run `make build`, or set LARDERD")
		}
		return path
	default:
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is missing: run conformance/install.sh", name)
		}
		return path
	}
}

// start starts a server with a unix socket and returns its path. The server ends with the test.
func start(t testing.TB, name string, args ...string) (socket string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "larder")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket = filepath.Join(folder, "sock")
	run(t, name, append([]string{"-s", socket}, args...)...)
	await(t, "unix", socket)
	return socket
}

func run(t testing.TB, name string, args ...string) *exec.Cmd {
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

func await(t testing.TB, network, address string) {
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

// everywhere runs a test in each protocol on each server.
func everywhere(t *testing.T, test func(t *testing.T, c *Client)) {
	for _, server := range []string{"larderd", "memcached"} {
		t.Run(server, func(t *testing.T) {
			socket := start(t, server)
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

// fake is a server that does with each connection what a test wants.
func fake(t testing.TB, serve func(net.Conn)) string {
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
type counting struct {
	open, dialed chan int
}

func newCounting() *counting {
	c := &counting{make(chan int, 1), make(chan int, 1)}
	c.open <- 0
	c.dialed <- 0
	return c
}

func add(counter chan int, n int) int {
	sum := <-counter + n
	counter <- sum
	return sum
}

func (c *counting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	add(c.open, 1)
	add(c.dialed, 1)
	return &counted{Conn: conn, counting: c}, nil
}

type counted struct {
	net.Conn
	counting *counting
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	if err == nil {
		add(c.counting.open, -1)
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key:%d", i)
	}
	return keys
}
