// Command server is a memcached server in a few lines: package wire provides all but the cache,
// which is a map here. It supports the meta commands that larder/client uses to get, set and
// delete.
package main

import (
	"bytes"
	"context"
	"log"
	"net"
	"sync"

	"larder/client/wire"
)

type cache struct {
	mu    sync.Mutex
	items map[string][]byte
}

func (c *cache) Answer(w *wire.Writer, r *wire.Request) {
	answer, key := wire.MetaResponse{Status: wire.MetaHeader}, string(r.Meta.Key)
	c.mu.Lock()
	defer c.mu.Unlock()
	value, found := c.items[key]
	switch {
	case r.Dialect != wire.Meta:
		w.Unknown(r)
		return
	case r.Meta.Verb == wire.MetaNoOp:
		answer.Status = wire.MetaNoOpDone
	case r.Meta.Verb == wire.MetaSet:
		c.items[key] = bytes.Clone(r.Meta.Value)
	case r.Meta.Verb == wire.MetaDelete && found:
		delete(c.items, key)
	case r.Meta.Verb == wire.MetaGet && found:
		answer.Status, answer.Value = wire.MetaValue, value
	case r.Meta.Flags.Has(wire.FlagQuiet):
		return
	default:
		answer.Status = wire.MetaMiss
	}
	if opaque, ok := r.Meta.Flags.Token(wire.FlagOpaque); ok {
		answer.Flags = answer.Flags.AddToken(wire.FlagOpaque, opaque)
	}
	w.Meta(&answer)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:11211")
	if err != nil {
		log.Fatal(err)
	}
	server := wire.Server{Handler: &cache{items: make(map[string][]byte)}, MaxMessageBytes: 1 << 20}
	log.Fatal(server.Serve(context.Background(), listener))
}
