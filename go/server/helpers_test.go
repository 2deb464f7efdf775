package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/testserver"
)

// config changes the cache and the options of a server under test.
type config struct {
	engine  engine.Config
	options Options
}

// start starts a server at a unix socket and returns the path. It ends with the test.
func start(t testing.TB, config config) (*Server, string) {
	t.Helper()
	if config.engine.MemoryBytes == 0 {
		// Items of 1 MiB fit.
		config.engine.MemoryBytes = 256 << 20
	}
	cache, err := engine.New(config.engine)
	check.NoError(t, err)
	socket := testserver.Socket(t)
	listener, err := net.Listen("unix", socket)
	check.NoError(t, err)
	s := newServer(cache, config.options)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		check.NoError(t, s.Close())
		check.ErrorIs(t, "Serve", <-ended, ErrServerClosed)
		check.NoError(t, cache.Close())
	})
	return s, socket
}

func withTokens() config { return config{engine: engine.Config{CAS: true}} }

func dial(t testing.TB, socket string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	check.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn
}

// send writes a request in pieces of at most size bytes, all of it if size is 0.
func send(conn net.Conn, request []byte, size int) error {
	if size <= 0 {
		size = max(1, len(request))
	}
	for len(request) > 0 {
		n, err := conn.Write(request[:min(size, len(request))])
		if err != nil {
			return err
		}
		request = request[n:]
	}
	return nil
}

// converse sends requests, which end the connection, and returns all responses.
func converse(t testing.TB, socket, requests string, size int) string {
	t.Helper()
	conn := dial(t, socket)
	sent := make(chan error, 1)
	go func() { sent <- send(conn, []byte(requests), size) }()
	responses, err := io.ReadAll(conn)
	check.NoError(t, err)
	// The server may close before it has read all.
	<-sent
	return string(responses)
}

// ask sends a request and reads a response of the same length as want.
func ask(t testing.TB, conn net.Conn, request, want string) {
	t.Helper()
	check.NoError(t, send(conn, []byte(request), 0))
	expect(t, conn, request, want)
}

func expect(t testing.TB, conn net.Conn, request, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if got = got[:n]; err != nil || string(got) != want {
		t.Fatalf("response to %.80q: %.200q, %v, want %.200q", request, got, err, want)
	}
}

// await waits until a condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatalf("after 20 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// repeated returns a value of size bytes.
func repeated(size int) string { return string(bytes.Repeat([]byte("v"), size)) }
