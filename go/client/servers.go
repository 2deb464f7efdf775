package client

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// ServerSelector maps keys to servers. Implementations may discover servers in any way. Two
// addresses are the same server if their String methods return the same string.
type ServerSelector interface {
	// PickServer returns the server of a key.
	PickServer(key string) (net.Addr, error)
	// Each calls f for each server, until f returns an error.
	Each(f func(net.Addr) error) error
}

// ServerList is a list of servers that can change at any time. The zero value is an empty list that
// picks servers as gomemcache does.
type ServerList struct {
	// Hashing must be set before the first SetServers.
	Hashing Hashing

	mu    sync.RWMutex
	addrs []net.Addr
	ring  ring
	// changes counts the changes of the list, so that clients notice them.
	changes atomic.Uint64
}

// serverAddr is an unresolved address: each connection resolves it again, so that servers can move.
type serverAddr struct{ network, address string }

func (a serverAddr) Network() string { return a.network }
func (a serverAddr) String() string  { return a.address }

// SetServers replaces the list. Each server is "host:port", "[v6]:port" or the path of a unix
// socket. If one of them is invalid, SetServers returns an error and keeps the old list.
func (s *ServerList) SetServers(servers ...string) error { return s.SetWeighted(servers, nil) }

// SetWeighted is like SetServers, with the relative shares of the servers. The shares are equal if
// weights is empty.
func (s *ServerList) SetWeighted(servers []string, weights []int) error {
	if len(weights) != 0 && len(weights) != len(servers) {
		return fmt.Errorf("larder client: %d weights for %d servers", len(weights), len(servers))
	}
	addrs := make([]net.Addr, len(servers))
	for i, server := range servers {
		addr, err := parseServer(server)
		if err != nil {
			return err
		}
		addrs[i] = addr
	}
	ring, err := newRing(s.Hashing, addrs, weights)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.addrs, s.ring = addrs, ring
	s.changes.Add(1)
	s.mu.Unlock()
	return nil
}

func parseServer(server string) (net.Addr, error) {
	if strings.Contains(server, "/") {
		return serverAddr{"unix", server}, nil
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil || host == "" && port == "" {
		return nil, fmt.Errorf("larder client: invalid server %q: want host:port, [v6]:port, or the path of a unix socket", server)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return nil, fmt.Errorf("larder client: invalid port in server %q", server)
	}
	return serverAddr{"tcp", server}, nil
}

// PickServer returns the server of a key, or ErrNoServers.
func (s *ServerList) PickServer(key string) (net.Addr, error) { return s.pick(key, 0) }

// pick returns the server to use for a key. tried is the number of servers for the key that have
// failed already. It returns nil if no servers are left.
func (s *ServerList) pick(key string, tried int) (net.Addr, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case len(s.addrs) == 0:
		return nil, ErrNoServers
	case tried >= len(s.addrs):
		return nil, nil
	case len(s.addrs) == 1:
		return s.addrs[0], nil
	}
	return s.addrs[s.ring.pick(key, tried)], nil
}

// isSingle reports whether all keys are on one server.
func (s *ServerList) isSingle() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.addrs) == 1
}

// Each calls f for each server, until f returns an error.
func (s *ServerList) Each(f func(net.Addr) error) error {
	s.mu.RLock()
	addrs := s.addrs
	s.mu.RUnlock()
	for _, addr := range addrs {
		if err := f(addr); err != nil {
			return err
		}
	}
	return nil
}
