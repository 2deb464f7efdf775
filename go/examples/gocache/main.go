// Command gocache is a memcached server in less than 100 lines, for the text, meta and binary
// protocols: package wire provides everything except the cache, which is a map here. Its items do
// not expire.
package main

import (
	"bytes"
	"context"
	"flag"
	"log"
	"net"
	"strconv"
	"sync"

	"larder.example/larder/wire"
)

type cache struct {
	mu    sync.Mutex
	items map[string]wire.Result
	// cas is the token of the last store.
	cas uint64
}

func (c *cache) do(r *wire.Command) wire.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, found := c.items[string(r.Key)]
	switch r.Verb {
	case wire.TextGet:
		if !found {
			return wire.Result{Kind: wire.TextEnd}
		}
		return old
	case wire.TextSet, wire.TextAdd, wire.TextReplace, wire.TextCAS:
		return c.store(r, old, found)
	case wire.TextIncr:
		return c.add(r, old, found)
	case wire.TextDelete:
		if !found {
			return wire.Result{Kind: wire.TextNotFound}
		}
		delete(c.items, string(r.Key))
		return wire.Result{Kind: wire.TextDeleted}
	case wire.TextFlushAll:
		clear(c.items)
		return wire.Result{Kind: wire.TextOK}
	case wire.TextVersion:
		return wire.Result{Kind: wire.TextVersionIs, Text: "1.6.40-gocache"}
	case wire.TextStats:
		return wire.Result{Kind: wire.TextEnd, Stats: []string{"curr_items", strconv.Itoa(len(c.items))}}
	}
	return wire.Result{} // an unknown command
}

func (c *cache) store(r *wire.Command, old wire.Result, found bool) wire.Result {
	switch {
	case r.Verb == wire.TextAdd && found, r.Verb == wire.TextReplace && !found:
		return wire.Result{Kind: wire.TextNotStored}
	case r.Verb == wire.TextCAS && !found:
		return wire.Result{Kind: wire.TextNotFound}
	case r.Verb == wire.TextCAS && r.CAS != old.CAS:
		return wire.Result{Kind: wire.TextExists}
	}
	c.put(r.Key, bytes.Clone(r.Value), r.Flags)
	return wire.Result{Kind: wire.TextStored, CAS: c.cas}
}

func (c *cache) add(r *wire.Command, old wire.Result, found bool) wire.Result {
	number, isNumber := wire.ParseUint(old.Value)
	switch {
	case !found && !r.Creates:
		return wire.Result{Kind: wire.TextNotFound}
	case !found:
		number = r.Initial
	case !isNumber:
		return wire.Result{Kind: wire.TextClientError, Text: "cannot increment or decrement non-numeric value"}
	default:
		number += r.Delta
	}
	c.put(r.Key, strconv.AppendUint(nil, number, 10), old.Flags)
	return wire.Result{Kind: wire.TextNumber, Number: number, CAS: c.cas}
}

func (c *cache) put(key, value []byte, flags uint32) {
	c.cas++
	c.items[string(key)] = wire.Result{Kind: wire.TextValue, Value: value, Flags: flags, CAS: c.cas}
}

func main() {
	address := flag.String("listen", "127.0.0.1:11211", "host and port")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	c := &cache{items: make(map[string]wire.Result)}
	server := wire.Server{Handler: wire.CommandHandler(c.do), MaxMessageBytes: 1 << 20}
	log.Fatal(server.Serve(context.Background(), listener))
}
