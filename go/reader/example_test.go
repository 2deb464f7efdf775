package reader_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"larder.example/larder/internal/testserver"
	"larder.example/larder/reader"
)

// A program reads hits in a larderd's memory, and requests the rest from the server.
func Example() {
	folder, err := os.MkdirTemp("", "larder")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "socket")
	stop := exampleServer(socket)
	defer stop()

	local, err := reader.Attach(context.Background(), socket)
	if err != nil {
		fmt.Println("using only the socket:", err)
		return
	}
	defer local.Close()

	buffer := make([]byte, 0, 1024)
	for _, key := range []string{"greeting", "farewell"} {
		if value, info, ok := local.Get(buffer, []byte(key)); ok {
			fmt.Printf("%s: %s (flags %d)\n", key, value, info.Flags)
		} else {
			fmt.Printf("%s: request from the server\n", key)
		}
	}
	// Output:
	// greeting: hello (flags 7)
	// farewell: request from the server
}

// exampleServer starts a larderd with one item.
func exampleServer(socket string) (stop func()) {
	program, _, err := testserver.Find("larderd")
	if err != nil {
		panic(err)
	}
	server := testserver.Command(program, "-s", socket, "--local-readers", "same-uid")
	if err := server.Start(); err != nil {
		panic(err)
	}
	for range 500 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		fmt.Fprint(conn, "set greeting 7 0 5\r\nhello\r\n")
		_, _ = conn.Read(make([]byte, 100))
		_ = conn.Close()
		break
	}
	return func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
}
