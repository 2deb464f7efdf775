package reader_test

import (
	"bufio"
	"bytes"
	"context"
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

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
	"larder.example/larder/reader"
)

// getter is a Region or an Attachment.
type getter interface {
	Get(dst, key []byte) ([]byte, reader.Info, bool)
}

// wantValue reports an error if the value of a key is not want.
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

// server is a larderd with a unix socket.
type server struct {
	socket  string
	process *exec.Cmd
}

// startLarderd starts a larderd that shares its memory with this user.
func startLarderd(t testing.TB, options ...string) *server {
	t.Helper()
	return startLarderdAt(t, testserver.Socket(t), options...)
}

// startLarderdAt starts a larderd at a socket that another larderd may have used.
func startLarderdAt(t testing.TB, socket string, options ...string) *server {
	t.Helper()
	options = append([]string{"--local-readers", "same-uid"}, options...)
	return &server{socket, testserver.RunAt(t, socket, "larderd", options...)}
}

// kill kills the server and waits for its end.
func (s *server) kill() { testserver.Kill(s.process) }

func (s *server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	check.NoError(t, s.process.Process.Signal(signal))
}

func attach(t testing.TB, s *server) *reader.Attachment {
	t.Helper()
	local, err := reader.Attach(context.Background(), s.socket)
	check.NoError(t, err)
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
	check.NoError(t, err)
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
	check.NoError(t, err)
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
		check.NoError(t, err)
		line = strings.TrimRight(next, "\r\n")
	}
	return number
}

// get reads a value through the socket. The benchmark uses it.
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

// copyRegion writes a changed copy of a region to a file, and returns its path.
func copyRegion(t testing.TB, text []byte, change func(region []byte)) string {
	t.Helper()
	region := bytes.Clone(text)
	change(region)
	path := filepath.Join(t.TempDir(), "copy")
	check.NoError(t, os.WriteFile(path, region, 0o600))
	return path
}

// sceneNamed returns the scene with a name, and the bytes of its region.
func sceneNamed(t testing.TB, name string) (scene, []byte) {
	t.Helper()
	for _, scene := range scenes(t) {
		if scene.name == name {
			text, err := os.ReadFile(scene.path)
			check.NoError(t, err)
			return scene, text
		}
	}
	t.Fatalf("no scene %q", name)
	return scene{}, nil
}

// serveResponse starts a server that calls answer for the first request of each connection.
func serveResponse(t *testing.T, answer func(*net.UnixConn)) *server {
	t.Helper()
	socket := testserver.Socket(t)
	listener, err := net.Listen("unix", socket)
	check.NoError(t, err)
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
	check.NoError(t, err)
	return len(entries)
}

// waitForGoroutines waits until at most this number of goroutines run.
func waitForGoroutines(t *testing.T, atMost int) {
	t.Helper()
	check.Eventually(t, "end of goroutines", func() bool { return runtime.NumGoroutine() <= atMost })
}

// mappings returns the mappings of this process, a line each.
func mappings(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("this system does not list the mappings of a process: %v", err)
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
