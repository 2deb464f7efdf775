//go:build !race

package client

import (
	"strings"
	"testing"
)

// An item and its value, as from the socket.
func TestAReadInTheMemoryAllocatesTheItemAlone(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	key := strings.Repeat("k", 100)
	must(t, c.Set(&Item{Key: key, Value: make([]byte, 1000)}))
	_, err := c.Get(key)
	must(t, err)
	if allocations := testing.AllocsPerRun(1000, func() { _, err = c.Get(key) }); allocations > 2 || err != nil {
		t.Errorf("%v allocations, %v", allocations, err)
	}
}
