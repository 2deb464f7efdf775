package check

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Repository returns the folder of the repository. It skips the test in a module that was fetched
// without the repository; CI requires it.
func Repository(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "../../..")
	if _, err := os.Stat(filepath.Join(root, "conformance/api/cases.json")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI requires the repository around the module: %v", err)
		}
		t.Skip("the module is not in its repository")
	}
	return root
}
