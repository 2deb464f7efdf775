//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

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

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func init() { attachTimeout = time.Second }

// startLocalServer starts a larderd with local readers and returns its socket.
func startLocalServer(t testing.TB) (socket string) {
	t.Helper()
	socket = testserver.Socket(t)
	startLocalServerAt(t, socket)
	return socket
}

func startLocalServerAt(t testing.TB, socket string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("local reads require Linux")
	}
	return testserver.RunAt(t, socket, localLarderd[0], localLarderd[1:]...)
}

// wantLocalReads checks the number of items that f reads in the memory.
func wantLocalReads(t *testing.T, c *Client, want uint64, f func()) {
	t.Helper()
	before := c.LocalReads()
	f()
	check.Equal(t, "local reads", c.LocalReads()-before, want)
}

// waitForLocalRead waits until a get finds a key in the memory.
func waitForLocalRead(t *testing.T, c *Client, key string) {
	t.Helper()
	check.Eventually(t, "local read of "+key, func() bool {
		before := c.LocalReads()
		_, err := c.Get(key)
		return err == nil && c.LocalReads() > before
	})
}

func TestHitsAreReadLocally(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v"), Flags: 7}))
	wantLocalReads(t, c, 1, func() {
		item := wantValue(t, c, "k", "v")
		check.Equal(t, "Flags", item.Flags, 7)
		item.Value = []byte("w")
		check.NoError(t, c.CompareAndSwap(item))
	})
	wantLocalReads(t, c, 2, func() {
		wantValue(t, c, "k", "w")
		check.NoError(t, c.Set(&Item{Key: "k"}))
		check.Equal(t, "empty value is nil", wantValue(t, c, "k", "").Value == nil, false)
	})
	wantLocalReads(t, c, 0, func() {
		_, err := c.Get("none")
		wantOutcome(t, err, ErrCacheMiss)
		_, err = c.GetAndTouch("k", 60)
		check.NoError(t, err)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = c.GetContext(cancelled, "k")
		check.ErrorIs(t, "GetContext", err, context.Canceled)
	})
}

// A key that the protocol does not allow is an error even if it is in the memory.
func TestLocalReadsRejectKeysOfOtherProtocols(t *testing.T) {
	socket := startLocalServer(t)
	meta := newClient(t, Options{Servers: []string{socket}, Protocol: ProtocolMeta})
	text := newClient(t, Options{Servers: []string{socket}, Protocol: ProtocolText})
	check.NoError(t, meta.Set(&Item{Key: "a b", Value: []byte("v")}))
	check.NoError(t, meta.Set(&Item{Key: "k", Value: []byte("v")}))
	wantValue(t, meta, "a b", "v")
	wantValue(t, text, "k", "v")
	_, err := text.Get("a b")
	wantOutcome(t, err, ErrMalformedKey)
	items, err := text.GetMulti([]string{"k", "a b"})
	check.ErrorIs(t, "GetMulti", err, ErrMalformedKey)
	check.Equal(t, "items", len(items), 1)
	_, err = text.Get("")
	wantOutcome(t, err, ErrMalformedKey)
}

func TestMaxValueBytesAppliesToLocalReads(t *testing.T) {
	socket := startLocalServer(t)
	for _, local := range []bool{true, false} {
		c := newClient(t, Options{Servers: []string{socket}, MaxValueBytes: 100_000, NoLocalReads: !local})
		check.NoError(t, c.Set(&Item{Key: "long", Value: make([]byte, 200_000)}))
		_, get := c.Get("long")
		_, getMulti := c.GetMulti([]string{"long"})
		for name, err := range map[string]error{"Get": get, "GetMulti": getMulti} {
			if err == nil {
				t.Errorf("%s, local reads %v: no error, want one", name, local)
			}
		}
	}
}

func TestGetMultiCombinesLocalReadsAndRequests(t *testing.T) {
	socket := startLocalServer(t)
	c := newClient(t, Options{Servers: []string{socket}})
	keys := testKeys(100)
	for i, key := range keys[:90] {
		check.NoError(t, c.Set(&Item{Key: key, Value: bytes.Repeat([]byte{'x'}, i*20), Flags: uint32(i)}))
	}
	other := newClient(t, Options{Servers: []string{socket}, NoLocalReads: true})
	var items map[string]*Item
	wantLocalReads(t, c, 90, func() {
		var err error
		items, err = c.GetMulti(keys)
		check.NoError(t, err)
	})
	theirs, err := other.GetMulti(keys)
	check.NoError(t, err)
	check.Equal(t, "items", len(items), 90)
	check.Equal(t, "items through the socket", len(theirs), 90)
	check.Equal(t, "local reads with NoLocalReads", other.LocalReads(), 0)
	for key, item := range items {
		want := theirs[key]
		check.Equal(t, "Key", item.Key, key)
		check.Equal(t, "Value", string(item.Value), string(want.Value))
		check.Equal(t, "Flags", item.Flags, want.Flags)
		check.Equal(t, "CasID", item.CasID, want.CasID)
		for i := range item.Value {
			item.Value[i] = 'y'
		}
		// Must not reach the next value.
		_ = append(item.Value, "of another"...)
	}
	markStale(t, socket, keys[0])
	wantLocalReads(t, c, 89, func() {
		items, err := c.GetMulti(keys)
		check.NoError(t, err)
		check.Equal(t, "items with a stale one", len(items), 90)
	})
}

