package larder

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// socketIn is a path for a socket. One of t.TempDir's may be longer than the system takes.
func tempSocket(t *testing.T) string {
	folder := must[string](t)(os.MkdirTemp("", "larder"))
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "sock")
}

// connected uses a larderd of the test's own.
func connectToServer(t *testing.T, arguments ...string) *Cache {
	t.Helper()
	program, err := exec.LookPath(cmp.Or(os.Getenv("LARDERD"), "../../target/release/larderd"))
	if err != nil {
		if os.Getenv("LARDERD") == "" && os.Getenv("CI") == "" {
			t.Skip("there is no larderd")
		}
		t.Fatal(err)
	}
	socket := tempSocket(t)
	arguments = append(arguments, "-s", socket, "-m", "64", "-t", "2", "-U", "0")
	if os.Getuid() == 0 {
		arguments = append(arguments, "-u", "root")
	}
	server := exec.Command(program, arguments...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		cache, err := Connect(socket, 0)
		if err == nil {
			t.Cleanup(func() { _ = cache.Close() })
			return cache
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// listening is a server that does with each connection what a test wants.
func serveConns(t *testing.T, serve func(net.Conn)) (socket string) {
	socket = tempSocket(t)
	listener := must[net.Listener](t)(net.Listen("unix", socket))
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return socket
}

func TestAConnectedCacheDoesWhatOthersDo(t *testing.T) {
	for _, arguments := range [][]string{nil, {"--local-readers", "same-uid"}} {
		cache := connectToServer(t, arguments...)
		for _, key := range []string{"k", "a key with spaces"} {
			if _, _, err := cache.GetInto(nil, key); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			if err := cache.Set(key, []byte("v"), time.Hour); err != nil {
				t.Fatal(err)
			}
			value, item, err := cache.GetInto([]byte("a "), key)
			if string(value) != "a v" || item.CAS == 0 || item.TTL < 3590*time.Second || item.TTL > time.Hour || err != nil {
				t.Errorf("%q, %+v, %v", value, item, err)
			}
			next, err := cache.CompareAndSwap(key, []byte("w"), 0, item.CAS)
			if err != nil || next == 0 {
				t.Error(next, err)
			}
			if _, err := cache.CompareAndSwap(key, []byte("x"), 0, item.CAS); !errors.Is(err, ErrChanged) {
				t.Error(err)
			}
			item, length, err := cache.Peek(key)
			if item.CAS != next || item.TTL != 0 || length != 1 || err != nil {
				t.Errorf("%+v, %d, %v; expected token %d", item, length, err, next)
			}
			if added := must[bool](t)(cache.Add(key, nil, 0)); added {
				t.Error("it is there")
			}
			must[bool](t)(cache.Append(key, []byte(">")))
			must[bool](t)(cache.Prepend(key, []byte("<")))
			wantValue(t, cache, key, "<w>")
			if replaced := must[bool](t)(cache.Replace(key, nil, 100*24*time.Hour)); !replaced {
				t.Error("it is there")
			}
			if value, item, err := cache.get(key); value == nil || len(value) != 0 || item.TTL < 99*24*time.Hour || err != nil {
				t.Errorf("%q, %v, %v", value, item, err)
			}
			many := must[[][]byte](t)(cache.GetMany(key, "none", key))
			if many[0] == nil || many[1] != nil || many[2] == nil {
				t.Errorf("%q", many)
			}
			if touched := must[bool](t)(cache.Touch(key, -1)); !touched || cache.Contains(key) {
				t.Error("a touch that ends an item")
			}
			if deleted := must[bool](t)(cache.Delete(key)); deleted {
				t.Error("it is gone")
			}
		}
		set(t, cache, "number", "7")
		if number := must[uint64](t)(cache.Incr("number", 5)); number != 12 {
			t.Error(number)
		}
		set(t, cache, "word", "seven")
		if _, err := cache.Decr("word", 1); !errors.Is(err, ErrNotANumber) {
			t.Error(err)
		}
		if _, err := cache.Incr("none", 1); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		if err := cache.Set("k", make([]byte, 3<<20), 0); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		if err := cache.Set(strings.Repeat("k", 251), nil, 0); !errors.Is(err, ErrKey) {
			t.Error(err)
		}
		_, prefix := cache.RemovePrefix("")
		for _, err := range []error{prefix, cache.Clear(), cache.Maintain(), cache.SetMemory(1 << 30)} {
			if !errors.Is(err, ErrUnsupported) {
				t.Error(err)
			}
		}
		for key := range cache.Keys("") {
			t.Errorf("%q is shown", key)
		}
		if len(arguments) > 0 {
			if _, item, err := cache.GetInto(nil, "number"); !item.Local || err != nil {
				t.Errorf("%+v, %v", item, err)
			}
		}
		must[[]byte](t)(cache.GetOrLoad(t.Context(), "loaded", loaderOf("v", time.Hour)))
		wantValue(t, cache, "loaded", "v")
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
		if _, _, err := cache.GetInto(nil, "k"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func TestWhatOthersDoToAServersItemDuringALoadWins(t *testing.T) {
	cache := connectToServer(t)
	cache.options.StaleFor = time.Hour
	for _, change := range changes {
		if strings.HasPrefix(change.name, "clear") || strings.HasPrefix(change.name, "remove") {
			continue
		}
		if err := cache.Set("k", []byte("old"), time.Minute); err != nil {
			t.Fatal(err)
		}
		other := must[*Cache](t)(Connect(cache.remote.socket, 0))
		loadDuring(t, cache, func() { change.do(t, other) })
		value, _ := cache.Get("k")
		if string(value) != change.after {
			t.Errorf("%s: it is %q; expected %q", change.name, value, change.after)
		}
		_ = other.Close()
	}
}

// Goroutines that wait for a server need neither a thread nor a connection each.
func TestWaitersKeepNoThreads(t *testing.T) {
	checkGoroutineLeaks(t)
	const waiters = 300
	asked := make(chan struct{}, waiters)
	release := make(chan struct{})
	var connections atomic.Int64
	socket := serveConns(t, func(conn net.Conn) {
		connections.Add(1)
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, "mn"):
				_, _ = io.WriteString(conn, "MN\r\n")
			case strings.HasPrefix(line, "mg"):
				asked <- struct{}{}
				<-release
				_, _ = io.WriteString(conn, "EN\r\n")
			default:
				_, _ = io.WriteString(conn, "ERROR\r\n")
			}
		}
	})
	cache := must[*Cache](t)(Connect(socket, time.Minute))
	threads := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	for at := range waiters {
		all.Add(1)
		go func() {
			defer all.Done()
			if _, _, err := cache.GetInto(nil, fmt.Sprint(at)); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		}()
	}
	for range connectionsMax {
		<-asked
	}
	// That no further connection comes has no event.
	time.Sleep(200 * time.Millisecond)
	if more := pprof.Lookup("threadcreate").Count() - threads; more > connectionsMax/4 {
		t.Errorf("%d goroutines wait, for which %d threads were made", waiters, more)
	}
	// One of them asks for the server's memory.
	if open := connections.Load(); open > connectionsMax+2 {
		t.Errorf("%d connections were opened", open)
	}
	close(release)
	all.Wait()
	_ = cache.Close()
}

func TestCloseEndsTheWaitForAServer(t *testing.T) {
	checkGoroutineLeaks(t)
	asked := make(chan struct{})
	socket := serveConns(t, func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, "mn"):
				_, _ = io.WriteString(conn, "MN\r\n")
			case strings.HasPrefix(line, "mg"):
				asked <- struct{}{}
			default:
				_, _ = io.WriteString(conn, "ERROR\r\n")
			}
		}
	})
	cache := must[*Cache](t)(Connect(socket, time.Hour))
	ended := make(chan error)
	go func() {
		_, _, err := cache.GetInto(nil, "k")
		ended <- err
	}()
	<-asked
	_ = cache.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := cache.GetOrLoad(context.Background(), "k", loaderOf("v", 0)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
