package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"larder.example/larder/client"
	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func TestMain(m *testing.M) {
	if os.Getenv("CACHESERVER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run starts the program with arguments.
func run(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	program := exec.Command(os.Args[0], arguments...)
	program.Env = append(os.Environ(), "CACHESERVER=1")
	check.NoError(t, program.Start())
	t.Cleanup(func() { testserver.Kill(program) })
	return program
}

func TestServesAllProtocolsUntilInterrupted(t *testing.T) {
	socket := testserver.Socket(t)
	program := run(t, "-listen", socket, "-memory", "16")
	testserver.Await(t, "unix", socket)
	for protocol, name := range []string{"auto", "meta", "text", "binary"} {
		c, err := client.NewWithOptions(client.Options{Servers: []string{socket}, Protocol: client.Protocol(protocol)})
		check.NoError(t, err)
		check.NoError(t, c.Set(&client.Item{Key: name, Value: []byte("hello"), Flags: 7}))
		item, err := c.Get(name)
		check.NoError(t, err)
		check.Equal(t, "Value", string(item.Value), "hello")
		check.NoError(t, c.CompareAndSwap(item))
		check.ErrorIs(t, "CompareAndSwap", c.CompareAndSwap(item), client.ErrCASConflict)
		count, err := c.Incr(context.Background(), "count-"+name, 1, 5, 60)
		check.NoError(t, err)
		check.Equal(t, "Incr", count, 5)
		check.NoError(t, c.Close())
	}
	idle, err := net.Dial("unix", socket)
	check.NoError(t, err)
	defer idle.Close()
	// A connection that the program has not accepted yet is reset when it ends.
	_, err = idle.Write([]byte("version\r\n"))
	check.NoError(t, err)
	line, err := bufio.NewReader(idle).ReadString('\n')
	check.NoError(t, err)
	check.Equal(t, "version", strings.HasPrefix(line, "VERSION "), true)
	check.NoError(t, program.Process.Signal(os.Interrupt))
	_, err = io.ReadAll(idle)
	check.NoError(t, err)
	check.NoError(t, program.Wait())
}

func TestSourceIsShort(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(".", "main.go"))
	check.NoError(t, err)
	lines := 0
	for _, c := range source {
		if c == '\n' {
			lines++
		}
	}
	if lines > 40 {
		t.Errorf("main.go has %d lines; the documentation promises at most 40", lines)
	}
}
