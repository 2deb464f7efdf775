package reader_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"larder/reader"
)

// equal reports an error of the form "what = got, want want" if the two differ.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError reports an error if err does not match target.
func wantError(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// getter is a Region or an Attachment.
type getter interface {
	Get(dst, key []byte) ([]byte, reader.Info, bool)
}

// wantValue reports an error if a key has another value than want.
func wantValue(t testing.TB, local getter, key, want string) {
	t.Helper()
	if got, _, ok := local.Get(nil, []byte(key)); !ok || string(got) != want {
		t.Errorf("Get(%q) = %.40q, %v, want %.40q, true", key, got, ok, want)
	}
}

// wantNoValue reports an error if a key is found.
func wantNoValue(t testing.TB, local getter, key string) {
	t.Helper()
	if got, _, ok := local.Get(nil, []byte(key)); ok {
		t.Errorf("Get(%.40q) = %.40q, true, want false", key, got)
	}
}

// server is a larderd or a memcached with a unix socket.
type server struct {
	socket  string
	process *exec.Cmd
}

// findLarderd returns the path of the larderd that LARDERD names, or of the one built in this tree.
// Its absence is a failure only if LARDERD or CI is set.
func findLarderd() (path string, isFailure bool, err error) {
	named := os.Getenv("LARDERD")
	path, err = exec.LookPath(cmp.Or(named, "../../../target/release/larderd"))
	if err != nil {
		err = fmt.Errorf("no larderd: run `make build`, or set LARDERD: %w", err)
	}
	return path, named != "" || os.Getenv("CI") != "", err
}

// larderdPath returns the path of larderd. Without one it skips or fails the test.
func larderdPath(t testing.TB) string {
	t.Helper()
	path, isFailure, err := findLarderd()
	switch {
	case err != nil && isFailure:
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	return path
}

// tempSocket returns a path for a socket.
func tempSocket(t testing.TB) string {
	t.Helper()
	// Not t.TempDir: a socket path is limited to about a hundred bytes.
	folder, err := os.MkdirTemp("", "reader")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "socket")
}

// startServer starts a server, which ends with the test.
func startServer(t testing.TB, program, socket string, options ...string) *server {
	t.Helper()
	command := exec.Command(program, append([]string{"-s", socket}, options...)...)
	var output bytes.Buffer
	command.Stderr = &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{socket, command}
	t.Cleanup(s.kill)
	for range 500 {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.kill()
	t.Fatalf("%s does not accept connections after 5 s: %s", program, &output)
	return nil
}

// startLarderd starts a larderd that shares its memory with this user.
func startLarderd(t testing.TB, options ...string) *server {
	t.Helper()
	return startServer(t, larderdPath(t), tempSocket(t), append([]string{"--local-readers", "same-uid", "-u", user()}, options...)...)
}

// user returns the user of the tests. As root a server requires an explicit user.
func user() string {
	name, err := exec.Command("id", "-un").Output()
	if err != nil {
		return "root"
	}
	return strings.TrimSpace(string(name))
}

// kill kills the server and waits for its end.
func (s *server) kill() {
	if s.process.ProcessState == nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	}
}

func (s *server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func attach(t testing.TB, s *server) *reader.Attachment {
	t.Helper()
	local, err := reader.Attach(context.Background(), s.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	return local
}

// client is a connection that uses memcached's text protocol.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, s *server) *client {
	t.Helper()
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, bufio.NewReader(conn)}
}

// request sends a request, and returns the first line of the response.
func (c *client) request(t testing.TB, format string, arguments ...any) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(c, format+"\r\n", arguments...); err != nil {
		t.Fatal(err)
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(line, "\r\n")
}

func (c *client) set(t testing.TB, key string, flags, ttl int, value []byte) {
	t.Helper()
	response := c.request(t, "set %s %d %d %d\r\n%s", key, flags, ttl, len(value), value)
	if response != "STORED" {
		t.Fatalf("set %s: response %q, want STORED", key, response)
	}
}

// stat returns a number from the response to stats.
func (c *client) stat(t testing.TB, name string) (number int) {
	t.Helper()
	for line := c.request(t, "stats"); line != "END"; {
		_, _ = fmt.Sscanf(line, "STAT "+name+" %d", &number)
		next, err := c.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimRight(next, "\r\n")
	}
	return number
}

// get reads a value through the socket, for the benchmark.
func (c *client) get(into, key []byte) ([]byte, error) {
	if _, err := c.Write(append(append(append(into[:0], "get "...), key...), "\r\n"...)); err != nil {
		return nil, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	var bytesOf int
	if at := bytes.LastIndexByte(line, ' '); at >= 0 && line[0] == 'V' {
		for _, digit := range bytes.TrimRight(line[at+1:], "\r\n") {
			bytesOf = bytesOf*10 + int(digit-'0')
		}
	} else {
		return nil, nil
	}
	value := append(into[:0], make([]byte, bytesOf)...)
	if _, err := io.ReadFull(c.in, value); err != nil {
		return nil, err
	}
	_, err = c.in.Discard(len("\r\nEND\r\n"))
	return value, err
}

// waitUntil waits until a condition holds, and returns the time. It fails the test after ten
// seconds.
func waitUntil(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	started := time.Now()
	for !condition() {
		if time.Since(started) > 10*time.Second {
			t.Fatalf("after 10 s still waiting: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(started)
}

// copyRegion writes a changed copy of a region to a file, and returns its path.
func copyRegion(t testing.TB, text []byte, change func(region []byte)) string {
	t.Helper()
	region := bytes.Clone(text)
	change(region)
	path := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(path, region, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sceneNamed returns the scene with a name, and the bytes of its region.
func sceneNamed(t testing.TB, name string) (scene, []byte) {
	t.Helper()
	for _, scene := range scenes(t) {
		if scene.name == name {
			text, err := os.ReadFile(scene.path)
			if err != nil {
				t.Fatal(err)
			}
			return scene, text
		}
	}
	t.Fatalf("no scene %q", name)
	return scene{}, nil
}

// serveResponse starts a server that calls answer for the first request of each connection.
func serveResponse(t *testing.T, answer func(*net.UnixConn)) *server {
	t.Helper()
	socket := tempSocket(t)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 100))
			answer(conn.(*net.UnixConn))
			_ = conn.Close()
		}
	}()
	return &server{socket: socket}
}

// countDescriptors returns the number of open file descriptors.
func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// waitForGoroutines waits until at most this number of goroutines run.
func waitForGoroutines(t *testing.T, atMost int) {
	t.Helper()
	waitUntil(t, "end of goroutines", func() bool { return runtime.NumGoroutine() <= atMost })
}

// mappings returns the mappings of this process, a line each.
func mappings(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// countMappings returns the number of mappings of a file.
func countMappings(t *testing.T, path string) (count int) {
	for _, line := range mappings(t) {
		if strings.HasSuffix(line, path) {
			count++
		}
	}
	return count
}
