// localread SOCKET KEY prints the value of a key from the memory of the larderd that listens on the
// socket. It requests nothing but the memory from the server.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"larder.example/larder/reader"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "localread:", err)
		os.Exit(1)
	}
}

func run(socket, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	local, err := reader.Attach(ctx, socket)
	if err != nil {
		return err
	}
	defer local.Close()
	value, _, found := local.Get(nil, []byte(key))
	if !found {
		return fmt.Errorf("%s is not in the memory", key)
	}
	fmt.Println(string(value))
	return nil
}
