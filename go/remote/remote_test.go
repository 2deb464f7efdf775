package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

// serverModes are the arguments of a larderd whose clients send every get request, and of a larderd
// whose clients read its memory.
var serverModes = map[string][]string{"socket": nil, "local readers": {"--local-readers", "same-uid"}}

// connect connects to a server.
func connect(t *testing.T, address string, options Options) *Cache {
	t.Helper()
	remote := must[*Cache](t)(ConnectWithOptions(t.Context(), address, options))
	t.Cleanup(func() { _ = remote.Close() })
	return remote
}

// connectToServer starts a larderd for the test and connects to it.
func connectToServer(t *testing.T, arguments ...string) *Cache {
	t.Helper()
	return connect(t, testserver.Start(t, "larderd", arguments...), Options{})
}

// wantRemote fails the test if the value of a key is not want. An empty want means that the key has
// no value.
func wantRemote(t *testing.T, remote *Cache, key, want string) {
	t.Helper()
	value, err := remote.Get(t.Context(), key)
	if string(value) != want || want == "" && !errors.Is(err, larder.ErrNotFound) {
		t.Fatalf("Get(%q) = %.40q, %v, want %.40q", key, value, err, want)
	}
}

func TestRemoteItems(t *testing.T) {
	for mode, arguments := range serverModes {
		for _, key := range []string{"k", "a key with spaces"} {
			t.Run(mode+", "+key, func(t *testing.T) {
				remote, ctx := connectToServer(t, arguments...), t.Context()
				check.NoError(t, remote.SetItem(ctx, key, []byte("v"), larder.Item{Flags: 7, TTL: time.Hour}))
				value, item, err := remote.GetItem(ctx, key)
				check.NoError(t, err)
				check.Equal(t, "value", string(value), "v")
				check.Equal(t, "flags", item.Flags, 7)
				// The test takes less than ten seconds.
				if item.TTL < 3590*time.Second || item.TTL > time.Hour || item.CAS == 0 {
					t.Errorf("item = %+v, want a token and an hour to live", item)
				}
				next := must[uint64](t)(remote.CompareAndSwap(ctx, key, []byte("w"), 0, item.CAS))
				check.ErrorIs(t, "SetItem with an old token", remote.SetItem(ctx, key, nil, item), larder.ErrChanged)
				_, item, err = remote.GetItem(ctx, key)
				check.NoError(t, err)
				check.Equal(t, "token after the swap", item.CAS, next)
				check.Equal(t, "TTL after the swap", item.TTL, 0)
				const days = 24 * time.Hour
				check.NoError(t, remote.Set(ctx, key, nil, 100*days))
				value, item, err = remote.GetItem(ctx, key)
				check.NoError(t, err)
				check.Equal(t, "empty value is nil", value == nil, false)
				// More than 30 days are a Unix time in the protocol.
				if item.TTL < 99*days || item.TTL > 101*days {
					t.Errorf("TTL = %v, want 100 days", item.TTL)
				}
				check.NoError(t, remote.Set(ctx, key, []byte("v"), larder.Forever))
				wantRemote(t, remote, key, "v")
				check.NoError(t, remote.Set(ctx, key, nil, -time.Second))
				wantRemote(t, remote, key, "")
			})
		}
	}
}

func TestRemoteErrors(t *testing.T) {
	remote, ctx := connectToServer(t), t.Context()
	check.NoError(t, remote.Set(ctx, "word", []byte("seven"), 0))
	_, err := remote.Decr(ctx, "word", 1)
	check.ErrorIs(t, "Decr(word)", err, larder.ErrNotANumber)
	_, err = remote.Incr(ctx, "none", 1)
	check.ErrorIs(t, "Incr(none)", err, larder.ErrNotFound)
	check.ErrorIs(t, "Set of 3 MiB", remote.Set(ctx, "k", make([]byte, 3<<20), 0), larder.ErrTooLarge)
	check.ErrorIs(t, "Set with 251 bytes of key", remote.Set(ctx, strings.Repeat("k", 251), nil, 0), larder.ErrKey)
	_, err = remote.CompareAndSwap(ctx, "word", nil, -1, 1)
	check.ErrorIs(t, "CompareAndSwap with a negative ttl", err, larder.ErrInvalid)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = remote.Get(ended, "word")
	check.ErrorIs(t, "Get with an ended context", err, context.Canceled)
	_, err = Connect(ctx, "/nowhere/at/all")
	check.ErrorIs(t, "Connect to a socket that does not exist", err, ErrUnreachable)
	if !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("Connect: error %q, want the address", err)
	}
	_, err = Connect(ctx, "nonsense")
	check.ErrorIs(t, "Connect to an address without a port", err, larder.ErrInvalid)
}

