package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"larder/client/wire"
)

// quick is a client of a server that does what a test wants, for whom tests do not wait long.
func newCountedClient(t *testing.T, options Options, servers ...string) (*Client, *dialCounter) {
	t.Helper()
	connections := newDialCounter()
	options.Servers, options.DialContext = servers, connections.dial
	if options.Timeout == 0 {
		options.Timeout = 200 * time.Millisecond
	}
	return newClient(t, options), connections
}

// leavesNothing checks that connections and goroutines are gone when the test's clients are closed.
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
		t.Errorf("%d goroutines, of %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	})
}

func wantOpen(t *testing.T, c *dialCounter, want int) {
	t.Helper()
	if open := addTo(c.open, 0); open != want {
		t.Errorf("%d connections are open, not %d", open, want)
	}
}

// answers is a server that says the same to every line.
func replyWith(answer string) func(net.Conn) {
	return func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
			io.WriteString(conn, answer)
		}
	}
}

func TestGarbageIsAnErrorAndTheConnectionGoes(t *testing.T) {
	checkGoroutineLeaks(t)
	for _, c := range []struct {
		protocol Protocol
		answer   string
	}{
		{ProtocolMeta, "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{ProtocolMeta, "HD\r\n"},
		{ProtocolMeta, "VA -1\r\n"},
		{ProtocolMeta, "VA 99999999999999999999\r\n"},
		{ProtocolMeta, "VA 3\r\nabcdef\r\n"},
		{ProtocolMeta, strings.Repeat("x", 100_000)},
		{ProtocolText, "STORED\r\n"},
		{ProtocolText, "VALUE other 0 1 1\r\nv\r\nEND\r\n"},
		{ProtocolText, "VALUE k 0 1 1\r\nv\r\nVALUE k 0 1 1\r\nv\r\nEND\r\n"},
		{ProtocolBinary, "HTTP/1.1 400 Bad Request\r\n\r\n"},
	} {
		t.Run(fmt.Sprintf("%d %.20q", c.protocol, c.answer), func(t *testing.T) {
			serve := replyWith(c.answer)
			if c.protocol == ProtocolBinary {
				serve = func(conn net.Conn) {
					io.ReadFull(conn, make([]byte, wire.BinaryHeaderBytes))
					io.WriteString(conn, c.answer)
				}
			}
			client, connections := newCountedClient(t, Options{Protocol: c.protocol}, fakeServer(t, serve))
			_, err := client.Get("k")
			var fault *FaultError
			if !errors.Is(err, ErrProtocol) || !errors.As(err, &fault) {
				t.Errorf("%v", err)
			}
			_, err = client.GetMulti([]string{"k", "l"})
			if err == nil && !strings.HasPrefix(c.answer, "VALUE k") {
				t.Error("many keys were answered with garbage, and nobody noticed")
			}
			client.Close()
			wantOpen(t, connections, 0)
		})
	}
}

func TestAnswersToOtherRequestsAreNoticed(t *testing.T) {
	for name, answer := range map[string]wire.BinaryResponse{
		"opaque": {Opcode: wire.OpGet, Opaque: 99, Extras: make([]byte, 4)},
		"opcode": {Opcode: wire.OpSet, Opaque: 1},
		"extras": {Opcode: wire.OpGet, Opaque: 1},
	} {
		client, _ := newCountedClient(t, Options{Protocol: ProtocolBinary}, fakeServer(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, wire.BinaryHeaderBytes))
			conn.Write(answer.AppendTo(nil))
		}))
		if _, err := client.Get("k"); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, opaque := range []string{"", "O1", "O2", "Ox", "O99999999999999999999"} {
		client, _ := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, replyWith("VA 1 "+opaque+"\r\nv\r\n")))
		if _, err := client.GetMulti([]string{"a", "b"}); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", opaque, err)
		}
	}
}

func TestAConnectionThatEndsWithinAnAnswer(t *testing.T) {
	checkGoroutineLeaks(t)
	client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) {
		bufio.NewReader(conn).ReadString('\n')
		io.WriteString(conn, "VA 10 f0 c1\r\nabc")
	}))
	_, err := client.Get("k")
	var fault *FaultError
	if !errors.As(err, &fault) || !errors.Is(err, io.ErrUnexpectedEOF) || fault.Timeout() {
		t.Error(err)
	}
	wantOpen(t, connections, 0)
}

func TestAServerThatNeverAnswers(t *testing.T) {
	checkGoroutineLeaks(t)
	client, connections := newCountedClient(t, Options{}, fakeServer(t, func(conn net.Conn) { io.Copy(io.Discard, conn) }))
	begin := time.Now()
	_, err := client.Get("k")
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(begin) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	wantOpen(t, connections, 0)
}

