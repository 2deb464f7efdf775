package main

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"larder.example/larder/client"
	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
	"larder.example/larder/wire"
)

// start starts the server, and returns its address.
func start(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	c := &cache{items: make(map[string]wire.Result)}
	server := wire.Server{Handler: wire.CommandHandler(c.do), MaxMessageBytes: 1000}
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		// Serve closes the open connections.
		cancel()
		check.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

func TestClientInAllProtocols(t *testing.T) {
	ctx := context.Background()
	for protocol, name := range []string{"auto", "meta", "text", "binary"} {
		t.Run(name, func(t *testing.T) {
			address := start(t)
			c, err := client.NewWithOptions(client.Options{Servers: []string{address}, Protocol: client.Protocol(protocol)})
			check.NoError(t, err)
			defer c.Close()
			check.NoError(t, c.Set(&client.Item{Key: "greeting", Value: []byte("hello"), Flags: 7}))
			item, err := c.Get("greeting")
			check.NoError(t, err)
			check.Equal(t, "Value", string(item.Value), "hello")
			check.Equal(t, "Flags", item.Flags, 7)
			check.ErrorIs(t, "Add", c.Add(item), client.ErrNotStored)
			check.ErrorIs(t, "Replace", c.Replace(&client.Item{Key: "none"}), client.ErrNotStored)
			check.NoError(t, c.CompareAndSwap(item))
			check.ErrorIs(t, "CompareAndSwap", c.CompareAndSwap(item), client.ErrCASConflict)
			items, err := c.GetMulti([]string{"a", "greeting", "b"})
			check.NoError(t, err)
			check.Equal(t, "items", len(items), 1)
			for want := uint64(5); want < 8; want++ {
				n, err := c.Incr(ctx, "n", 1, 5, 0)
				check.NoError(t, err)
				check.Equal(t, "Incr", n, want)
			}
			_, err = c.Increment("greeting", 1)
			check.ErrorIs(t, "Increment of a word", err, client.ErrClientError)
			all, err := c.Stats(ctx, "")
			check.NoError(t, err)
			check.Equal(t, "curr_items", all[address]["curr_items"], "2")
			err = c.Set(&client.Item{Key: "large", Value: make([]byte, 1000)})
			check.ErrorIs(t, "Set of 1000 bytes", err, client.ErrServerError)
			check.NoError(t, c.Delete("greeting"))
			check.ErrorIs(t, "Delete", c.Delete("greeting"), client.ErrCacheMiss)
			check.NoError(t, c.FlushAll())
			_, err = c.Get("n")
			check.ErrorIs(t, "Get after FlushAll", err, client.ErrCacheMiss)
			check.NoError(t, c.Ping())
		})
	}
}

// converse sends requests that end in quit, and returns all responses.
func converse(t *testing.T, network, address, requests string) string {
	t.Helper()
	conn, err := net.Dial(network, address)
	check.NoError(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.WriteString(conn, requests)
	check.NoError(t, err)
	responses, err := io.ReadAll(conn)
	check.NoError(t, err)
	return string(responses)
}

func TestTextAndMetaAnswerAsMemcached(t *testing.T) {
	memcached := testserver.Start(t, "memcached")
	for _, requests := range []string{
		"get a\r\nset a 5 0 1\r\nx\r\nget a b\r\nadd a 0 0 1\r\ny\r\nreplace a 6 0 1\r\nz\r\nget a a\r\n",
		"delete a\r\ndelete a\r\nincr a 1\r\nset a 0 0 1\r\n9\r\nincr a 1\r\nget a\r\nset a 0 0 1 noreply\r\nx\r\nincr a 1\r\n",
		"cas b 0 0 1 1\r\nx\r\nset b 0 0 0\r\n\r\ncas b 0 0 1 999999\r\nx\r\nreplace c 0 0 1\r\nx\r\nflush_all\r\nget b\r\n",
		"mg a v\r\nms a 1 F5\r\nx\r\nmg a s v f k O1\r\nmg a\r\nmg none q v\r\nms a 1 ME\r\ny\r\nms a 1 MR q\r\nz\r\nmn\r\n",
		"md a\r\nmd a q\r\nmd a O2\r\nma a\r\nma a N0 J13 v\r\nma a v D2\r\nma a\r\nmg YQ== b v\r\nma a q v\r\nms a 1 MX\r\nx\r\nmn\r\n",
		"mg a 1\r\nms a 1 C99999\r\nx\r\nms none 1 C1 O3\r\nx\r\nms a 1\r\nx\r\nma a\r\nmg a v\r\nmn\r\n",
	} {
		want := converse(t, "unix", memcached, "flush_all\r\n"+requests+"quit\r\n")
		got := converse(t, "tcp", start(t), "flush_all\r\n"+requests+"quit\r\n")
		if got != want {
			t.Errorf("responses to %q:\n%q, want those of memcached:\n%q", requests, got, want)
		}
	}
}

func TestBinaryAnswersAsMemcached(t *testing.T) {
	store := wire.AppendStoreExtras(nil, 5, 0)
	k, n, none := []byte("k"), []byte("n"), []byte("none")
	requests := []wire.BinaryRequest{
		{Opcode: wire.OpFlush}, {Opcode: wire.OpGet, Key: k}, {Opcode: wire.OpGetQ, Key: k}, {Opcode: wire.OpGetK, Key: k},
		{Opcode: wire.OpSet, Key: k, Extras: store, Value: []byte("v")}, {Opcode: wire.OpSetQ, Key: k, Extras: store, Value: []byte("w")},
		{Opcode: wire.OpGet, Key: k}, {Opcode: wire.OpGetQ, Key: k}, {Opcode: wire.OpGetK, Key: k}, {Opcode: wire.OpGetKQ, Key: k},
		{Opcode: wire.OpAdd, Key: k, Extras: store}, {Opcode: wire.OpAddQ, Key: k, Extras: store}, {Opcode: wire.OpAdd, Key: none, Extras: store},
		{Opcode: wire.OpReplace, Key: k, Extras: store, Value: []byte("x")}, {Opcode: wire.OpReplace, Key: n, Extras: store},
		{Opcode: wire.OpSet, Key: k, Extras: store, CAS: 1 << 60}, {Opcode: wire.OpSet, Key: n, Extras: store, CAS: 1 << 60},
		{Opcode: wire.OpIncrement, Key: n, Extras: wire.AppendCountExtras(nil, 1, 9, wire.ExptimeNoCreate)},
		{Opcode: wire.OpIncrement, Key: n, Extras: wire.AppendCountExtras(nil, 1, 9, 0)},
		{Opcode: wire.OpIncrement, Key: n, Extras: wire.AppendCountExtras(nil, 1, 9, 0)},
		{Opcode: wire.OpIncrementQ, Key: n, Extras: wire.AppendCountExtras(nil, 1, 9, 0)},
		{Opcode: wire.OpIncrement, Key: k, Extras: wire.AppendCountExtras(nil, 1, 9, 0)},
		{Opcode: wire.OpDelete, Key: k}, {Opcode: wire.OpDelete, Key: k}, {Opcode: wire.OpDeleteQ, Key: k},
		{Opcode: 0xe7}, {Opcode: wire.OpFlushQ}, {Opcode: wire.OpGet, Key: n}, {Opcode: wire.OpNoOp}, {Opcode: wire.OpQuit},
	}
	ask := func(network, address string) []wire.BinaryResponse {
		c, err := wire.Dial(context.Background(), network, address)
		check.NoError(t, err)
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		for i := range requests {
			requests[i].Opaque = uint32(i)
			check.NoError(t, c.Send(&requests[i]))
		}
		var all []wire.BinaryResponse
		for {
			var r wire.BinaryResponse
			if err := c.Receive(&r); err != nil {
				check.Equal(t, "error at the end", err, io.EOF)
				return all
			}
			r.Extras, r.Key, r.Value, r.CAS = clone(r.Extras), clone(r.Key), clone(r.Value), 0
			all = append(all, r)
		}
	}
	want := ask("unix", testserver.Start(t, "memcached"))
	got := ask("tcp", start(t))
	for i := range min(len(want), len(got)) {
		a, b := want[i].AppendTo(nil), got[i].AppendTo(nil)
		if string(a) != string(b) {
			t.Errorf("response to %v: %+v, want memcached's %+v", requests[want[i].Opaque].Opcode, got[i], want[i])
		}
	}
	check.Equal(t, "responses", len(got), len(want))
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func TestStat(t *testing.T) {
	c, err := wire.Dial(context.Background(), "tcp", start(t))
	check.NoError(t, err)
	defer c.Close()
	check.NoError(t, c.Send(&wire.BinaryRequest{Opcode: wire.OpStat, Opaque: 7}))
	for _, want := range []string{"curr_items", ""} {
		var r wire.BinaryResponse
		check.NoError(t, c.Receive(&r))
		check.Equal(t, "Key", string(r.Key), want)
		check.Equal(t, "Opaque", r.Opaque, 7)
	}
	check.NoError(t, c.Send(&wire.BinaryRequest{Opcode: wire.OpQuit}))
	var r wire.BinaryResponse
	check.NoError(t, c.Receive(&r))
	if err := c.Receive(&r); !errors.Is(err, io.EOF) {
		t.Errorf("Receive after QUIT: error %v, want %v", err, io.EOF)
	}
}