func TestRemoteKeys(t *testing.T) {
	remote, ctx, is := connectToServer(t), t.Context(), must[bool](t)
	for _, key := range []string{"a b", "\x00\r\n", "\xff\xfe", strings.Repeat(" ", 186), strings.Repeat("k", 250)} {
		check.NoError(t, remote.Set(ctx, key, []byte("v"), time.Minute))
		check.Equal(t, "Get", string(must[[]byte](t)(remote.Get(ctx, key))), "v")
		check.Equal(t, "Touch", is(remote.Touch(ctx, key, time.Hour)), true)
		check.Equal(t, "Delete", is(remote.Delete(ctx, key)), true)
	}
	check.NoError(t, remote.Set(ctx, "k", []byte("v"), 0))
	for _, key := range []string{"", strings.Repeat(" ", 187), strings.Repeat("k", 251)} {
		_, err := remote.Get(ctx, key)
		check.ErrorIs(t, "Get", err, larder.ErrNotFound)
		check.Equal(t, "Touch", is(remote.Touch(ctx, key, time.Hour)), false)
		check.Equal(t, "Delete", is(remote.Delete(ctx, key)), false)
		found := 0
		check.NoError(t, remote.GetMany(ctx, []string{"k", key, "k"}, func(int, []byte) { found++ }))
		check.Equal(t, "values of GetMany next to a key that is too long", found, 2)
		check.ErrorIs(t, "Set", remote.Set(ctx, key, nil, 0), larder.ErrKey)
		_, err = remote.Add(ctx, key, nil, -1)
		check.ErrorIs(t, "Add", err, larder.ErrKey)
		_, err = remote.GetOrLoad(ctx, key, func(context.Context, string) ([]byte, time.Duration, error) {
			t.Error("GetOrLoad has loaded a key that it cannot store")
			return nil, 0, nil
		})
		check.ErrorIs(t, "GetOrLoad", err, larder.ErrKey)
	}
}

func TestClosedRemote(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	remote, ctx := connectToServer(t), t.Context()
	check.NoError(t, remote.Set(ctx, "k", []byte("v"), 0))
	for range 2 {
		check.NoError(t, remote.Close())
	}
	_, get := remote.Get(ctx, "k")
	_, del := remote.Delete(ctx, "k")
	_, add := remote.Add(ctx, "k", nil, 0)
	_, addNothing := remote.Add(ctx, "k", nil, -1)
	_, incr := remote.Incr(ctx, "k", 1)
	_, touch := remote.Touch(ctx, "k", 0)
	_, swap := remote.CompareAndSwap(ctx, "k", nil, 0, 1)
	_, getOrLoad := remote.GetOrLoad(ctx, "k", loaderOf("v", 0))
	for name, err := range map[string]error{
		"Get": get, "Delete": del, "Add": add, "Add with a negative ttl": addNothing, "Incr": incr, "Touch": touch, "CompareAndSwap": swap,
		"GetOrLoad": getOrLoad, "Set": remote.Set(ctx, "k", nil, 0), "Clear": remote.Clear(ctx),
		"GetMany": remote.GetMany(ctx, []string{"k"}, nil),
	} {
		check.ErrorIs(t, name, err, larder.ErrClosed)
	}
}

func TestRemoteGetOrLoad(t *testing.T) {
	check.GoroutineLeaks(t)
	remote := connectToServer(t)
	var loads atomic.Int32
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		loads.Add(1)
		time.Sleep(20 * time.Millisecond)
		return []byte("loaded"), time.Minute, nil
	}
	var all sync.WaitGroup
	for range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			value, err := remote.GetOrLoad(t.Context(), "k", loader)
			if err != nil || string(value) != "loaded" {
				t.Errorf("GetOrLoad = %q, %v, want %q", value, err, "loaded")
			}
		}()
	}
	all.Wait()
	check.Equal(t, "loads", loads.Load(), 1)
	wantRemote(t, remote, "k", "loaded")
	_ = remote.Close()
}

