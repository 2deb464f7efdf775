package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func startLocalServer(t testing.TB) (socket string) {
	t.Helper()
	socket = tempSocket(t)
	startLocalServerAt(t, socket)
	return socket
}

func startLocalServerAt(t testing.TB, socket string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a server's memory is read on Linux only")
	}
	return startServerAt(t, socket, localLarderd[0], localLarderd[1:]...)
}

// wantsLocal checks how many items f finds in the memory.
func wantLocalReads(t *testing.T, c *Client, want uint64, f func()) {
	t.Helper()
	before := c.LocalReads()
	f()
	if reads := c.LocalReads() - before; reads != want {
		t.Errorf("%d items were found in the memory, not %d", reads, want)
	}
}

// untilLocal waits until reads find a key in the memory.
func waitForLocalRead(t *testing.T, c *Client, key string) {
	t.Helper()
	waitUntil(t, key+" is found in the memory", func() bool {
		before := c.LocalReads()
		_, err := c.Get(key)
		return err == nil && c.LocalReads() > before
	})
}

func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for started := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(started) > 15*time.Second {
			t.Fatalf("%s: never", what)
		}
	}
}

// stop ends a server, as a crash would.
func kill(server *exec.Cmd) {
	server.Process.Kill()
	server.Wait()
}

func TestHitsAreFoundInTheMemoryOfAServer(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v"), Flags: 7}))
	wantLocalReads(t, c, 1, func() {
		item := wantValue(t, c, "k", "v")
		if item.Flags != 7 {
			t.Errorf("%+v", item)
		}
		item.Value = []byte("w")
		must(t, c.CompareAndSwap(item))
	})
	wantLocalReads(t, c, 2, func() {
		wantValue(t, c, "k", "w")
		must(t, c.Set(&Item{Key: "k"}))
		if item := wantValue(t, c, "k", ""); item.Value == nil {
			t.Error("an empty value is nil")
		}
	})
	wantLocalReads(t, c, 0, func() {
		_, err := c.Get("none")
		wantError(t, err, ErrCacheMiss)
		_, err = c.GetAndTouch("k", 60)
		must(t, err)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := c.GetContext(cancelled, "k"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// What no protocol can ask for is an error, though it may be in the memory.
func TestKeysAreThoseOfTheProtocol(t *testing.T) {
	socket := startLocalServer(t)
	meta := newClient(t, Options{Servers: []string{socket}, Protocol: ProtocolMeta})
	text := newClient(t, Options{Servers: []string{socket}, Protocol: ProtocolText})
	must(t, meta.Set(&Item{Key: "a b", Value: []byte("v")}))
	must(t, meta.Set(&Item{Key: "k", Value: []byte("v")}))
	wantValue(t, meta, "a b", "v")
	wantValue(t, text, "k", "v")
	_, err := text.Get("a b")
	wantError(t, err, ErrMalformedKey)
	if items, err := text.GetMulti([]string{"k", "a b"}); !errors.Is(err, ErrMalformedKey) || len(items) != 1 {
		t.Errorf("%v, %v", items, err)
	}
	_, err = text.Get("")
	wantError(t, err, ErrMalformedKey)
}

func TestAValueThatIsTooLongIsSoInTheMemoryAsWell(t *testing.T) {
	socket := startLocalServer(t)
	for _, local := range []bool{true, false} {
		c := newClient(t, Options{Servers: []string{socket}, MaxValueBytes: 100_000, NoLocalReads: !local})
		must(t, c.Set(&Item{Key: "long", Value: make([]byte, 200_000)}))
		if _, err := c.Get("long"); err == nil {
			t.Errorf("local %v: no error", local)
		}
		if _, err := c.GetMulti([]string{"long"}); err == nil {
			t.Errorf("local %v: no error", local)
		}
	}
}

// Some items are in the memory, and of the others some are at the server: such as are stale.
func TestManyItemsAreFoundInTheMemoryAndTheRestAskedFor(t *testing.T) {
	socket := startLocalServer(t)
	c := newClient(t, Options{Servers: []string{socket}})
	keys := testKeys(100)
	for i, key := range keys[:90] {
		must(t, c.Set(&Item{Key: key, Value: bytes.Repeat([]byte{'x'}, i*20), Flags: uint32(i)}))
	}
	other := newClient(t, Options{Servers: []string{socket}, NoLocalReads: true})
	var items map[string]*Item
	wantLocalReads(t, c, 90, func() {
		var err error
		items, err = c.GetMulti(keys)
		must(t, err)
	})
	theirs, err := other.GetMulti(keys)
	must(t, err)
	if len(items) != 90 || len(theirs) != 90 || other.LocalReads() != 0 {
		t.Fatal(len(items), len(theirs), other.LocalReads())
	}
	for key, item := range items {
		want := theirs[key]
		if item.Key != key || !bytes.Equal(item.Value, want.Value) || item.Flags != want.Flags || item.CasID != want.CasID {
			t.Errorf("%+v, not %+v", item, want)
		}
		for i := range item.Value {
			item.Value[i] = 'y'
		}
		// The next one begins elsewhere.
		_ = append(item.Value, "of another"...)
	}
	markStale(t, socket, keys[0])
	wantLocalReads(t, c, 89, func() {
		if items, err := c.GetMulti(keys); err != nil || len(items) != 90 {
			t.Error(len(items), err)
		}
	})
}

// stale marks an item as out of date: it is at the server, and not to be taken from the memory.
func markStale(t *testing.T, socket, key string) {
	t.Helper()
	if said := request(t, socket, "md "+key+" I\r\n"); said != "HD\r\n" {
		t.Fatalf("%q", said)
	}
}

func TestWhoPassesNoMemoryIsAskedForEverything(t *testing.T) {
	local := startLocalServer(t)
	for name, options := range map[string]Options{
		"memcached":   {Servers: []string{startServer(t, "memcached")}},
		"larderd":     {Servers: []string{startServer(t, "larderd")}},
		"not wanted":  {Servers: []string{local}, NoLocalReads: true},
		"own dialing": {Servers: []string{local}, DialContext: newDialCounter().dial},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, options)
			wantLocalReads(t, c, 0, func() {
				must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
				wantValue(t, c, "k", "v")
			})
		})
	}
}

// A server that passes no memory is not asked for it with each request and each connection.
func TestWhoPassesNoMemoryIsAskedAboutItSeldom(t *testing.T) {
	socket := startServer(t, "memcached")
	c := newClient(t, Options{Servers: []string{socket}, MaxIdleConns: -1})
	before := connectionsOf(t, socket)
	for range 100 {
		must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	}
	// A connection for each request, one that asks, and one for these numbers; another one if the machine is slow.
	if made := connectionsOf(t, socket) - before; made < 100 || made > 103 {
		t.Errorf("%d connections", made)
	}
}

// Who has written a value reads it, or a later one.
func TestOwnWritesAreReadThroughRestarts(t *testing.T) {
	socket := tempSocket(t)
	server := startLocalServerAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}, BackoffMin: -1})
	var done atomic.Bool
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			key := fmt.Sprint("key:", w)
			for n := 0; !done.Load(); n++ {
				value := fmt.Sprint(n)
				if c.Set(&Item{Key: key, Value: []byte(value)}) != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				// A server that was started anew has nothing.
				item, err := c.Get(key)
				if err == nil && string(item.Value) != value {
					t.Errorf("%s: %s after %s", key, item.Value, value)
				}
			}
		}()
	}
	for range 4 {
		before := c.LocalReads()
		waitUntil(t, "items are found in the memory", func() bool { return c.LocalReads() > before+100 })
		kill(server)
		server = startLocalServerAt(t, socket)
	}
	done.Store(true)
	writers.Wait()
}

