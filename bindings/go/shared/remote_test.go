package shared

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder/internal/check"
)

// serverModes are the arguments of a larderd whose clients send every get, and of one whose clients
// read its memory.
var serverModes = map[string][]string{"socket": nil, "local readers": {"--local-readers", "same-uid"}}

func TestConnectedCacheGetAndCompareAndSwap(t *testing.T) {
	for mode, arguments := range serverModes {
		for _, key := range []string{"k", "a key with spaces"} {
			t.Run(mode+", "+key, func(t *testing.T) {
				cache := connectToServer(t, arguments...)
				_, _, err := cache.GetInto(nil, key)
				check.ErrorIs(t, "GetInto of an absent key", err, ErrNotFound)
				check.ErrorIs(t, "Set", cache.Set(key, []byte("v"), time.Hour), nil)
				value, item, err := cache.GetInto([]byte("a "), key)
				check.ErrorIs(t, "GetInto", err, nil)
				check.Equal(t, "GetInto", string(value), "a v")
				check.Equal(t, "token is 0", item.CAS == 0, false)
				// The test takes less than ten seconds.
				wantTTL(t, item, 3590*time.Second, time.Hour)
				next, err := cache.CompareAndSwap(key, []byte("w"), 0, item.CAS)
				check.ErrorIs(t, "CompareAndSwap", err, nil)
				check.Equal(t, "new token is 0", next == 0, false)
				_, err = cache.CompareAndSwap(key, []byte("x"), 0, item.CAS)
				check.ErrorIs(t, "CompareAndSwap with an old token", err, ErrChanged)
				item, length, err := cache.Peek(key)
				check.ErrorIs(t, "Peek", err, nil)
				check.Equal(t, "Peek: token", item.CAS, next)
				check.Equal(t, "Peek: TTL", item.TTL, 0)
				check.Equal(t, "Peek: length", length, 1)
			})
		}
	}
}

func TestConnectedCacheChanges(t *testing.T) {
	for mode, arguments := range serverModes {
		for _, key := range []string{"k", "a key with spaces"} {
			t.Run(mode+", "+key, func(t *testing.T) {
				cache := connectToServer(t, arguments...)
				is := must[bool](t)
				set(t, cache, key, "w")
				check.Equal(t, "Add", is(cache.Add(key, nil, 0)), false)
				is(cache.Append(key, []byte(">")))
				is(cache.Prepend(key, []byte("<")))
				wantValue(t, cache, key, "<w>")
				const days = 24 * time.Hour
				check.Equal(t, "Replace", is(cache.Replace(key, nil, 100*days)), true)
				value, item, err := cache.get(key)
				check.ErrorIs(t, "get of an empty value", err, nil)
				check.Equal(t, "get of an empty value is nil", value == nil, false)
				check.Equal(t, "get of an empty value", string(value), "")
				// More than 30 days are a Unix time in the protocol.
				wantTTL(t, item, 99*days, 100*days)
				many := must[[][]byte](t)(cache.GetMany(key, "none", key))
				check.Equal(t, "GetMany[0] is nil", many[0] == nil, false)
				check.Equal(t, "GetMany[1] is nil", many[1] == nil, true)
				check.Equal(t, "GetMany[2] is nil", many[2] == nil, false)
				check.Equal(t, "Touch with a negative ttl", is(cache.Touch(key, -1)), true)
				check.Equal(t, "Contains", cache.Contains(key), false)
				check.Equal(t, "Delete of an absent key", is(cache.Delete(key)), false)
			})
		}
	}
}

