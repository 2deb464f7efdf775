package server

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/testserver"
	"larder.example/larder/wire"
)

func TestShutdownWaitsForRequests(t *testing.T) {
	s, socket := start(t, withTokens())
	idle, busy := dial(t, socket), dial(t, socket)
	ask(t, idle, "mn\r\n", "MN\r\n")
	check.NoError(t, send(busy, []byte("set k 0 0 5\r\nva"), 0))
	await(t, "the half request", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.totals()[bytesRead] >= 17
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("Shutdown sends to an idle connection")
	}
	select {
	case err := <-ended:
		t.Fatalf("Shutdown returned %v before the end of a request", err)
	case <-time.After(50 * time.Millisecond):
	}
	ask(t, busy, "lue\r\n", "STORED\r\n")
	check.NoError(t, <-ended)
	value, ok := s.engine.Get("k")
	check.Equal(t, "the value", string(value), "value")
	check.Equal(t, "found", ok, true)
}

func TestNoDelayedClearAfterShutdown(t *testing.T) {
	s, socket := start(t, config{})
	conn := dial(t, socket)
	check.NoError(t, send(conn, []byte("flush_all 1"), 0))
	await(t, "the first part of the request arrives", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			return c.activity.Load().phase() == reading
		}
		return false
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	await(t, "the server drains", s.isDraining.Load)
	ask(t, conn, "\r\n", "OK\r\n")
	check.NoError(t, <-ended)
	s.clearing.mu.Lock()
	defer s.clearing.mu.Unlock()
	if s.clearing.timer != nil {
		t.Error("a flush_all waits after Shutdown")
	}
}

