package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"larder/client"
)

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