func TestConnectedCacheErrors(t *testing.T) {
	for mode, arguments := range serverModes {
		t.Run(mode, func(t *testing.T) {
			cache := connectToServer(t, arguments...)
			set(t, cache, "number", "7")
			check.Equal(t, "Incr(number, 5)", must[uint64](t)(cache.Incr("number", 5)), 12)
			set(t, cache, "word", "seven")
			_, err := cache.Decr("word", 1)
			check.ErrorIs(t, "Decr(word)", err, ErrNotANumber)
			_, err = cache.Incr("none", 1)
			check.ErrorIs(t, "Incr(none)", err, ErrNotFound)
			check.ErrorIs(t, "Set of 3 MiB", cache.Set("k", make([]byte, 3<<20), 0), ErrTooLarge)
			check.ErrorIs(t, "Set with 251 bytes of key", cache.Set(strings.Repeat("k", 251), nil, 0), ErrKey)
			_, err = cache.RemovePrefix("")
			check.ErrorIs(t, "RemovePrefix", err, ErrUnsupported)
			check.ErrorIs(t, "Clear", cache.Clear(), ErrUnsupported)
			check.ErrorIs(t, "Maintain", cache.Maintain(), ErrUnsupported)
			check.ErrorIs(t, "SetMemory", cache.SetMemory(1<<30), ErrUnsupported)
			for key := range cache.Keys("") {
				t.Errorf("Keys returned %q, want no keys", key)
			}
			if len(arguments) > 0 {
				_, item, err := cache.GetInto(nil, "number")
				check.ErrorIs(t, "GetInto(number)", err, nil)
				check.Equal(t, "Local", item.Local, true)
			}
			must[[]byte](t)(cache.GetOrLoad(t.Context(), "loaded", loaderOf("v", time.Hour)))
			wantValue(t, cache, "loaded", "v")
			check.ErrorIs(t, "Close", cache.Close(), nil)
			_, _, err = cache.GetInto(nil, "k")
			check.ErrorIs(t, "GetInto after Close", err, ErrClosed)
		})
	}
}

func TestLoadDoesNotOverwriteOtherClient(t *testing.T) {
	cache := connectToServer(t)
	cache.options.StaleFor = time.Hour
	for _, change := range concurrentChanges {
		if strings.HasPrefix(change.name, "clear") || strings.HasPrefix(change.name, "remove") {
			// A connected cache does not support these.
			continue
		}
		t.Run(change.name, func(t *testing.T) {
			check.ErrorIs(t, "Set", cache.Set("k", []byte("old"), time.Minute), nil)
			other := must[*Cache](t)(Connect(cache.remote.socket, 0))
			defer other.Close()
			loadDuring(t, cache, func() { change.do(t, other) })
			value, _ := cache.Get("k")
			check.Equal(t, "Get(k)", string(value), change.want)
		})
	}
}

// respond plays a server that knows meta commands only, and calls onGet for each get.
func respond(conn net.Conn, onGet func()) {
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case err != nil:
			return
		case strings.HasPrefix(line, "mn"):
			_, _ = io.WriteString(conn, "MN\r\n")
		case strings.HasPrefix(line, "mg"):
			onGet()
		default:
			_, _ = io.WriteString(conn, "ERROR\r\n")
		}
	}
}

func TestWaitingGoroutinesNeedNoThreads(t *testing.T) {
	check.GoroutineLeaks(t)
	const waiters = 300
	requested := make(chan struct{}, waiters)
	release := make(chan struct{})
	var connections atomic.Int64
	socket := serveConns(t, func(conn net.Conn) {
		connections.Add(1)
		respond(conn, func() {
			requested <- struct{}{}
			<-release
			_, _ = io.WriteString(conn, "EN\r\n")
		})
	})
	cache := must[*Cache](t)(Connect(socket, time.Minute))
	threads := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	for at := range waiters {
		all.Add(1)
		go func() {
			defer all.Done()
			_, _, err := cache.GetInto(nil, fmt.Sprint(at))
			check.ErrorIs(t, "GetInto", err, ErrNotFound)
		}()
	}
	for range connectionsMax {
		<-requested
	}
	// No event reports that no further connection is opened.
	time.Sleep(200 * time.Millisecond)
	// The runtime may start a few threads for its own work.
	if more := pprof.Lookup("threadcreate").Count() - threads; more > connectionsMax/4 {
		t.Errorf("%d waiting goroutines started %d threads, want at most %d",
			waiters, more, connectionsMax/4)
	}
	// The requests for the memory of the server open connections beside those.
	if open := connections.Load(); open > connectionsMax+2 {
		t.Errorf("%d connections, want at most %d", open, connectionsMax+2)
	}
	close(release)
	all.Wait()
	_ = cache.Close()
}

func TestCloseEndsWaitForServer(t *testing.T) {
	check.GoroutineLeaks(t)
	requested := make(chan struct{})
	socket := serveConns(t, func(conn net.Conn) {
		respond(conn, func() { requested <- struct{}{} })
	})
	cache := must[*Cache](t)(Connect(socket, time.Hour))
	ended := make(chan error)
	go func() {
		_, _, err := cache.GetInto(nil, "k")
		ended <- err
	}()
	<-requested
	_ = cache.Close()
	check.ErrorIs(t, "GetInto during Close", <-ended, ErrClosed)
	_, err := cache.GetOrLoad(context.Background(), "k", loaderOf("v", 0))
	check.ErrorIs(t, "GetOrLoad after Close", err, ErrClosed)
}
