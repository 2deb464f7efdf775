package reader_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"larder/reader"
)

// server is a larderd, or a memcached, with a unix socket in a folder of its own.
type server struct {
	socket  string
	process *exec.Cmd
}

// findLarderd finds the program that LARDERD names, or the one built in this tree. It is a failure that there is none only
// where one was named, and in continuous integration.
func findLarderd() (path string, isFailure bool, err error) {
	named := os.Getenv("LARDERD")
	path, err = exec.LookPath(cmp.Or(named, "../../../target/release/larderd"))
	if err != nil {
		err = fmt.Errorf("no larderd to read from: make build, or name one by LARDERD: %w", err)
	}
	return path, named != "" || os.Getenv("CI") != "", err
}

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

func tempSocket(t testing.TB) string {
	t.Helper()
	// Not t.TempDir: a socket's path has room for a hundred bytes.
	folder, err := os.MkdirTemp("", "reader")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "socket")
}

// start starts a server, which ends with the test.
func startServer(t testing.TB, program, socket string, options ...string) *server {
	t.Helper()
	command := exec.Command(program, append([]string{"-s", socket}, options...)...)
	var said bytes.Buffer
	command.Stderr = &said
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
	t.Fatalf("%s does not accept connections: %s", program, &said)
	return nil
}

// startLarderd starts one that lets this user read.
func startLarderd(t testing.TB, options ...string) *server {
	t.Helper()
	return startServer(t, larderdPath(t), tempSocket(t), append([]string{"--local-readers", "same-uid", "-u", user()}, options...)...)
}

// user is who the tests are run by: as root a server wants to be told to go on as root.
func user() string {
	name, err := exec.Command("id", "-un").Output()
	if err != nil {
		return "root"
	}
	return strings.TrimSpace(string(name))
}

// end kills it, and waits.
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

// client speaks memcached's text protocol.
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

// ask sends a request, and gives the first line of the answer.
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
	if said := c.request(t, "set %s %d %d %d\r\n%s", key, flags, ttl, len(value), value); said != "STORED" {
		t.Fatalf("set %s: %s", key, said)
	}
}

// stat is one of the numbers of `stats`.
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

// get reads a value through the socket, for comparison.
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

// until waits for something, a few seconds at most.
func waitUntil(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	started := time.Now()
	for !condition() {
		if time.Since(started) > 10*time.Second {
			t.Fatalf("%s: never", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(started)
}