func TestAStoppedServersMemoryIsBelievedForSomeSeconds(t *testing.T) {
	socket := tempSocket(t)
	server := startLocalServerAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}, Timeout: 100 * time.Millisecond, BackoffMin: -1})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "v") })
	must(t, server.Process.Signal(syscall.SIGSTOP))
	waitUntil(t, "a stopped server is noticed", func() bool {
		_, err := c.Get("k")
		var fault *FaultError
		return errors.As(err, &fault) && fault.Timeout()
	})
	must(t, server.Process.Signal(syscall.SIGCONT))
	waitForLocalRead(t, c, "k")
}

// The one that was there before serves its connections still, and its memory could be read for a minute more: but who
// comes in at the new one reads what is there.
func TestAServerThatTakesOverIsRead(t *testing.T) {
	socket := tempSocket(t)
	old := startLocalServerAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("old")}))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "old") })
	must(t, old.Process.Signal(syscall.SIGUSR2))
	waitUntil(t, "another process serves", func() bool { return statOf(t, socket, "pid") != old.Process.Pid })
	successor := statOf(t, socket, "pid")
	t.Cleanup(func() { syscall.Kill(successor, syscall.SIGKILL) })
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "old") })

	// As if more were asked for at once than before.
	node := c.node(serverAddr{"unix", socket})
	idle, _, err := node.takeConn(context.Background(), c, false)
	must(t, err)
	must(t, c.Set(&Item{Key: "k", Value: []byte("new")}))
	must(t, node.run(context.Background(), c, idle, func(*conn) error { return nil }))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "new") })
	must(t, c.Set(&Item{Key: "k", Value: []byte("newer")}))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "newer") })
}

// Whose memory can be read is found out though nothing goes wrong with the connections.
func TestAServerThatPassesItsMemoryLaterIsRead(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	node := c.node(c.selector.(*ServerList).addrs[0])
	node.local.close()
	wantValue(t, c, "k", "v")
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "v") })
	if open := len(node.idle); open != 1 {
		t.Errorf("%d idle connections", open)
	}
}

func TestAClosedClientReadsNoMemory(t *testing.T) {
	socket := startLocalServer(t)
	checkGoroutineLeaks(t)
	c := newClient(t, Options{Servers: []string{socket}})
	for range 3 {
		must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
		wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "v") })
		must(t, c.Close())
		if c.node(serverAddr{"unix", socket}).local.attachment.Load() != nil {
			t.Error("the memory is still there")
		}
	}
}

func BenchmarkGet(b *testing.B) {
	socket := startLocalServer(b)
	for name, options := range map[string]Options{
		"memory": {Servers: []string{socket}}, "socket": {Servers: []string{socket}, NoLocalReads: true},
	} {
		c := newClient(b, options)
		keys := testKeys(100)
		for _, key := range keys {
			must(b, c.Set(&Item{Key: key, Value: make([]byte, 100)}))
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Get("key:7")
			}
		})
		b.Run(name+" 100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.GetMulti(keys)
			}
		})
	}
}
