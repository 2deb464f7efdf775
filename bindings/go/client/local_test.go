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

func startLocal(t testing.TB) (socket string) {
	t.Helper()
	socket = socketIn(t)
	startLocalAt(t, socket)
	return socket
}

func startLocalAt(t testing.TB, socket string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a server's memory is read on Linux only")
	}
	return startAt(t, socket, localLarderd[0], localLarderd[1:]...)
}

// wantsLocal checks how many items f finds in the memory.
func wantsLocal(t *testing.T, c *Client, want uint64, f func()) {
	t.Helper()
	before := c.LocalReads()
	f()
	if reads := c.LocalReads() - before; reads != want {
		t.Errorf("%d items were found in the memory, not %d", reads, want)
	}
}

// untilLocal waits until reads find a key in the memory.
func untilLocal(t *testing.T, c *Client, key string) {
	t.Helper()
	until(t, key+" is found in the memory", func() bool {
		before := c.LocalReads()
		_, err := c.Get(key)
		return err == nil && c.LocalReads() > before
	})
}

func until(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	for started := time.Now(); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Since(started) > 15*time.Second {
			t.Fatalf("%s: never", what)
		}
	}
}

// stop ends a server, as a crash would.
func stop(server *exec.Cmd) {
	server.Process.Kill()
	server.Wait()
}

func TestHitsAreFoundInTheMemoryOfAServer(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocal(t)}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v"), Flags: 7}))
	wantsLocal(t, c, 1, func() {
		item := wants(t, c, "k", "v")
		if item.Flags != 7 {
			t.Errorf("%+v", item)
		}
		item.Value = []byte("w")
		must(t, c.CompareAndSwap(item))
	})
	wantsLocal(t, c, 2, func() {
		wants(t, c, "k", "w")
		must(t, c.Set(&Item{Key: "k"}))
		if item := wants(t, c, "k", ""); item.Value == nil {
			t.Error("an empty value is nil")
		}
	})
	wantsLocal(t, c, 0, func() {
		_, err := c.Get("none")
		wantsError(t, err, ErrCacheMiss)
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
	socket := startLocal(t)
	meta := newClient(t, Options{Servers: []string{socket}, Protocol: ProtocolMeta})
	text := newClient(t, Options{Servers: []string{socket}, Protocol: ProtocolText})
	must(t, meta.Set(&Item{Key: "a b", Value: []byte("v")}))
	must(t, meta.Set(&Item{Key: "k", Value: []byte("v")}))
	wants(t, meta, "a b", "v")
	wants(t, text, "k", "v")
	_, err := text.Get("a b")
	wantsError(t, err, ErrMalformedKey)
	if items, err := text.GetMulti([]string{"k", "a b"}); !errors.Is(err, ErrMalformedKey) || len(items) != 1 {
		t.Errorf("%v, %v", items, err)
	}
	_, err = text.Get("")
	wantsError(t, err, ErrMalformedKey)
}

func TestAValueThatIsTooLongIsSoInTheMemoryAsWell(t *testing.T) {
	socket := startLocal(t)
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
	socket := startLocal(t)
	c := newClient(t, Options{Servers: []string{socket}})
	keys := keysOf(100)
	for i, key := range keys[:90] {
		must(t, c.Set(&Item{Key: key, Value: bytes.Repeat([]byte{'x'}, i*20), Flags: uint32(i)}))
	}
	other := newClient(t, Options{Servers: []string{socket}, NoLocalReads: true})
	var items map[string]*Item
	wantsLocal(t, c, 90, func() {
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
	stale(t, socket, keys[0])
	wantsLocal(t, c, 89, func() {
		if items, err := c.GetMulti(keys); err != nil || len(items) != 90 {
			t.Error(len(items), err)
		}
	})
}

// stale marks an item as out of date: it is at the server, and not to be taken from the memory.
func stale(t *testing.T, socket, key string) {
	t.Helper()
	if said := say(t, socket, "md "+key+" I\r\n"); said != "HD\r\n" {
		t.Fatalf("%q", said)
	}
}

func TestWhoPassesNoMemoryIsAskedForEverything(t *testing.T) {
	local := startLocal(t)
	for name, options := range map[string]Options{
		"memcached":   {Servers: []string{start(t, "memcached")}},
		"larderd":     {Servers: []string{start(t, "larderd")}},
		"not wanted":  {Servers: []string{local}, NoLocalReads: true},
		"own dialing": {Servers: []string{local}, DialContext: newCounting().dial},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, options)
			wantsLocal(t, c, 0, func() {
				must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
				wants(t, c, "k", "v")
			})
		})
	}
}

