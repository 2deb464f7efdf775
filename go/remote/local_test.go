//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package remote

import (
	"testing"

	"larder.example/larder/internal/check"
)

func TestRemoteReadsHitsInTheMemoryOfTheServer(t *testing.T) {
	remote := connectToServer(t, "--local-readers", "same-uid")
	check.NoError(t, remote.Set(t.Context(), "k", []byte("v"), 0))
	// The client receives the memory with its first or second connection.
	check.Eventually(t, "a local read", func() bool {
		_, item, err := remote.GetItem(t.Context(), "k")
		return err == nil && item.Local
	})
	if remote.LocalReads() == 0 {
		t.Error("LocalReads = 0 after a local read")
	}
}
