package larder_test

import (
	"os/exec"
	"strings"
	"testing"

	"larder.example/larder/internal/check"
)

// A program with a cache in the process does not link packages that only a server or its client
// needs.
func TestTheCacheInTheProcessImportsNoNetwork(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		// conformance/elsewhere.sh runs the tests on other systems without the go command. CI does not
		// accept this skip.
		t.Skip("the test needs the go command")
	}
	listed, err := exec.Command(goCommand, "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, listed)
	}
	packages := strings.Fields(string(listed))
	check.Equal(t, "the list has package larder", packages[len(packages)-1], "larder.example/larder")
	for _, name := range packages {
		own, isOwn := strings.CutPrefix(name, "larder.example/larder/")
		switch {
		case isOwn && !strings.HasPrefix(own, "internal/"):
			t.Errorf("package larder imports %s, want it to import internal packages of its module only", name)
		case name == "net" || strings.HasPrefix(name, "crypto/tls") || name == "encoding/json" || name == "os/exec":
			t.Errorf("package larder imports %s, which a cache in the process does not need", name)
		}
	}
}
