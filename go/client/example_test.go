package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"larder.example/larder"
	"larder.example/larder/client"
	"larder.example/larder/server"
)

// The server is one of package larder/server here; any memcached and larderd will do.
func Example() {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(cache, server.Options{})
	defer s.Close()
	go s.Serve(listener)

	c := client.New(listener.Addr().String())
	defer c.Close()
	if err := c.Set(&client.Item{Key: "greeting", Value: []byte("hello"), Expiration: 60}); err != nil {
		log.Fatal(err)
	}
	item, err := c.Get("greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", item.Value)
	_, err = c.Get("farewell")
	fmt.Println(err == client.ErrCacheMiss)
	// Output:
	// hello
	// true
}

func ExampleNew() {
	c := client.New("127.0.0.1:11211", "[::1]:11211", "/run/larder.sock")
	defer c.Close()
	if err := c.Set(&client.Item{Key: "greeting", Value: []byte("hello"), Expiration: 60}); err != nil {
		log.Fatal(err)
	}
	switch item, err := c.Get("greeting"); {
	case err == client.ErrCacheMiss:
		fmt.Println("no greeting")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Printf("%s\n", item.Value)
	}
}

func ExampleNewWithOptions() {
	c, err := client.NewWithOptions(client.Options{
		Servers:  []string{"cache-1:11211", "cache-2:11211", "cache-3:11211"},
		Hashing:  client.HashKetama,
		Failover: client.FailoverNext,
		Timeout:  100 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	items, err := c.GetMultiContext(ctx, []string{"a", "b", "c"})
	if errors.Is(err, context.DeadlineExceeded) {
		log.Print("some servers took too long")
	}
	fmt.Println(len(items))
}

func ExampleServerList() {
	list := &client.ServerList{Hashing: client.HashKetama}
	if err := list.SetServers("10.0.1.1:11211", "10.0.1.2:11211"); err != nil {
		log.Fatal(err)
	}
	addr, err := list.PickServer("greeting")
	fmt.Println(addr, err)
	fmt.Println(list.SetServers("10.0.1.1"))
	// Output:
	// 10.0.1.1:11211 <nil>
	// larder client: invalid server "10.0.1.1": want host:port, [v6]:port, or the path of a unix socket
}

func ExampleClient_Incr() {
	c := client.New("127.0.0.1:11211")
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The first visit of an hour is visit 1.
	visits, err := c.Incr(ctx, "visits", 1, 1, 3600)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("visit", visits)
}

func ExampleClient_Update() {
	c := client.New("127.0.0.1:11211")
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := c.Update(ctx, "basket:7", func(item *client.Item, found bool) error {
		if found {
			item.Value = append(item.Value, ',')
		}
		item.Value = append(item.Value, "apple"...)
		item.Expiration = 3600
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Stats() {
	c := client.New("127.0.0.1:11211", "127.0.0.1:11212")
	defer c.Close()
	all, err := c.Stats(context.Background(), "")
	if err != nil {
		log.Print(err) // the statistics of the other servers are in all
	}
	for server, stats := range all {
		fmt.Println(server, stats["curr_items"], stats["get_hits"])
	}
}

func ExampleClient_AuthPlain() {
	c, err := client.NewWithOptions(client.Options{
		Servers: []string{"127.0.0.1:11211"}, Protocol: client.ProtocolBinary,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	switch err := c.AuthPlain(context.Background(), "app", "secret"); {
	case errors.Is(err, client.ErrLogin):
		fmt.Println("wrong user or password")
	case err != nil:
		log.Fatal(err)
	}
}
