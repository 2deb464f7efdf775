package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func TestFailoverNext(t *testing.T) {
	dead, alive := freePort(t), testserver.Start(t, "memcached")
	keys := testKeys(50)
	for _, hashing := range []Hashing{HashModulo, HashKetama, HashKetamaUnweighted, HashRendezvous} {
		t.Run(fmt.Sprint("hashing ", hashing), func(t *testing.T) {
			options := Options{Hashing: hashing, Failover: FailoverNext, Timeout: 5 * time.Second}
			client, _ := newCountedClient(t, options, dead, alive)
			for _, key := range keys {
				check.NoError(t, client.Set(&Item{Key: key, Value: []byte(key)}))
			}
			items, err := client.GetMulti(keys)
			check.NoError(t, err)
			check.Equal(t, "items with FailoverNext", len(items), len(keys))
			client, _ = newCountedClient(t, Options{Hashing: hashing, Timeout: 5 * time.Second}, dead, alive)
			items, err = client.GetMulti(keys)
			wantErrorAs[*FaultError](t, err)
			if len(items) == 0 || len(items) == len(keys) {
				t.Errorf("%d items with FailoverError, want some of %d", len(items), len(keys))
			}
		})
	}
	client, _ := newCountedClient(t, Options{Failover: FailoverNext}, dead, freePort(t))
	_, err := client.GetMulti(testKeys(3))
	check.ErrorIs(t, "GetMulti", err, syscall.ECONNREFUSED)
	_, err = client.Get("k")
	check.ErrorIs(t, "Get", err, ErrServerDown)
}

func TestIncrementIsNotRetried(t *testing.T) {
	var increments atomic.Int32
	client, _ := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for range 2 {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "ma") {
				// Executed, but without a response.
				increments.Add(1)
				return
			}
			io.WriteString(conn, "MN\r\n")
		}
	}))
	check.NoError(t, client.Ping())
	_, err := client.Increment("n", 1)
	check.ErrorIs(t, "Increment", err, io.EOF)
	check.Equal(t, "increments", increments.Load(), 1)
	// The server closes each connection after two lines: a request without effect is retried.
	check.NoError(t, client.Ping())
	check.NoError(t, client.Ping())
	check.NoError(t, client.Ping())
}

// applyAndHangUp responds to pings. It counts each change and closes the connection without a
// response.
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

func TestChangesAreNotRetried(t *testing.T) {
	check.GoroutineLeaks(t)
	item := &Item{Key: "k", Value: []byte("v")}
	large := &Item{Key: "k", Value: make([]byte, 100_000)}
	for name, change := range map[string]func(*Client) error{
		"set":           func(c *Client) error { return c.Set(item) },
		"large set":     func(c *Client) error { return c.Set(large) },
		"add":           func(c *Client) error { return c.Add(item) },
		"touch":         func(c *Client) error { return c.Touch("k", 5) },
		"get and touch": func(c *Client) error { _, err := c.GetAndTouch("k", 5); return err },
		"delete":        func(c *Client) error { return c.Delete("k") },
		"flush":         (*Client).FlushAll,
	} {
		t.Run(name, func(t *testing.T) {
			var changes atomic.Int64
			options := Options{Protocol: ProtocolMeta, Timeout: 5 * time.Second}
			client, connections := newCountedClient(t, options, fakeServer(t, applyAndHangUp(&changes)))
			// The change then goes through an idle connection.
			check.NoError(t, client.Ping())
			wantErrorAs[*FaultError](t, change(client))
			check.Equal(t, "executions", changes.Load(), 1)
			wantOpen(t, connections, 0)
		})
	}
}

func TestChangeUsesNewConnectionIfIdleOneIsClosed(t *testing.T) {
	check.GoroutineLeaks(t)
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
	client := newClient(t, Options{Protocol: ProtocolMeta, Servers: []string{address}})
	check.NoError(t, client.Ping())
	n := client.node(client.selector.(*ServerList).addrs[0])
	n.mu.Lock()
	idle := n.idle[0]
	n.mu.Unlock()
	check.Equal(t, "check of an open connection", idle.alive.check(), true)
	close(closing)
	check.Eventually(t, "end of the idle connection", func() bool { return !idle.alive.check() })
	check.NoError(t, client.Delete("k"))
	check.Equal(t, "connections", served.Load(), 2)
}

func TestReadIsRetriedAfterRestart(t *testing.T) {
	address := freePort(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	first := testserver.Run(t, "memcached", "-l", "127.0.0.1", "-p", port)
	testserver.Await(t, "tcp", address)
	c := newClient(t, Options{Servers: []string{address}})
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	first.Process.Kill()
	first.Wait()
	// Wait until the kernel has closed the connection of the killed server.
	time.Sleep(10 * time.Millisecond)
	testserver.Run(t, "memcached", "-l", "127.0.0.1", "-p", port)
	testserver.Await(t, "tcp", address)
	_, err := c.Get("k")
	wantOutcome(t, err, ErrCacheMiss)
}
