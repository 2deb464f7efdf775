//go:build !race && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package client

import (
	"strings"
	"testing"

	"larder.example/larder/internal/check"
)

func TestLocalReadAllocations(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	key := strings.Repeat("k", 100)
	check.NoError(t, c.Set(&Item{Key: key, Value: make([]byte, 1000)}))
	_, err := c.Get(key)
	check.NoError(t, err)
	// The item and its value, as for a read through the socket.
	const most = 2
	allocations := testing.AllocsPerRun(1000, func() { _, err = c.Get(key) })
	check.NoError(t, err)
	if allocations > most {
		t.Errorf("Get: %v allocations, want at most %d", allocations, most)
	}
}