func TestAServerThatDoesNotReadALargeRequest(t *testing.T) {
	checkGoroutineLeaks(t)
	client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) { time.Sleep(time.Second) }))
	_, err := client.GetMulti(testKeys(300_000))
	if !errors.As(err, new(*FaultError)) {
		t.Error(err)
	}
	wantOpen(t, connections, 0)
}

func TestARefusedConnection(t *testing.T) {
	address := freePort(t)
	client, connections := newCountedClient(t, Options{BackoffMin: 200 * time.Millisecond}, address)
	if _, err := client.Get("k"); !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, new(*FaultError)) {
		t.Fatal(err)
	}
	_, err := client.Get("k")
	var down *DownError
	if !errors.Is(err, ErrServerDown) || !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &down) || time.Until(down.Until) > 200*time.Millisecond {
		t.Fatal(err)
	}
	wantOpen(t, connections, 0)
}

func TestABlackHole(t *testing.T) {
	checkGoroutineLeaks(t)
	client := newClient(t, Options{Servers: []string{"192.0.2.1:11211"}, DialTimeout: 50 * time.Millisecond,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	_, err := client.Get("k")
	var slow *ConnectTimeoutError
	if !errors.As(err, &slow) || slow.Addr.String() != "192.0.2.1:11211" {
		t.Error(err)
	}
}

func TestACancelledContextEndsTheWaitAtOnce(t *testing.T) {
	checkGoroutineLeaks(t)
	asked := make(chan struct{}, 1)
	client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta, Timeout: 10 * time.Second}, fakeServer(t, func(conn net.Conn) {
		asked <- struct{}{}
		io.Copy(io.Discard, conn)
	}))
	for name, ask := range map[string]func(context.Context) error{
		"get":   func(ctx context.Context) error { _, err := client.GetContext(ctx, "k"); return err },
		"multi": func(ctx context.Context) error { _, err := client.GetMultiContext(ctx, testKeys(10)); return err },
		"ping":  client.PingContext,
	} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- ask(ctx) }()
		<-asked
		begin := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || time.Since(begin) > time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(begin))
		}
		wantOpen(t, connections, 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := client.DeleteContext(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	<-asked
	if err := client.DeleteContext(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// Who does not wait says nothing about the server.
	if n := client.node(serverAddr{"tcp", client.options.Servers[0]}); n.failures != 0 {
		t.Errorf("%d failures: %v", n.failures, n.lastErr)
	}
}

func TestALateAnswerIsToNobodyElse(t *testing.T) {
	var first atomic.Bool
	first.Store(true)
	release := make(chan struct{})
	client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta, Timeout: 5 * time.Second}, fakeServer(t, func(conn net.Conn) {
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
		t.Fatal(err)
	}
	close(release)
	for range 10 {
		wantValue(t, client, "mine", "mine")
	}
	wantOpen(t, connections, 1)
	if dialed := addTo(connections.dialed, 0); dialed != 2 {
		t.Errorf("%d connections", dialed)
	}
}

func TestAValueThatIsTooLong(t *testing.T) {
	client, connections := newCountedClient(t, Options{MaxValueBytes: 1 << 20}, fakeServer(t, replyWith("VA 100000000 f0 c1\r\n")))
	client.options.Protocol = ProtocolMeta
	_, err := client.Get("k")
	var large *wire.TooLargeError
	if !errors.As(err, &large) || large.LimitBytes > 2<<20 {
		t.Error(err)
	}
	wantOpen(t, connections, 0)
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	client, connections := newCountedClient(t, Options{MaxIdleConns: 3, Timeout: 5 * time.Second}, startServer(t, "memcached"))
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := client.GetMulti(testKeys(1000))
			done <- err
		}()
	}
	for range 20 {
		must(t, <-done)
	}
	if open := addTo(connections.open, 0); open > 3 {
		t.Errorf("%d connections are open", open)
	}
	must(t, client.Close())
	wantOpen(t, connections, 0)
	must(t, client.Ping())
	wantOpen(t, connections, 1)
}

