package server_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"larder.example/larder"
	"larder.example/larder/client"
	"larder.example/larder/server"
)

// The program and the clients of the server use one cache.
func Example() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20, CAS: true})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(cache, server.Options{})
	go s.Serve(listener)

	if err := cache.Set("greeting", []byte("hello"), time.Minute); err != nil {
		log.Fatal(err)
	}
	c := client.New(listener.Addr().String())
	defer c.Close()
	item, err := c.Get("greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", item.Value)

	if err := s.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}
