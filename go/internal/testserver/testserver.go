// Package testserver starts the servers of tests: larderd and memcached.
package testserver

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Find returns the path of a server's program. For larderd it is the program that LARDERD names, or
// otherwise the program built in this tree. Tests that need a missing program fail if isRequired,
// and are skipped otherwise.
func Find(program string) (path string, isRequired bool, err error) {
	isRequired = os.Getenv("CI") != ""
	path, advice := program, "run conformance/install.sh"
	if program == "larderd" {
		path, advice = os.Getenv("LARDERD"), "run `make build`, or set LARDERD"
		if path != "" {
			isRequired = true
		} else {
			_, file, _, _ := runtime.Caller(0)
			path = filepath.Join(filepath.Dir(file), "../../../target/release/larderd")
		}
	}
	if path, err = exec.LookPath(path); err != nil {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return path, isRequired, err
}

// Command returns the command of a small server. As root, a server requires an explicit user.
func Command(path string, args ...string) *exec.Cmd {
	options := []string{"-m", "64", "-t", "2", "-U", "0"}
	if os.Getuid() == 0 {
		options = append(options, "-u", "root")
	}
	return exec.Command(path, append(options, args...)...)
}

// Run starts a server process, which ends with the test.
func Run(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	path, isRequired, err := Find(program)
	switch {
	case err != nil && isRequired:
		t.Fatal(err)
	case err != nil:
		t.Skipf("only CI, or a set LARDERD, requires the server: %v", err)
	}
	// go test repeats a cached result if the environment is the same, also with another server.
	_ = os.Getenv("LARDERD_BUILD")
	server := Command(path, args...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Kill(server) })
	return server
}

// Start starts a server at a unix socket and returns its path. The server ends with the test.
func Start(t testing.TB, program string, args ...string) (socket string) {
	t.Helper()
	socket = Socket(t)
	RunAt(t, socket, program, args...)
	return socket
}

// RunAt starts a server at a unix socket, which another server may have used.
func RunAt(t testing.TB, socket, program string, args ...string) *exec.Cmd {
	t.Helper()
	server := Run(t, program, append([]string{"-s", socket}, args...)...)
	Await(t, "unix", socket)
	return server
}

// Kill ends a server as a crash would. It does nothing if the server has ended.
func Kill(server *exec.Cmd) {
	_ = server.Process.Kill()
	_ = server.Wait()
}

// Await waits until a server accepts connections. It fails the test after a minute: a loaded
// machine may take many seconds to start a process.
func Await(t testing.TB, network, address string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if conn, err := net.Dial(network, address); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no server at %s after a minute", address)
}

// Socket returns a path for a socket. Paths below t.TempDir may exceed the system's limit.
func Socket(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "larder")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "sock")
}