func TestAServerIsLeftAloneForAGrowingTime(t *testing.T) {
	address := freePort(t)
	client, _ := newCountedClient(t, Options{BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond}, address)
	n := client.node(serverAddr{"tcp", address})
	var dials int
	var dialed time.Time
	client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		dialed = time.Now()
		return nil, syscall.ECONNREFUSED
	}
	for failures, most := range []time.Duration{20, 40, 80, 100, 100} {
		for time.Now().Before(n.downUntil) {
			if _, err := client.Get("k"); !errors.Is(err, ErrServerDown) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		client.Get("k")
		most *= time.Millisecond
		if left := time.Until(n.downUntil); left > most || n.downUntil.Sub(dialed) < most/2 || n.failures != dials {
			t.Errorf("%d failures, %d dials: %v", failures+1, dials, n.downUntil.Sub(dialed))
		}
	}
	if dials != 5 {
		t.Errorf("%d dials", dials)
	}
	// When it is back it is asked again, and all is forgotten.
	port := address[strings.LastIndexByte(address, ':')+1:]
	runServer(t, "memcached", "-l", "127.0.0.1", "-p", port)
	waitForServer(t, "tcp", address)
	client.DialContext = nil
	time.Sleep(time.Until(n.downUntil) + time.Millisecond)
	must(t, client.Ping())
	if n.failures != 0 || !n.downUntil.IsZero() {
		t.Errorf("%d failures: %v", n.failures, n.lastErr)
	}
}

func TestTheNextServerIsAskedIfWanted(t *testing.T) {
	dead, alive := freePort(t), startServer(t, "memcached")
	for _, hashing := range []Hashing{HashModulo, HashKetama, HashKetamaUnweighted, HashRendezvous} {
		client, _ := newCountedClient(t, Options{Hashing: hashing, Failover: FailoverNext, Timeout: 5 * time.Second}, dead, alive)
		keys := testKeys(50)
		for _, key := range keys {
			must(t, client.Set(&Item{Key: key, Value: []byte(key)}))
		}
		items, err := client.GetMulti(keys)
		if err != nil || len(items) != len(keys) {
			t.Errorf("%d items, %v", len(items), err)
		}
		client, _ = newCountedClient(t, Options{Hashing: hashing, Timeout: 5 * time.Second}, dead, alive)
		items, err = client.GetMulti(keys)
		if len(items) == 0 || len(items) == len(keys) || !errors.As(err, new(*FaultError)) {
			t.Errorf("%d items, %v", len(items), err)
		}
	}
	client, _ := newCountedClient(t, Options{Failover: FailoverNext}, dead, freePort(t))
	if _, err := client.GetMulti(testKeys(3)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if _, err := client.Get("k"); !errors.Is(err, ErrServerDown) {
		t.Error(err)
	}
}

func TestWhatMayHaveBeenDoneIsNotDoneTwice(t *testing.T) {
	var requests atomic.Int32
	client, _ := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for range 2 {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "ma") {
				requests.Add(1)
				// It has been done, and nobody is told.
				return
			}
			io.WriteString(conn, "MN\r\n")
		}
	}))
	must(t, client.Ping())
	if _, err := client.Increment("n", 1); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
	// A read is asked once more.
	must(t, client.Ping())
	must(t, client.Ping())
	must(t, client.Ping())
}

