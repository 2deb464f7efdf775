package server

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
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

// saslPlain returns a request to log in.
func saslPlain(user, password string) string {
	r := wire.BinaryRequest{Opcode: wire.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00" + user + "\x00" + password)}
	return string(r.AppendTo(nil))
}

func TestLoginInBinary(t *testing.T) {
	c := withTokens()
	c.options.Auth = func(user, password string) bool { return user == "ann" && password == "secret" }
	_, socket := start(t, c)
	request := func(r wire.BinaryRequest) string { return string(r.AppendTo(nil)) }
	response := func(r wire.BinaryResponse) string { return string(r.AppendTo(nil)) }
	denied := func(opcode wire.Opcode) string {
		return response(wire.BinaryResponse{Opcode: opcode, Status: wire.StatusAuthError, Value: []byte("Auth failure.")})
	}
	get := request(wire.BinaryRequest{Opcode: wire.OpGet, Key: []byte("k")})
	check.Equal(t, "the responses before the login", converse(t, socket, get, 0), denied(wire.OpGet))
	conn := dial(t, socket)
	ask(t, conn, request(wire.BinaryRequest{Opcode: wire.OpSASLListMechs}),
		response(wire.BinaryResponse{Opcode: wire.OpSASLListMechs, Value: []byte("PLAIN")}))
	ask(t, conn, request(wire.BinaryRequest{Opcode: wire.OpVersion}),
		response(wire.BinaryResponse{Opcode: wire.OpVersion, Value: []byte(Version)}))
	ask(t, conn, saslPlain("ann", "guess"), denied(wire.OpSASLAuth))
	ask(t, conn, saslPlain("ann", "secret"),
		response(wire.BinaryResponse{Opcode: wire.OpSASLAuth, Value: []byte("Authenticated")}))
	ask(t, conn, get, response(wire.BinaryResponse{Opcode: wire.OpGet, Status: wire.StatusNotFound, Value: []byte("Not found")}))
	// A failed login ends an earlier one.
	ask(t, conn, saslPlain("ann", "guess")+get, denied(wire.OpSASLAuth)+denied(wire.OpGet))
}

func TestSoftExpiry(t *testing.T) {
	var mu sync.Mutex
	now := int64(1000)
	c := withTokens()
	c.options.SoftExpiry = 2
	c.engine.Now = func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	pass := func(seconds int64) {
		mu.Lock()
		defer mu.Unlock()
		now += seconds * 1000
	}
	_, socket := start(t, c)
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
	ask(t, conn, "mg k f v\r\n", "VA 1 f0\r\nx\r\n")
	// A store makes it fresh, and so does a touch.
	ask(t, conn, "set k 0 60 1\r\nx\r\n", "STORED\r\n")
	show("k", "0")
	pass(61)
	ask(t, conn, "touch k 60\r\n", "TOUCHED\r\n")
	show("k", "0")
	pass(61)
	show("k", "3")
	pass(60)
	show("k", "")
	// Of many readers one refreshes.
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
