package client

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func TestMaxIdleConns(t *testing.T) {
	options := Options{MaxIdleConns: 3, Timeout: 5 * time.Second}
	client, connections := newCountedClient(t, options, testserver.Start(t, "memcached"))
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := client.GetMulti(testKeys(1000))
			done <- err
		}()
	}
	for range 20 {
		check.NoError(t, <-done)
	}
	if open := addTo(connections.open, 0); open > 3 {
		t.Errorf("%d connections are open, want at most 3", open)
	}
	check.NoError(t, client.Close())
	wantOpen(t, connections, 0)
	check.NoError(t, client.Ping())
	wantOpen(t, connections, 1)
}

func TestMaxConns(t *testing.T) {
	check.GoroutineLeaks(t)
	options := Options{MaxConns: 3, Timeout: 10 * time.Second, Protocol: ProtocolMeta}
	c, connections := newCountedClient(t, options, fakeServer(t, replyWith("EN\r\n")))
	var group sync.WaitGroup
	var most atomic.Int64
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 50 {
				if _, err := c.Get("k"); err != ErrCacheMiss {
					t.Errorf("Get: error %v, want %v", err, ErrCacheMiss)
				}
				if open := int64(addTo(connections.open, 0)); open > most.Load() {
					most.Store(open)
				}
			}
		}()
	}
	group.Wait()
	if most.Load() > 3 {
		t.Errorf("%d connections were open, want at most 3", most.Load())
	}
}

func TestWaitForConnectionTimesOut(t *testing.T) {
	check.GoroutineLeaks(t)
	silent := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	options := Options{MaxConns: 1, Protocol: ProtocolMeta}
	c, _ := newCountedClient(t, options, fakeServer(t, silent))
	node := c.node(c.selector.(*ServerList).addrs[0])
	check.NoError(t, node.acquire(context.Background(), c))
	_, err := c.Get("k")
	check.ErrorIs(t, "Get", err, ErrBusy)
	if timeout := wantErrorAs[net.Error](t, err); timeout != nil {
		check.Equal(t, "Timeout", timeout.Timeout(), true)
	}
	// A busy client is not a failure of the server.
	check.Equal(t, "failures", node.failures, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = c.GetContext(ctx, "k")
	check.ErrorIs(t, "GetContext", err, context.DeadlineExceeded)
	check.Equal(t, "is ErrBusy", errors.Is(err, ErrBusy), false)
	node.release()
	// The request is sent now, and times out for the lack of a response.
	_, err = c.Get("k")
	check.Equal(t, "is ErrBusy after release", errors.Is(err, ErrBusy), false)
	check.Equal(t, "connections in use", len(node.inUse), 0)
}

func TestBackoffDoublesAndEnds(t *testing.T) {
	address := freePort(t)
	options := Options{BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond}
	client, _ := newCountedClient(t, options, address)
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
		backoff := n.downUntil.Sub(dialed)
		if remaining := time.Until(n.downUntil); remaining > most {
			t.Errorf("failure %d: %v of backoff remain, want at most %v", failures+1, remaining, most)
		}
		// At most half of the backoff is random.
		if backoff < most/2 {
			t.Errorf("failure %d: backoff of %v, want at least %v", failures+1, backoff, most/2)
		}
		check.Equal(t, "failures", n.failures, dials)
	}
	check.Equal(t, "connection attempts", dials, 5)
	port := address[strings.LastIndexByte(address, ':')+1:]
	testserver.Run(t, "memcached", "-l", "127.0.0.1", "-p", port)
	testserver.Await(t, "tcp", address)
	client.DialContext = nil
	time.Sleep(time.Until(n.downUntil) + time.Millisecond)
	check.NoError(t, client.Ping())
	check.Equal(t, "failures after a success", n.failures, 0)
	check.Equal(t, "backoff has ended", n.downUntil.IsZero(), true)
}