// markStale marks an item as out of date, which excludes it from local reads.
func markStale(t *testing.T, socket, key string) {
	t.Helper()
	check.Equal(t, "response to md", request(t, socket, "md "+key+" I\r\n"), "HD\r\n")
}

func TestNoLocalReads(t *testing.T) {
	local := startLocalServer(t)
	for name, options := range map[string]Options{
		"memcached":   {Servers: []string{testserver.Start(t, "memcached")}},
		"larderd":     {Servers: []string{testserver.Start(t, "larderd")}},
		"not wanted":  {Servers: []string{local}, NoLocalReads: true},
		"own dialing": {Servers: []string{local}, DialContext: newDialCounter().dial},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, options)
			wantLocalReads(t, c, 0, func() {
				check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
				wantValue(t, c, "k", "v")
			})
		})
	}
}

// The client does not ask a server without local readers for its memory on each connection.
func TestMemoryIsRequestedRarely(t *testing.T) {
	socket := testserver.Start(t, "memcached")
	c := newClient(t, Options{Servers: []string{socket}, MaxIdleConns: -1})
	before := connectionsOf(t, socket)
	for range 100 {
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	}
	// One per request, one for the memory and one for the statistics; one more on a slow machine.
	if made := connectionsOf(t, socket) - before; made < 100 || made > 103 {
		t.Errorf("%d connections, want 100 to 103", made)
	}
}

func TestClientReadsOwnWritesAcrossRestarts(t *testing.T) {
	socket := testserver.Socket(t)
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
				// A restarted server is empty.
				item, err := c.Get(key)
				if err == nil && string(item.Value) != value {
					t.Errorf("Get(%q) = %q, want %q", key, item.Value, value)
				}
			}
		}()
	}
	for range 4 {
		before := c.LocalReads()
		check.Eventually(t, "100 local reads", func() bool { return c.LocalReads() > before+100 })
		testserver.Kill(server)
		server = startLocalServerAt(t, socket)
	}
	done.Store(true)
	writers.Wait()
}

func TestStoppedServerTimesOut(t *testing.T) {
	socket := testserver.Socket(t)
	server := startLocalServerAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}, Timeout: time.Second, BackoffMin: -1})
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "v") })
	check.NoError(t, server.Process.Signal(syscall.SIGSTOP))
	check.Eventually(t, "timeout of a stopped server", func() bool {
		_, err := c.Get("k")
		var fault *FaultError
		return errors.As(err, &fault) && fault.Timeout()
	})
	check.NoError(t, server.Process.Signal(syscall.SIGCONT))
	waitForLocalRead(t, c, "k")
}

// The old server still serves its connections, and its memory remains readable for a minute. A
// client with a connection to the new server must read the new server's memory.
func TestLocalReadsFollowUpgrade(t *testing.T) {
	socket := testserver.Socket(t)
	old := startLocalServerAt(t, socket)
	c := newClient(t, Options{Servers: []string{socket}})
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("old")}))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "old") })
	check.NoError(t, old.Process.Signal(syscall.SIGUSR2))
	check.Eventually(t, "the new server", func() bool { return statOf(t, socket, "pid") != old.Process.Pid })
	successor := statOf(t, socket, "pid")
	t.Cleanup(func() { syscall.Kill(successor, syscall.SIGKILL) })
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "old") })

	// The idle connection is in use, so the next request opens one to the new server.
	node := c.node(serverAddr{"unix", socket})
	idle, _, err := node.takeConn(context.Background(), c, false)
	check.NoError(t, err)
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("new")}))
	check.NoError(t, node.run(context.Background(), c, idle, func(*conn) error { return nil }))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "new") })
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("newer")}))
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "newer") })
}

// The client attaches to the memory even if no connection fails.
func TestLocalReadsBeginLater(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startLocalServer(t)}})
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	node := c.node(c.selector.(*ServerList).addrs[0])
	node.local.close()
	wantValue(t, c, "k", "v")
	wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "v") })
	check.Equal(t, "idle connections", len(node.idle), 1)
}

func TestCloseReleasesMemory(t *testing.T) {
	socket := startLocalServer(t)
	check.GoroutineLeaks(t)
	c := newClient(t, Options{Servers: []string{socket}})
	for range 3 {
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
		wantLocalReads(t, c, 1, func() { wantValue(t, c, "k", "v") })
		check.NoError(t, c.Close())
		attachment := c.node(serverAddr{"unix", socket}).local.attachment.Load()
		check.Equal(t, "attachment after Close is nil", attachment == nil, true)
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
			check.NoError(b, c.Set(&Item{Key: key, Value: make([]byte, 100)}))
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
