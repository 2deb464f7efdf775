package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"larder.example/larder"
	"larder.example/larder/remote"
)

// The server is a larderd with --local-readers, on the same machine: hits need no system call.
func ExampleConnect() {
	ctx := context.Background()
	cache, err := remote.Connect(ctx, "/run/larderd/larderd.sock")
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	value, err := cache.Get(ctx, "greeting")
	switch {
	case errors.Is(err, larder.ErrNotFound):
		fmt.Println("not there")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(string(value))
	}
}
