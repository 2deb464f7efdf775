//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package reader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A named file can be truncated while it is mapped: a caller may open one, but a server must not
// share one.
func TestSharedMemoryMustBeSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "region")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := mapRegion(file, true); err == nil || !strings.Contains(err.Error(), "not sealed") {
		t.Errorf("mapRegion of a server's file: error %v, want %q", err, "not sealed")
	}
	if _, err := mapRegion(file, false); err == nil || strings.Contains(err.Error(), "not sealed") {
		t.Errorf("mapRegion of a caller's file: error %v, want another than %q", err, "not sealed")
	}
}