func TestWhatCannotBeIsSaid(t *testing.T) {
	for _, options := range []Options{
		{Servers: []string{"localhost"}}, {Servers: []string{"localhost:port"}}, {Servers: []string{":"}}, {Servers: []string{"::1:11211"}},
		{Servers: []string{"a:1"}, Weights: []int{1, 2}, Hashing: HashKetama}, {Servers: []string{"a:1"}, Weights: []int{0}, Hashing: HashKetama},
		{Servers: []string{"a:1"}, Weights: []int{1}}, {Hashing: 9}, {Protocol: 9}, {Failover: 9},
	} {
		if _, err := NewWithOptions(options); err == nil {
			t.Errorf("%+v", options)
		}
	}
	for want, client := range map[string]*Client{"there are no servers": New(), `"localhost" is no server`: New("localhost")} {
		_, err := client.Get("k")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
		if _, err = client.GetMulti([]string{"k"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	if _, err := New().Get("k"); err != ErrNoServers {
		t.Error(err)
	}
	for _, server := range []string{"localhost:11211", "[::1]:11211", "127.0.0.1:memcache", "/run/larder.sock", "./sock"} {
		if _, err := NewWithOptions(Options{Servers: []string{server}}); err != nil && !strings.Contains(server, "memcache") {
			t.Error(err)
		}
	}
}

func TestNothingOfAValueIsShared(t *testing.T) {
	client := newClient(t, Options{Servers: []string{startServer(t, "memcached")}})
	must(t, client.Set(&Item{Key: "a", Value: []byte("aaaa")}))
	must(t, client.Set(&Item{Key: "b", Value: []byte("bbbb")}))
	a := wantValue(t, client, "a", "aaaa")
	wantValue(t, client, "b", "bbbb")
	if !bytes.Equal(a.Value, []byte("aaaa")) {
		t.Errorf("%q", a.Value)
	}
}

// More goroutines than connections take turns.
func TestConnectionsAreNoMoreThanAllowed(t *testing.T) {
	checkGoroutineLeaks(t)
	c, connections := newCountedClient(t, Options{MaxConns: 3, Timeout: 10 * time.Second, Protocol: ProtocolMeta}, fakeServer(t, replyWith("EN\r\n")))
	var askers sync.WaitGroup
	var most atomic.Int64
	for range 20 {
		askers.Add(1)
		go func() {
			defer askers.Done()
			for range 50 {
				if _, err := c.Get("k"); err != ErrCacheMiss {
					t.Error(err)
				}
				if open := int64(addTo(connections.open, 0)); open > most.Load() {
					most.Store(open)
				}
			}
		}()
	}
	askers.Wait()
	if most.Load() > 3 {
		t.Errorf("%d connections", most.Load())
	}
	if _, err := NewWithOptions(Options{MaxConns: -1}); err == nil {
		t.Error("a number below 0 is taken")
	}
}

// Who waits for a connection waits no longer than for an answer, and the server is not to blame.
func TestAWaitForAConnectionEnds(t *testing.T) {
	checkGoroutineLeaks(t)
	c, _ := newCountedClient(t, Options{MaxConns: 1, Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) {
		io.Copy(io.Discard, conn)
	}))
	addr := c.selector.(*ServerList).addrs[0]
	node := c.node(addr)
	must(t, node.acquire(context.Background(), c))
	_, err := c.Get("k")
	var timeout net.Error
	if !errors.Is(err, ErrBusy) || !errors.As(err, &timeout) || !timeout.Timeout() || node.failures > 0 {
		t.Errorf("%v after %d failures", err, node.failures)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.GetContext(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	node.release()
	// It answers to nobody: but now it is asked.
	if _, err := c.Get("k"); errors.Is(err, ErrBusy) || len(node.inUse) != 0 {
		t.Error(err)
	}
}

// executesAndHangsUp answers pings, and carries out and counts changes, after each of which it closes the connection
// without an answer.
func applyAndHangUp(changes *atomic.Int64) func(net.Conn) {
	return func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			switch line[:2] {
			case "mn":
				io.WriteString(conn, "MN\r\n")
				continue
			case "ms":
				var length int
				fmt.Sscanf(strings.Fields(line)[2], "%d", &length)
				if _, err := io.CopyN(io.Discard, lines, int64(length)+2); err != nil {
					return
				}
			}
			changes.Add(1)
			return
		}
	}
}

func TestAChangeThatMayHaveBeenMadeIsNotSentAgain(t *testing.T) {
	checkGoroutineLeaks(t)
	item := &Item{Key: "k", Value: []byte("v")}
	for name, change := range map[string]func(*Client) error{
		"set":           func(c *Client) error { return c.Set(item) },
		"large set":     func(c *Client) error { return c.Set(&Item{Key: "k", Value: make([]byte, 100_000)}) },
		"add":           func(c *Client) error { return c.Add(item) },
		"touch":         func(c *Client) error { return c.Touch("k", 5) },
		"get and touch": func(c *Client) error { _, err := c.GetAndTouch("k", 5); return err },
		"delete":        func(c *Client) error { return c.Delete("k") },
		"flush":         (*Client).FlushAll,
	} {
		var changes atomic.Int64
		client, connections := newCountedClient(t, Options{Protocol: ProtocolMeta, Timeout: 5 * time.Second}, fakeServer(t, applyAndHangUp(&changes)))
		// The connection is an old one then.
		must(t, client.Ping())
		err := change(client)
		var fault *FaultError
		if !errors.As(err, &fault) || changes.Load() != 1 {
			t.Errorf("%s: made %d times, and the caller got %v", name, changes.Load(), err)
		}
		wantOpen(t, connections, 0)
	}
}

func TestAChangeIsSentOnANewConnectionWhereTheOldOneWasClosedBefore(t *testing.T) {
	checkGoroutineLeaks(t)
	closing := make(chan struct{})
	var served atomic.Int64
	address := fakeServer(t, func(conn net.Conn) {
		if served.Add(1) > 1 {
			replyWith("HD\r\n")(conn)
			return
		}
		bufio.NewReader(conn).ReadString('\n')
		io.WriteString(conn, "MN\r\n")
		<-closing
	})
	client := newClient(t, Options{Protocol: ProtocolMeta, Servers: []string{address}, Timeout: 5 * time.Second})
	must(t, client.Ping())
	n := client.node(client.selector.(*ServerList).addrs[0])
	n.mu.Lock()
	idle := n.idle[0]
	n.mu.Unlock()
	if !idle.alive.check() {
		t.Fatal("a connection that the server keeps open is taken for closed")
	}
	close(closing)
	for end := time.Now().Add(5 * time.Second); idle.alive.check(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the end of the connection is not seen")
		}
	}
	must(t, client.Delete("k"))
	if served.Load() != 2 {
		t.Errorf("%d connections", served.Load())
	}
}
