//go:build !race

package client

import (
	"strings"
	"testing"
)

func TestLocalReadAllocations(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	key := strings.Repeat("k", 100)
	must(t, c.Set(&Item{Key: key, Value: make([]byte, 1000)}))
	_, err := c.Get(key)
	must(t, err)
	// The item and its value, as for a read through the socket.
	const most = 2
	allocations := testing.AllocsPerRun(1000, func() { _, err = c.Get(key) })
	must(t, err)
	if allocations > most {
		t.Errorf("Get: %v allocations, want at most %d", allocations, most)
	}
}
