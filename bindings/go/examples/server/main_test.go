package main

import (
	"context"
	"errors"
	"net"
	"testing"

	"larder/client"
	"larder/client/wire"
)

func TestAClientTakesItForAServer(t *testing.T) {
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
		t.Fatal(err)
	}
	if item, err := c.Get("greeting"); err != nil || string(item.Value) != "hello" {
		t.Fatal(item, err)
	}
	if items, err := c.GetMulti([]string{"a", "greeting", "b"}); err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	if err := c.Set(&client.Item{Key: "large", Value: make([]byte, 1000)}); !errors.Is(err, client.ErrServerError) {
		t.Fatal(err)
	}
	if err := c.Delete("greeting"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get("greeting"); err != client.ErrCacheMiss {
		t.Fatal(err)
	}
	// It returns with connections open, for it closes them.
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
