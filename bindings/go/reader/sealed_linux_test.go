//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package reader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file with a name can be cut off while it is read: a caller may name one, a server may not pass one.
func TestWhatAServerPassesIsSealed(t *testing.T) {
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
		t.Errorf("a file that a server passes: %v", err)
	}
	if _, err := mapRegion(file, false); err == nil || strings.Contains(err.Error(), "not sealed") {
		t.Errorf("a file that the caller names: %v", err)
	}
}
