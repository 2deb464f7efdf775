// Command cacheserver serves a cache to memcached clients until it is interrupted.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os/signal"
	"strings"
	"syscall"

	"larder.example/larder"
	"larder.example/larder/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:11211", "host and port, or the path of a unix socket")
	mebibytes := flag.Int64("memory", 256, "memory of the cache, in MiB")
	flag.Parse()
	cache, err := larder.Open(larder.Options{Memory: *mebibytes << 20, CAS: true})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	network := map[bool]string{false: "tcp", true: "unix"}[strings.Contains(*listen, "/")]
	listener, err := net.Listen(network, *listen)
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(cache, server.Options{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	go func() {
		log.Print(s.Serve(listener))
		stop()
	}()
	<-ctx.Done()
	s.Shutdown(context.Background()) // waits for requests that have arrived in part
}