// A server that passes no memory is not asked for it with each request and each connection.
func TestWhoPassesNoMemoryIsAskedAboutItSeldom(t *testing.T) {
	socket := start(t, "memcached")
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
	socket := socketIn(t)
	server := startLocalAt(t, socket)
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
		until(t, "items are found in the memory", func() bool { return c.LocalReads() > before+100 })
		stop(server)
		server = startLocalAt(t, socket)
	}
	done.Store(true)
	writers.Wait()
}

func TestAStoppedServersMemoryIsBelievedForSomeSeconds(t *testing.T) {
	socket := socketIn(t)
	server := startLocalAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}, Timeout: 100 * time.Millisecond, BackoffMin: -1})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	wantsLocal(t, c, 1, func() { wants(t, c, "k", "v") })
	must(t, server.Process.Signal(syscall.SIGSTOP))
	until(t, "a stopped server is noticed", func() bool {
		_, err := c.Get("k")
		var fault *FaultError
		return errors.As(err, &fault) && fault.Timeout()
	})
	must(t, server.Process.Signal(syscall.SIGCONT))
	untilLocal(t, c, "k")
}

// The one that was there before serves its connections still, and its memory could be read for a minute more: but who
// comes in at the new one reads what is there.
func TestAServerThatTakesOverIsRead(t *testing.T) {
	socket := socketIn(t)
	old := startLocalAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("old")}))
	wantsLocal(t, c, 1, func() { wants(t, c, "k", "old") })
	must(t, old.Process.Signal(syscall.SIGUSR2))
	until(t, "another process serves", func() bool { return statOf(t, socket, "pid") != old.Process.Pid })
	successor := statOf(t, socket, "pid")
	t.Cleanup(func() { syscall.Kill(successor, syscall.SIGKILL) })
	wantsLocal(t, c, 1, func() { wants(t, c, "k", "old") })

	// As if more were asked for at once than before.
	node := c.node(serverAddr{"unix", socket})
	idle, _, err := node.take(context.Background(), c, false)
	must(t, err)
	must(t, c.Set(&Item{Key: "k", Value: []byte("new")}))
	must(t, node.talk(context.Background(), c, idle, func(*conn) error { return nil }))
	wantsLocal(t, c, 1, func() { wants(t, c, "k", "new") })
	must(t, c.Set(&Item{Key: "k", Value: []byte("newer")}))
	wantsLocal(t, c, 1, func() { wants(t, c, "k", "newer") })
}

// Whose memory can be read is found out though nothing goes wrong with the connections.
func TestAServerThatPassesItsMemoryLaterIsRead(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocal(t)}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	node := c.node(c.selector.(*ServerList).addrs[0])
	node.local.close()
	wants(t, c, "k", "v")
	wantsLocal(t, c, 1, func() { wants(t, c, "k", "v") })
	if open := len(node.idle); open != 1 {
		t.Errorf("%d idle connections", open)
	}
}

func TestAClosedClientReadsNoMemory(t *testing.T) {
	socket := startLocal(t)
	leavesNothing(t)
	c := newClient(t, Options{Servers: []string{socket}})
	for range 3 {
		must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
		wantsLocal(t, c, 1, func() { wants(t, c, "k", "v") })
		must(t, c.Close())
		if c.node(serverAddr{"unix", socket}).local.attachment.Load() != nil {
			t.Error("the memory is still there")
		}
	}
}

func BenchmarkGet(b *testing.B) {
	socket := startLocal(b)
	for name, options := range map[string]Options{
		"memory": {Servers: []string{socket}}, "socket": {Servers: []string{socket}, NoLocalReads: true},
	} {
		c := newClient(b, options)
		keys := keysOf(100)
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
