package server

import (
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

// memory returns the bytes that the process uses for the heap and the stacks.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

const crowd = 1000

// roomy is a server for a crowd and a client.
func roomy() config {
	c := withTokens()
	c.options.MaxConns = crowd + 8
	return c
}

// connect returns n connections.
func connect(t *testing.T, socket string, n int) []net.Conn {
	conns := make([]net.Conn, n)
	for at := range conns {
		conns[at] = dial(t, socket)
	}
	return conns
}

// checkHealthy checks that the server serves a client within a second.
func checkHealthy(t *testing.T, conn net.Conn) {
	t.Helper()
	before := time.Now()
	ask(t, conn, "set healthy 0 0 5\r\nvalue\r\nget healthy\r\n", "STORED\r\nVALUE healthy 0 5\r\nvalue\r\nEND\r\n")
	if took := time.Since(before); took > 5*time.Second {
		t.Errorf("a client waited for %v", took)
	}
}

func TestAnnouncedValuesCostNothing(t *testing.T) {
	binary := (&wire.BinaryRequest{
		Opcode: wire.OpSet, Key: []byte("k"), Extras: wire.AppendStoreExtras(nil, 0, 0),
	}).AppendHeadTo(nil, 1<<20-1000)
	for name, request := range map[string]string{
		"text": "set k 0 0 1048000\r\n", "meta": "ms k 1048000\r\n", "binary": string(binary),
	} {
		t.Run(name, func(t *testing.T) {
			s, socket := start(t, roomy())
			conns := connect(t, socket, crowd+1)
			await(t, "all connections", func() bool { return s.accepted.Load() == crowd+1 })
			checkHealthy(t, conns[crowd])
			before := memory()
			for _, conn := range conns[:crowd] {
				check.NoError(t, send(conn, []byte(request), 0))
			}
			await(t, "all requests", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.totals()[bytesRead] >= uint64(crowd*len(request))
			})
			if used := memory() - before; used > 16<<20 {
				t.Errorf("%d announced values cost %d bytes", crowd, used)
			}
			checkHealthy(t, conns[crowd])
		})
	}
}

func TestClientsThatDoNotRead(t *testing.T) {
	c := roomy()
	c.options.MaxMemory = 8 << 20
	s, socket := start(t, c)
	healthy := dial(t, socket)
	value := repeated(1 << 19)
	ask(t, healthy, "set large 0 0 524288\r\n"+value+"\r\n", "STORED\r\n")
	before := memory()
	for _, conn := range connect(t, socket, crowd) {
		// Each requests 64 MiB. The server stops reading when it waits for the client.
		check.NoError(t, conn.SetWriteDeadline(time.Now().Add(10*time.Second)))
		check.NoError(t, send(conn, []byte(strings.Repeat("get large\r\n", 128)), 0))
	}
	for range 20 {
		checkHealthy(t, healthy)
		time.Sleep(50 * time.Millisecond)
	}
	if held := s.held.Load(); held > c.options.MaxMemory {
		t.Errorf("the buffers hold %d bytes", held)
	}
	if used := memory() - before; used > 64<<20 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		t.Errorf("%d clients that do not read cost %d bytes, %d of the heap", crowd, used, stats.HeapAlloc)
	}
	// A client that reads receives its value although the others occupy the memory.
	ask(t, healthy, "get large\r\n", "VALUE large 0 524288\r\n"+value+"\r\nEND\r\n")
}

func TestHalfLines(t *testing.T) {
	c := roomy()
	c.options.ReadTimeout = 300 * time.Millisecond
	_, socket := start(t, c)
	healthy := dial(t, socket)
	slow := connect(t, socket, 20)
	begin := time.Now()
	for isOpen := true; isOpen; {
		checkHealthy(t, healthy)
		isOpen = false
		for _, conn := range slow {
			if _, err := conn.Write([]byte("g")); err == nil {
				isOpen = true
			}
		}
		time.Sleep(20 * time.Millisecond)
		if time.Since(begin) > 10*time.Second {
			t.Fatal("half lines are read for 10 s")
		}
	}
}

