package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/wire"
)

func TestInvalidResponseClosesConnection(t *testing.T) {
	check.GoroutineLeaks(t)
	tests := []struct {
		name     string
		protocol Protocol
		response string
	}{
		{"HTTP", ProtocolMeta, "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"header without value", ProtocolMeta, "HD\r\n"},
		{"negative length", ProtocolMeta, "VA -1\r\n"},
		{"length overflow", ProtocolMeta, "VA 99999999999999999999\r\n"},
		{"value longer than its length", ProtocolMeta, "VA 3\r\nabcdef\r\n"},
		{"endless line", ProtocolMeta, strings.Repeat("x", 100_000)},
		{"response to another command", ProtocolText, "STORED\r\n"},
		{"another key", ProtocolText, "VALUE other 0 1 1\r\nv\r\nEND\r\n"},
		{"value twice", ProtocolText, "VALUE k 0 1 1\r\nv\r\nVALUE k 0 1 1\r\nv\r\nEND\r\n"},
		{"HTTP in binary", ProtocolBinary, "HTTP/1.1 400 Bad Request\r\n\r\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			serve := replyWith(test.response)
			if test.protocol == ProtocolBinary {
				serve = func(conn net.Conn) {
					io.ReadFull(conn, make([]byte, wire.BinaryHeaderBytes))
					io.WriteString(conn, test.response)
				}
			}
			client, connections := newCountedClient(t, Options{Protocol: test.protocol}, fakeServer(t, serve))
			_, err := client.Get("k")
			check.ErrorIs(t, "Get", err, ErrProtocol)
			wantErrorAs[*FaultError](t, err)
			_, err = client.GetMulti([]string{"k", "l"})
			// The values of k may be the beginning of a valid response to several keys.
			if err == nil && !strings.HasPrefix(test.response, "VALUE k") {
				t.Error("GetMulti: no error, want one")
			}
			client.Close()
			wantOpen(t, connections, 0)
		})
	}
}

func TestResponseToAnotherRequestIsInvalid(t *testing.T) {
	for name, response := range map[string]wire.BinaryResponse{
		"opaque": {Opcode: wire.OpGet, Opaque: 99, Extras: make([]byte, 4)},
		"opcode": {Opcode: wire.OpSet, Opaque: 1},
		"extras": {Opcode: wire.OpGet, Opaque: 1},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := newCountedClient(t, Options{Protocol: ProtocolBinary}, fakeServer(t, func(conn net.Conn) {
				io.ReadFull(conn, make([]byte, wire.BinaryHeaderBytes))
				conn.Write(response.AppendTo(nil))
			}))
			_, err := client.Get("k")
			check.ErrorIs(t, "Get", err, ErrProtocol)
		})
	}
	for _, opaque := range []string{"", "O1", "O2", "Ox", "O99999999999999999999"} {
		t.Run("meta opaque "+opaque, func(t *testing.T) {
			server := fakeServer(t, replyWith("VA 1 "+opaque+"\r\nv\r\n"))
			client, _ := newCountedClient(t, Options{Protocol: ProtocolMeta}, server)
			_, err := client.GetMulti([]string{"a", "b"})
			check.ErrorIs(t, "GetMulti", err, ErrProtocol)
		})
	}
}

func TestConnectionEndsWithinResponse(t *testing.T) {
	check.GoroutineLeaks(t)
	client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) {
		bufio.NewReader(conn).ReadString('\n')
		io.WriteString(conn, "VA 10 f0 c1\r\nabc")
	}))
	_, err := client.Get("k")
	check.ErrorIs(t, "Get", err, io.ErrUnexpectedEOF)
	if fault := wantErrorAs[*FaultError](t, err); fault != nil {
		check.Equal(t, "Timeout", fault.Timeout(), false)
	}
	wantOpen(t, connections, 0)
}

func TestSilentServerTimesOut(t *testing.T) {
	check.GoroutineLeaks(t)
	server := fakeServer(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	client, connections := newCountedClient(t, Options{}, server)
	begin := time.Now()
	_, err := client.Get("k")
	if timeout := wantErrorAs[net.Error](t, err); timeout != nil {
		check.Equal(t, "Timeout", timeout.Timeout(), true)
	}
	// The client's timeout is 200 ms.
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Get took %v, want at most 2 s", took)
	}
	wantOpen(t, connections, 0)
}

func TestServerThatDoesNotReadLargeRequest(t *testing.T) {
	check.GoroutineLeaks(t)
	server := fakeServer(t, func(conn net.Conn) { time.Sleep(time.Second) })
	client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta}, server)
	// More than the socket buffers hold.
	_, err := client.GetMulti(testKeys(300_000))
	wantErrorAs[*FaultError](t, err)
	wantOpen(t, connections, 0)
}

func TestRefusedConnectionBeginsBackoff(t *testing.T) {
	const backoff = 200 * time.Millisecond
	client, connections := newCountedClient(t, Options{BackoffMin: backoff}, freePort(t))
	_, err := client.Get("k")
	check.ErrorIs(t, "Get", err, syscall.ECONNREFUSED)
	wantErrorAs[*FaultError](t, err)
	_, err = client.Get("k")
	check.ErrorIs(t, "Get", err, ErrServerDown)
	check.ErrorIs(t, "Get", err, syscall.ECONNREFUSED)
	if down := wantErrorAs[*DownError](t, err); down != nil && time.Until(down.Until) > backoff {
		t.Errorf("Until is %v from now, want at most %v", time.Until(down.Until), backoff)
	}
	wantOpen(t, connections, 0)
}

