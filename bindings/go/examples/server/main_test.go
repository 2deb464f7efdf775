package main

import (
	"context"
	"errors"
	"net"
	"testing"

	"larder/client"
	"larder/client/wire"
)

func TestClientGetsSetsAndDeletes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	server := wire.Server{Handler: &cache{items: make(map[string][]byte)}, MaxMessageBytes: 1000}
	go func() { ended <- server.Serve(ctx, listener) }()

	c := client.New(listener.Addr().String())
	if err := c.Set(&client.Item{Key: "greeting", Value: []byte("hello")}); err != nil {
		t.Fatalf("Set: %v", err)
	}
	if item, err := c.Get("greeting"); err != nil || string(item.Value) != "hello" {
		t.Fatalf("Get = %+v, %v, want %q", item, err, "hello")
	}
	if items, err := c.GetMulti([]string{"a", "greeting", "b"}); err != nil || len(items) != 1 {
		t.Fatalf("GetMulti = %v, %v, want one item", items, err)
	}
	err = c.Set(&client.Item{Key: "large", Value: make([]byte, 1000)})
	if !errors.Is(err, client.ErrServerError) {
		t.Fatalf("Set of 1000 bytes: error %v, want %v", err, client.ErrServerError)
	}
	if err := c.Delete("greeting"); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	if _, err := c.Get("greeting"); err != client.ErrCacheMiss {
		t.Fatalf("Get after Delete: error %v, want %v", err, client.ErrCacheMiss)
	}
	// Serve closes the open connections.
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