func TestIdleAndWriteTimeouts(t *testing.T) {
	c := withTokens()
	c.options.IdleTimeout, c.options.WriteTimeout = 100*time.Millisecond, 200*time.Millisecond
	s, socket := start(t, c)
	idle := dial(t, socket)
	ask(t, idle, "mn\r\n", "MN\r\n")
	_, err := idle.Read(make([]byte, 1))
	check.Equal(t, "error after the idle timeout", err, io.EOF)
	greedy := dial(t, socket)
	check.NoError(t, send(greedy, []byte("set k 0 0 500000\r\n"+repeated(500000)+"\r\n"), 0))
	_ = send(greedy, []byte(strings.Repeat("get k\r\n", 20)), 0)
	await(t, "the end of the client that does not read", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
	check.Equal(t, "bytes held by buffers", s.held.Load(), 0)
}

func TestCutAnywhere(t *testing.T) {
	s, socket := start(t, withTokens())
	requests := []string{
		"set k 0 0 5\r\nvalue\r\nget k k\r\nincr k 1\r\nms k 3 T100 c\r\nabc\r\nmg k v\r\nstats\r\n",
		string(binaryCut()),
	}
	for _, request := range requests {
		for length := range len(request) {
			conn := dial(t, socket)
			check.NoError(t, send(conn, []byte(request[:length]), 0))
			check.NoError(t, conn.Close())
		}
	}
	await(t, "no connections", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
	check.Equal(t, "bytes held by buffers", s.held.Load(), 0)
}

func binaryCut() (request []byte) {
	for _, r := range []wire.BinaryRequest{
		{Opcode: wire.OpSet, Key: []byte("k"), Extras: wire.AppendStoreExtras(nil, 0, 0), Value: []byte("v")},
		{Opcode: wire.OpGetK, Key: []byte("k")}, {Opcode: 0xaa, Value: []byte("v")}, {Opcode: wire.OpStat},
	} {
		request = r.AppendTo(request)
	}
	return request
}

func TestTooManyConnections(t *testing.T) {
	c := withTokens()
	c.options.MaxConns = 2
	s, socket := start(t, c)
	kept := connect(t, socket, 2)
	for _, conn := range kept {
		ask(t, conn, "mn\r\n", "MN\r\n")
	}
	refused, err := io.ReadAll(dial(t, socket))
	check.NoError(t, err)
	check.Equal(t, "the response to a connection above the limit", string(refused), "ERROR Too many open connections\r\n")
	for _, conn := range kept {
		checkHealthy(t, conn)
	}
	check.Equal(t, "rejected connections", s.rejected.Load(), 1)
	check.NoError(t, kept[0].Close())
	await(t, "a free place", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 1
	})
	checkHealthy(t, dial(t, socket))
}

func TestItemMax(t *testing.T) {
	c := withTokens()
	c.options.ItemMax = 1024
	_, socket := start(t, c)
	conn := dial(t, socket)
	fits := 1024 - 59 - 1
	value := repeated(fits)
	ask(t, conn, "set k 0 0 964\r\n"+value+"\r\n", "STORED\r\n")
	ask(t, conn, "set l 0 0 965\r\n"+value+"v\r\n", "SERVER_ERROR object too large for cache\r\n")
	ask(t, conn, "append k 0 0 1\r\nx\r\n", "NOT_STORED\r\n")
	ask(t, conn, "add k 0 0 2000000\r\n"+repeated(2000000)+"\r\nget l\r\n", "SERVER_ERROR object too large for cache\r\nEND\r\n")
	ask(t, conn, "ms k 1000\r\n"+repeated(1000)+"\r\nmg k\r\n", "SERVER_ERROR object too large for cache\r\nEN\r\n")
}

// descriptors returns the number of open files of the process, where the system shows them.
func descriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func TestNothingIsLeftAfterTheEnd(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors()
	for range 3 {
		cache, err := engine.New(engine.Config{MemoryBytes: 8 << 20})
		check.NoError(t, err)
		s := newServer(cache, Options{})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(listener) }()
		for at := range 50 {
			conn, err := net.Dial("tcp", listener.Addr().String())
			check.NoError(t, err)
			defer conn.Close()
			if at%2 == 0 {
				check.NoError(t, send(conn, []byte("set k 0 0 100\r\nha"), 0))
			} else {
				ask(t, conn, "flush_all 100\r\n", "OK\r\n")
			}
		}
		check.NoError(t, s.Close())
		check.ErrorIs(t, "Serve", <-ended, ErrServerClosed)
		check.ErrorIs(t, "Serve after Close", s.Serve(listener), ErrServerClosed)
		check.Equal(t, "bytes held by buffers", s.held.Load(), 0)
		check.NoError(t, cache.Close())
	}
	await(t, "no goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	// The client sides of the connections are open.
	if now := descriptors(); now > files+150+8 {
		t.Errorf("%d open files, %d before", now, files)
	}
}

// An append that may create an item stores nothing in two cases: if the item would become too
// large, and if another client has created the item in the meantime. Only in the second case should
// the server try again.
func TestAppendThatCreatesBeyondItemMax(t *testing.T) {
	_, socket := start(t, withTokens())
	conn := dial(t, socket)
	ask(t, conn, "set a 0 0 1000000\r\n"+repeated(1000000)+"\r\n", "STORED\r\n")
	for _, mode := range []string{"MA", "MP"} {
		ask(t, conn, "ms a 100000 "+mode+" N0\r\n"+repeated(100000)+"\r\n", "NS\r\n")
	}
	ask(t, conn, "mg a s\r\n", "HD s1000000\r\n")
}