func TestDialTimeout(t *testing.T) {
	check.GoroutineLeaks(t)
	const address = "192.0.2.1:11211"
	client := newClient(t, Options{
		Servers: []string{address}, DialTimeout: 50 * time.Millisecond,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	_, err := client.Get("k")
	if timeout := wantErrorAs[*ConnectTimeoutError](t, err); timeout != nil {
		check.Equal(t, "Addr", timeout.Addr.String(), address)
	}
}

func TestCancelledContextEndsWait(t *testing.T) {
	check.GoroutineLeaks(t)
	requested := make(chan struct{}, 1)
	options := Options{Protocol: ProtocolMeta, Timeout: 10 * time.Second}
	client, connections := newCountedClient(t, options, fakeServer(t, func(conn net.Conn) {
		requested <- struct{}{}
		io.Copy(io.Discard, conn)
	}))
	for name, request := range map[string]func(context.Context) error{
		"Get":      func(ctx context.Context) error { _, err := client.GetContext(ctx, "k"); return err },
		"GetMulti": func(ctx context.Context) error { _, err := client.GetMultiContext(ctx, testKeys(10)); return err },
		"Ping":     client.PingContext,
	} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- request(ctx) }()
		<-requested
		begin := time.Now()
		cancel()
		check.ErrorIs(t, "GetMultiContext", <-done, context.Canceled)
		// Far less than the timeout of 10 s.
		if took := time.Since(begin); took > time.Second {
			t.Errorf("%s returned %v after cancel, want at most 1 s", name, took)
		}
		wantOpen(t, connections, 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	check.ErrorIs(t, "DeleteContext", client.DeleteContext(ctx, "k"), context.DeadlineExceeded)
	<-requested
	check.ErrorIs(t, "DeleteContext", client.DeleteContext(ctx, "k"), context.DeadlineExceeded)
	// An ended context is not a failure of the server.
	n := client.node(serverAddr{"tcp", client.options.Servers[0]})
	check.Equal(t, "failures", n.failures, 0)
}

func TestLateResponseGoesToNoOtherRequest(t *testing.T) {
	var first atomic.Bool
	first.Store(true)
	release := make(chan struct{})
	options := Options{Protocol: ProtocolMeta, Timeout: 5 * time.Second}
	client, connections := newCountedClient(t, options, fakeServer(t, func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if first.CompareAndSwap(true, false) {
				<-release
			}
			key := strings.Fields(line)[1]
			fmt.Fprintf(conn, "VA %d f0 c1\r\n%s\r\n", len(key), key)
		}
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := client.GetContext(ctx, "secret"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("GetContext: error %v, want %v", err, context.DeadlineExceeded)
	}
	close(release)
	for range 10 {
		wantValue(t, client, "mine", "mine")
	}
	wantOpen(t, connections, 1)
	check.Equal(t, "connections opened", addTo(connections.dialed, 0), 2)
}

func TestTooLongValueClosesConnection(t *testing.T) {
	server := fakeServer(t, replyWith("VA 100000000 f0 c1\r\n"))
	client, connections := newCountedClient(t, Options{MaxValueBytes: 1 << 20}, server)
	client.options.Protocol = ProtocolMeta
	_, err := client.Get("k")
	large := wantErrorAs[*wire.TooLargeError](t, err)
	// The limit includes the header line.
	if large != nil && large.LimitBytes > 2<<20 {
		t.Errorf("LimitBytes = %d, want at most %d", large.LimitBytes, 2<<20)
	}
	wantOpen(t, connections, 0)
}

func TestInvalidOptions(t *testing.T) {
	for name, options := range map[string]Options{
		"no port":               {Servers: []string{"localhost"}},
		"unknown port name":     {Servers: []string{"localhost:port"}},
		"empty host and port":   {Servers: []string{":"}},
		"IPv6 without brackets": {Servers: []string{"::1:11211"}},
		"too many weights":      {Servers: []string{"a:1"}, Weights: []int{1, 2}, Hashing: HashKetama},
		"weight 0":              {Servers: []string{"a:1"}, Weights: []int{0}, Hashing: HashKetama},
		"weights with modulo":   {Servers: []string{"a:1"}, Weights: []int{1}},
		"hashing":               {Hashing: 9},
		"protocol":              {Protocol: 9},
		"failover":              {Failover: 9},
		"connections":           {MaxConns: -1},
	} {
		if _, err := NewWithOptions(options); err == nil {
			t.Errorf("%s: NewWithOptions(%+v): no error, want one", name, options)
		}
	}
	servers := []string{"localhost:11211", "[::1]:11211", "/run/larder.sock", "./sock"}
	for _, server := range servers {
		_, err := NewWithOptions(Options{Servers: []string{server}})
		check.NoError(t, err)
	}
}

func TestOperationsReturnInvalidServers(t *testing.T) {
	for want, client := range map[string]*Client{
		"no servers":                 New(),
		`invalid server "localhost"`: New("localhost"),
	} {
		_, get := client.Get("k")
		_, getMulti := client.GetMulti([]string{"k"})
		for name, err := range map[string]error{"Get": get, "GetMulti": getMulti} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", name, err, want)
			}
		}
	}
	_, err := New().Get("k")
	wantOutcome(t, err, ErrNoServers)
}