func TestRemoteStaleForever(t *testing.T) {
	socket := testserver.Start(t, "larderd")
	remote := connect(t, socket, Options{StaleFor: larder.Forever, RefreshBefore: time.Second})
	must[[]byte](t)(remote.GetOrLoad(t.Context(), "k", loaderOf("v", time.Minute)))
	must[[]byte](t)(remote.GetOrLoad(t.Context(), "k", loaderFailing(errors.New("loaded too early"))))
	check.Equal(t, "loads of a fresh value", remote.loads.Loads(), 0)
	_, err := ConnectWithOptions(t.Context(), socket, Options{StaleFor: -1})
	check.ErrorIs(t, "ConnectWithOptions with a negative StaleFor", err, larder.ErrInvalid)
}

func TestRemoteLoadDoesNotOverwriteChanges(t *testing.T) {
	socket := testserver.Start(t, "larderd")
	remote := connect(t, socket, Options{StaleFor: time.Hour})
	other := connect(t, socket, Options{})
	ctx := t.Context()
	for _, by := range []*Cache{remote, other} {
		for _, isRefresh := range []bool{false, true} {
			for name, change := range map[string]struct {
				do   func()
				want string
			}{
				"set":    {func() { check.NoError(t, by.Set(ctx, "k", []byte("set"), 0)) }, "set"},
				"delete": {func() { must[bool](t)(by.Delete(ctx, "k")) }, ""},
				"get":    {func() { _, _ = by.Get(ctx, "k") }, "loaded"},
				"clear":  {func() { check.NoError(t, by.Clear(ctx)) }, ""},
			} {
				if by == other && !isRefresh && change.want == "" {
					// The protocol does not report that an absent key was deleted.
					continue
				}
				t.Run(fmt.Sprintf("%s, by another client %v, refresh %v", name, by == other, isRefresh), func(t *testing.T) {
					must[bool](t)(remote.Delete(ctx, "k"))
					if isRefresh {
						// Less than StaleFor to live: the value is stale.
						check.NoError(t, remote.Set(ctx, "k", []byte("old"), time.Minute))
					}
					loader := func(context.Context, string) ([]byte, time.Duration, error) {
						change.do()
						return []byte("loaded"), time.Minute, nil
					}
					must[[]byte](t)(remote.GetOrLoad(ctx, "k", loader))
					check.Eventually(t, "end of the load", func() bool { return remote.loads.Loads() == 0 })
					wantRemote(t, remote, "k", change.want)
				})
			}
		}
	}
}

// serveConns starts a server that calls serve for each connection.
func serveConns(t *testing.T, serve func(net.Conn)) (socket string) {
	socket = testserver.Socket(t)
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

// respond plays a server that supports only meta commands, and calls onGet for each get.
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
	remote := connect(t, socket, Options{Timeout: time.Minute})
	threads := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	for at := range waiters {
		all.Add(1)
		go func() {
			defer all.Done()
			_, err := remote.Get(t.Context(), fmt.Sprint(at))
			check.ErrorIs(t, "Get", err, larder.ErrNotFound)
		}()
	}
	for range connectionsMax {
		<-requested
	}
	// Nothing signals that the client opens no further connection, so wait.
	time.Sleep(200 * time.Millisecond)
	// The runtime may start a few threads for its own work.
	if more := pprof.Lookup("threadcreate").Count() - threads; more > connectionsMax/4 {
		t.Errorf("%d waiting goroutines started %d threads, want at most %d", waiters, more, connectionsMax/4)
	}
	// The requests for the memory of the server open additional connections.
	if open := connections.Load(); open > connectionsMax+2 {
		t.Errorf("%d connections, want at most %d", open, connectionsMax+2)
	}
	close(release)
	all.Wait()
	_ = remote.Close()
}

func TestEndOfContextEndsWaitForServer(t *testing.T) {
	check.GoroutineLeaks(t)
	requested := make(chan struct{})
	socket := serveConns(t, func(conn net.Conn) { respond(conn, func() { requested <- struct{}{} }) })
	remote := connect(t, socket, Options{Timeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := remote.Get(ctx, "k")
		ended <- err
	}()
	<-requested
	cancel()
	check.ErrorIs(t, "Get during the end of its context", <-ended, context.Canceled)
	// If the server does not respond, the timeout ends a call although its context does not end.
	remote = connect(t, socket, Options{Timeout: 20 * time.Millisecond})
	go func() { <-requested }()
	_, err := remote.Get(t.Context(), "k")
	check.ErrorIs(t, "Get after the timeout", err, ErrUnreachable)
}
