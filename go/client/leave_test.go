package client

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// missingServers returns servers that answer each get by a miss.
func missingServers(t *testing.T, count int) (servers []string) {
	for range count {
		servers = append(servers, fakeServer(t, replyWith("EN\r\n")))
	}
	return servers
}

// visitAll sends a request to each server of a list of many.
func visitAll(t *testing.T, c *Client) {
	t.Helper()
	for n := range 200 {
		if _, err := c.Get(fmt.Sprint("key ", n)); !errors.Is(err, ErrCacheMiss) {
			t.Fatalf("Get: error %v, want %v", err, ErrCacheMiss)
		}
	}
}

func TestConnectionsToServersThatLeaveTheListAreClosed(t *testing.T) {
	list, servers := new(ServerList), missingServers(t, 6)
	check.NoError(t, list.SetServers(servers[:4]...))
	c, connections := newCountedClient(t, Options{Selector: list, Protocol: ProtocolMeta})
	visitAll(t, c)
	wantOpen(t, connections, 4)
	check.NoError(t, list.SetServers(servers[2:]...))
	visitAll(t, c)
	wantOpen(t, connections, 4)
	check.NoError(t, list.SetServers(servers[5]))
	visitAll(t, c)
	wantOpen(t, connections, 1)
	// If a server returns to the list, the client opens new connections.
	check.NoError(t, list.SetServers(servers[:2]...))
	visitAll(t, c)
	wantOpen(t, connections, 2)
}

// rotation is a selector of another kind, with one server at a time.
type rotation struct{ now string }

func (r *rotation) PickServer(string) (net.Addr, error) { return serverAddr{"tcp", r.now}, nil }
func (r *rotation) Each(f func(net.Addr) error) error   { return f(serverAddr{"tcp", r.now}) }

func TestConnectionsToServersOfOtherSelectorsAreClosed(t *testing.T) {
	selector, servers := new(rotation), missingServers(t, 10)
	c, connections := newCountedClient(t, Options{Selector: selector, Protocol: ProtocolMeta})
	for _, server := range servers {
		selector.now = server
		visitAll(t, c)
		wantOpen(t, connections, 1)
	}
}

func TestAConnectionInUseWhenItsServerLeavesIsClosedThen(t *testing.T) {
	answer := make(chan struct{})
	slow := fakeServer(t, func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1000)); err == nil {
			<-answer
			_, _ = conn.Write([]byte("EN\r\n"))
			_, _ = conn.Read(make([]byte, 1))
		}
	})
	list := new(ServerList)
	check.NoError(t, list.SetServers(slow))
	c, connections := newCountedClient(t, Options{Selector: list, Protocol: ProtocolMeta, Timeout: 10 * time.Second})
	got := make(chan error)
	go func() {
		_, err := c.Get("k")
		got <- err
	}()
	check.Eventually(t, "a connection", func() bool { return addTo(connections.open, 0) == 1 })
	check.NoError(t, list.SetServers(missingServers(t, 1)...))
	_, err := c.Get("k")
	check.ErrorIs(t, "Get from the other server", err, ErrCacheMiss)
	close(answer)
	check.ErrorIs(t, "Get from the server that has left", <-got, ErrCacheMiss)
	wantOpen(t, connections, 1)
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	const timeout = time.Second
	c, connections := newCountedClient(t, Options{Protocol: ProtocolMeta, IdleTimeout: timeout}, missingServers(t, 1)...)
	for range 10 {
		// A connection in use stays.
		visitAll(t, c)
		time.Sleep(timeout / 10)
	}
	check.Equal(t, "connections opened", addTo(connections.dialed, 0), 1)
	check.Eventually(t, "no open connection", func() bool { return addTo(connections.open, 0) == 0 })
	visitAll(t, c)
	wantOpen(t, connections, 1)
	stays, connections := newCountedClient(t, Options{Protocol: ProtocolMeta, IdleTimeout: -1}, missingServers(t, 1)...)
	visitAll(t, stays)
	time.Sleep(timeout)
	wantOpen(t, connections, 1)
}