func TestShutdownEndsWithTheContext(t *testing.T) {
	s, socket := start(t, withTokens())
	busy := dial(t, socket)
	check.NoError(t, send(busy, []byte("set k 0 0 5\r\nva"), 0))
	await(t, "the half request", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.totals()[bytesRead] >= 15
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	check.ErrorIs(t, "Shutdown", s.Shutdown(ctx), context.DeadlineExceeded)
}

func TestClosedCache(t *testing.T) {
	s, socket := start(t, withTokens())
	conn := dial(t, socket)
	ask(t, conn, "set k 0 0 1\r\nx\r\n", "STORED\r\n")
	check.NoError(t, s.engine.Close())
	ask(t, conn, "get k\r\nset k 0 0 1\r\nx\r\n", "END\r\nSERVER_ERROR the cache is closed\r\n")
	ask(t, conn, "delete k\r\nincr k 1\r\n", strings.Repeat("SERVER_ERROR the cache is closed\r\n", 2))
	ask(t, conn, "append k 0 0 1\r\nx\r\nms k 1\r\nx\r\n", strings.Repeat("SERVER_ERROR the cache is closed\r\n", 2))
	ask(t, conn, "touch k 0\r\nmg k\r\nflush_all\r\nmn\r\n", "NOT_FOUND\r\nEN\r\nOK\r\nMN\r\n")
}

// softServer starts a server that keeps items for twice their exptime, and returns a function that
// moves its clock.
func softServer(t *testing.T) (socket string, pass func(seconds int64)) {
	var now atomic.Int64
	now.Store(1000)
	c := withTokens()
	c.options.SoftExpiry = 2
	c.engine.Now = now.Load
	_, socket = start(t, c)
	return socket, func(seconds int64) { now.Add(seconds * 1000) }
}

func TestSoftExpiry(t *testing.T) {
	socket, pass := softServer(t)
	conn := dial(t, socket)
	show := func(key, flags string) {
		t.Helper()
		want := "END\r\n"
		if flags != "" {
			want = "VALUE " + key + " " + flags + " 1\r\nx\r\nEND\r\n"
		}
		ask(t, conn, "get "+key+"\r\n", want)
	}
	ask(t, conn, "set k 0 60 1\r\nx\r\nset own 7 60 1\r\nx\r\nset ever 0 0 1\r\nx\r\n", strings.Repeat("STORED\r\n", 3))
	show("k", "0")
	pass(59)
	show("k", "0")
	pass(2)
	show("k", "3")
	show("k", "1")
	show("k", "1")
	show("own", "")
	show("ever", "0")
	ask(t, conn, "mg k f v\r\n", "VA 1 f0 Z X\r\nx\r\n")
	// A store or a touch makes it fresh.
	ask(t, conn, "set k 0 60 1\r\nx\r\n", "STORED\r\n")
	show("k", "0")
	pass(61)
	ask(t, conn, "touch k 60\r\n", "TOUCHED\r\n")
	show("k", "0")
	pass(61)
	show("k", "3")
	pass(60)
	show("k", "")
	// One of many readers refreshes the item.
	ask(t, conn, "set k 0 60 1\r\nx\r\n", "STORED\r\n")
	pass(61)
	get := string((&wire.BinaryRequest{Opcode: wire.OpGet, Key: []byte("k")}).AppendTo(nil))
	flags := make(chan uint32, 50)
	for range cap(flags) {
		other := dial(t, socket)
		go func() {
			response := make([]byte, wire.BinaryHeaderBytes+5)
			_ = send(other, []byte(get), 0)
			if _, err := other.Read(response); err != nil {
				t.Error(err)
			}
			flags <- binary.BigEndian.Uint32(response[wire.BinaryHeaderBytes:])
		}()
	}
	seen := map[uint32]int{}
	for range cap(flags) {
		seen[<-flags]++
	}
	check.Equal(t, "readers that refresh", seen[3], 1)
	check.Equal(t, "other readers", seen[1], cap(flags)-1)
}

func TestPipelines(t *testing.T) {
	_, socket := start(t, withTokens())
	conn := dial(t, socket)
	ask(t, conn, "set a 0 0 1\r\n1\r\nset b 0 0 30000\r\n"+repeated(30000)+"\r\n", "STORED\r\nSTORED\r\n")
	a, b := "VALUE a 0 1\r\n1\r\n", "VALUE b 0 30000\r\n"+repeated(30000)+"\r\n"
	requests, want := "", ""
	for range 10 {
		requests += "get a\r\nget none\r\nget a b none a\r\nget none none\r\nget b\r\ngets none a\r\nget a"
		want += a + "END\r\nEND\r\n" + a + b + a + "END\r\nEND\r\n" + b + "END\r\n"
		requests = strings.Replace(requests, "gets none a", "get none a", 1) + "\r\n"
		want += a + "END\r\n" + a + "END\r\n"
	}
	for _, size := range []int{0, 100, 7} {
		go func() { _ = send(conn, []byte(requests), size) }()
		expect(t, conn, requests, want)
	}
}

func TestStats(t *testing.T) {
	c := withTokens()
	c.engine.TrackAccess, c.engine.MemoryBytes = true, 128<<20
	s, socket := start(t, c)
	conn := dial(t, socket)
	ask(t, conn, "set k 0 0 1\r\nx\r\nget k none\r\nmg k l t\r\n", "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\nHD l0 t-1\r\n")
	rows := map[string]string{}
	general, _ := s.stats("")
	for _, row := range general {
		rows[row.name] = row.value
	}
	for name, want := range map[string]string{
		"cmd_get": "3", "get_hits": "2", "get_misses": "1", "cmd_set": "1", "curr_items": "1",
		"curr_connections": "1", "total_connections": "1", "version": Version, "limit_maxbytes": "134217728",
	} {
		check.Equal(t, name, rows[name], want)
	}
	ask(t, conn, "stats reset\r\nstats items\r\nstats maps\r\n", "RESET\r\nEND\r\nERROR\r\n")
	general, _ = s.stats("")
	for _, row := range general {
		if row.name == "cmd_get" || row.name == "total_connections" {
			check.Equal(t, row.name+" after a reset", row.value, "0")
		}
	}
}

func TestMemoryLimitIsFixed(t *testing.T) {
	_, socket := start(t, withTokens())
	ask(t, dial(t, socket), "cache_memlimit 7\r\ncache_memlimit x\r\ncache_memlimit 9 noreply\r\ncache_memlimit 64\r\n",
		"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\nERROR\r\n"+
			"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n")
}

func TestReadsDoNotAllocate(t *testing.T) {
	cache, err := engine.New(engine.Config{MemoryBytes: 8 << 20, CAS: true})
	check.NoError(t, err)
	defer cache.Close()
	c := newConn(newServer(cache, Options{}), nil)
	_, err = cache.Set("key", []byte("value"), 0, 0)
	check.NoError(t, err)
	for _, request := range []string{"get key\r\n", "get key none key\r\n", "get key\r\nget key\r\n", "set key 0 0 5\r\nvalue\r\n"} {
		c.in = []byte(request)
		allocations := testing.AllocsPerRun(100, func() {
			c.start, c.end, c.out = 0, len(c.in), c.out[:0]
			c.execute()
		})
		if allocations > 0 && !raceEnabled {
			t.Errorf("%q: %v allocations", request, allocations)
		}
	}
}

// The rule of flags 0, 1 and 3 and the recache token of the meta protocol follow the same rule:
// only one of all clients that read a stale item, in any protocol, should replace it.
func TestSoftExpiryGivesOneRecacheToken(t *testing.T) {
	socket, pass := softServer(t)
	conn := dial(t, socket)
	ask(t, conn, "set k 0 60 1\r\nx\r\nset l 0 60 1\r\nx\r\nset m 0 60 1\r\nx\r\n", strings.Repeat("STORED\r\n", 3))
	// The server returns the exptime that the client has set.
	ask(t, conn, "mg k t f\r\nmg k R60 t\r\nme k\r\n", "HD t60 f0\r\nHD t60\r\nME k exp=60 la=0 cas=")
	drain(t, conn)
	pass(61)
	ask(t, conn, "mg k t f v\r\nget k\r\nmg k\r\n", "VA 1 t0 f0 X W\r\nx\r\nVALUE k 1 1\r\nx\r\nEND\r\nHD Z X\r\n")
	ask(t, conn, "get l\r\nmg l\r\nget l\r\n", "VALUE l 3 1\r\nx\r\nEND\r\nHD Z X\r\nVALUE l 1 1\r\nx\r\nEND\r\n")
	// An append neither makes an item fresh nor grants the token again.
	ask(t, conn, "append l 0 0 1\r\ny\r\nmg l v\r\n", "STORED\r\nVA 2 Z X\r\nxy\r\n")
	// A touch and a store make it fresh.
	ask(t, conn, "mg k T60 t\r\nget k\r\nmg k t\r\n", "HD t60\r\nVALUE k 0 1\r\nx\r\nEND\r\nHD t60\r\n")
	ask(t, conn, "gat 60 l\r\nget l\r\n", "VALUE l 1 2\r\nxy\r\nEND\r\nVALUE l 0 2\r\nxy\r\nEND\r\n")
	ask(t, conn, "ms m 1 T60\r\ny\r\nget m\r\n", "HD\r\nVALUE m 0 1\r\ny\r\nEND\r\n")
	pass(61)
	ask(t, conn, "mg k u\r\nmg l R10\r\nget k l\r\n", "HD X W\r\nHD X W\r\nVALUE k 1 1\r\nx\r\nVALUE l 1 2\r\nxy\r\nEND\r\n")
	// An item that a client marks as stale is also stale for get. Its time of expiry does not change.
	ask(t, conn, "set k 0 60 1\r\nx\r\nmd k I\r\nget k\r\nget k\r\nmg k t\r\n",
		"STORED\r\nHD\r\nVALUE k 3 1\r\nx\r\nEND\r\nVALUE k 1 1\r\nx\r\nEND\r\nHD t60 Z X\r\n")
	ask(t, conn, "ms k 1 I C1\r\ny\r\nget k\r\nmg k t v\r\n", "HD\r\nVALUE k 1 1\r\ny\r\nEND\r\nVA 1 t60 Z X\r\ny\r\n")
	// An empty item that mg creates expires at its exptime, so that another client can create it.
	ask(t, conn, "mg n N10\r\nget n\r\n", "HD W\r\nVALUE n 0 0\r\n\r\nEND\r\n")
	pass(11)
	ask(t, conn, "mg n N10\r\n", "HD W\r\n")
	// md with x makes it an item without exptime.
	ask(t, conn, "md k x\r\nget k\r\nmg k t\r\n", "HD\r\nVALUE k 0 0\r\n\r\nEND\r\nHD t-1\r\n")
}

// drain reads the rest of a line.
func drain(t *testing.T, conn net.Conn) {
	for b := make([]byte, 1); b[0] != '\n'; {
		_, err := conn.Read(b)
		check.NoError(t, err)
	}
}

func TestReservedFlagsAreRefused(t *testing.T) {
	socket, _ := softServer(t)
	conn := dial(t, socket)
	ask(t, conn, "set k 7 0 1\r\nx\r\n", "STORED\r\n")
	for _, flags := range []string{"3758096384", "4026531839", "3758096444"} {
		for _, line := range []string{"set k " + flags + " 60 1\r\ny\r\n", "cas k " + flags + " 0 1 1\r\ny\r\n", "ms k 1 F" + flags + "\r\ny\r\n"} {
			ask(t, conn, line+"get k\r\n", reservedFlags+"VALUE k 7 1\r\nx\r\nEND\r\n")
		}
		ask(t, conn, "set k "+flags+" 60 1 noreply\r\ny\r\nget k\r\n", "VALUE k 7 1\r\nx\r\nEND\r\n")
	}
	ask(t, conn, "set l 3758096383 60 1\r\ny\r\nset m 4026531840 60 1\r\nz\r\nget l m\r\n",
		"STORED\r\nSTORED\r\nVALUE l 3758096383 1\r\ny\r\nVALUE m 4026531840 1\r\nz\r\nEND\r\n")
	store := wire.BinaryRequest{
		Opcode: wire.OpSet, Key: []byte("k"), Value: []byte("y"), Extras: wire.AppendStoreExtras(nil, softMark, 60),
	}
	get := (&wire.BinaryRequest{Opcode: wire.OpQuit}).AppendTo(store.AppendTo(nil))
	var r wire.BinaryResponse
	_, err := r.Parse([]byte(converse(t, socket, string(get), 0)))
	check.NoError(t, err)
	check.Equal(t, "the status of reserved flags", r.Status, wire.StatusInvalid)
	// Without soft expiry, clients may use all flags.
	_, socket = start(t, withTokens())
	ask(t, dial(t, socket), "set k 3758096444 60 1\r\ny\r\nget k\r\n", "STORED\r\nVALUE k 3758096444 1\r\ny\r\nEND\r\n")
}

// anyListener has a type whose values cannot be compared.
type anyListener struct {
	net.Listener
	_ []func()
}

func TestServeTakesListenersOfAnyType(t *testing.T) {
	socket := testserver.Socket(t)
	listener, err := net.Listen("unix", socket)
	check.NoError(t, err)
	cache, err := engine.New(engine.Config{MemoryBytes: 64 << 20})
	check.NoError(t, err)
	s := newServer(cache, Options{})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(anyListener{Listener: listener}) }()
	ask(t, dial(t, socket), "version\r\n", "VERSION "+Version+"\r\n")
	check.NoError(t, s.Shutdown(t.Context()))
	check.ErrorIs(t, "Serve", <-ended, ErrServerClosed)
	check.NoError(t, cache.Close())
}
