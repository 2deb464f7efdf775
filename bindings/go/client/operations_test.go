package client

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func wantValue(t *testing.T, c *Client, key, value string) *Item {
	t.Helper()
	item, err := c.Get(key)
	if err != nil || string(item.Value) != value || item.Key != key {
		t.Fatalf("%s: %+v, %v, not %q", key, item, err, value)
	}
	return item
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	// What gomemcache's users compare with == can be.
	if err != want {
		t.Fatalf("%v, not %v", err, want)
	}
}

func TestWhatIsStoredIsRead(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		_, err := c.Get("k")
		wantError(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Value: []byte("v\r\n\x00"), Flags: math.MaxUint32}))
		item := wantValue(t, c, "k", "v\r\n\x00")
		if item.Flags != math.MaxUint32 || item.CasID == 0 {
			t.Errorf("%+v", item)
		}
		must(t, c.Set(&Item{Key: "k"}))
		wantValue(t, c, "k", "")
		must(t, c.Delete("k"))
		wantError(t, c.Delete("k"), ErrCacheMiss)
		_, err = c.Get("k")
		wantError(t, err, ErrCacheMiss)
	})
}

func TestConditionsOfStores(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		k := func(value string) *Item { return &Item{Key: "k", Value: []byte(value)} }
		wantError(t, c.Replace(k("x")), ErrNotStored)
		wantError(t, c.Append(k("x")), ErrNotStored)
		wantError(t, c.Prepend(k("x")), ErrNotStored)
		must(t, c.Add(&Item{Key: "k", Value: []byte("b"), Flags: 7}))
		wantError(t, c.Add(k("x")), ErrNotStored)
		must(t, c.Append(k("c")))
		must(t, c.Prepend(k("a")))
		if item := wantValue(t, c, "k", "abc"); item.Flags != 7 {
			t.Errorf("flags %d", item.Flags)
		}
		must(t, c.Replace(k("d")))
		wantValue(t, c, "k", "d")
	})
}

func TestCompareAndSwap(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		wantError(t, c.CompareAndSwap(&Item{Key: "k", CasID: 1}), ErrCacheMiss)
		wantError(t, c.CompareAndSwap(&Item{Key: "k", CasID: 0}), ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Value: []byte("1")}))
		item := wantValue(t, c, "k", "1")
		item.Value = []byte("2")
		must(t, c.CompareAndSwap(item))
		wantError(t, c.CompareAndSwap(item), ErrCASConflict)
		wantError(t, c.CompareAndSwap(&Item{Key: "k", CasID: 0}), ErrCASConflict)
		wantValue(t, c, "k", "2")
	})
}

func TestNumbers(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		_, err := c.Increment("n", 1)
		wantError(t, err, ErrCacheMiss)
		_, err = c.Decrement("n", 1)
		wantError(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "n", Value: []byte("10")}))
		for _, step := range []struct {
			by   func(string, uint64) (uint64, error)
			n    uint64
			want uint64
		}{
			{c.Increment, 0, 10}, {c.Decrement, 1, 9}, {c.Decrement, 10, 0}, {c.Increment, math.MaxUint64, math.MaxUint64}, {c.Increment, 2, 1},
		} {
			if got, err := step.by("n", step.n); err != nil || got != step.want {
				t.Fatalf("%d, %v, not %d", got, err, step.want)
			}
		}
		must(t, c.Set(&Item{Key: "n", Value: []byte("word")}))
		_, err = c.Increment("n", 1)
		var reply *ReplyError
		if !errors.Is(err, ErrClientError) || !errors.As(err, &reply) || !strings.Contains(err.Error(), "client error") {
			t.Fatal(err)
		}
		wantValue(t, c, "n", "word")
	})
}

func TestExpirations(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		wantError(t, c.Touch("k", 60), ErrCacheMiss)
		_, err := c.GetAndTouch("k", 60)
		wantError(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Value: []byte("v"), Flags: 3, Expiration: 60}))
		must(t, c.Touch("k", 0))
		item, err := c.GetAndTouch("k", -1)
		if err != nil || string(item.Value) != "v" || item.Flags != 3 || item.CasID == 0 {
			t.Fatalf("%+v, %v", item, err)
		}
		_, err = c.Get("k")
		wantError(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Expiration: -1}))
		_, err = c.Get("k")
		wantError(t, err, ErrCacheMiss)
	})
}

func TestManyKeysAtOnce(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		keys := testKeys(5000)
		for i, key := range keys {
			if i%2 == 0 {
				must(t, c.Set(&Item{Key: key, Value: bytes.Repeat([]byte(key), 50), Flags: uint32(i)}))
			}
		}
		items, err := c.GetMulti(append(keys, "key:0"))
		must(t, err)
		if len(items) != len(keys)/2 {
			t.Fatalf("%d items", len(items))
		}
		for i, key := range keys {
			item := items[key]
			if (i%2 == 0) != (item != nil) || item != nil && (item.Key != key || item.Flags != uint32(i) || item.CasID == 0 || !bytes.HasPrefix(item.Value, []byte(key+"key"))) {
				t.Fatalf("%s: %+v", key, item)
			}
		}
		none, err := c.GetMulti(nil)
		if err != nil || none == nil || len(none) != 0 {
			t.Error(none, err)
		}
	})
}

func TestFlushAndPing(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		must(t, c.Ping())
		must(t, c.Set(&Item{Key: "k"}))
		must(t, c.DeleteAll())
		_, err := c.Get("k")
		wantError(t, err, ErrCacheMiss)
	})
}

func TestKeys(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		long := strings.Repeat("k", 250)
		must(t, c.Set(&Item{Key: long, Value: []byte("long")}))
		wantValue(t, c, long, "long")
		must(t, c.Set(&Item{Key: "ключ", Value: []byte("utf-8")}))
		wantValue(t, c, "ключ", "utf-8")
		for _, key := range []string{"", long + "k", "a b" + strings.Repeat("k", 248)} {
			wantError(t, c.Set(&Item{Key: key}), ErrMalformedKey)
			_, err := c.GetMulti([]string{"k", key})
			if !errors.Is(err, ErrMalformedKey) {
				t.Errorf("%q: %v", key, err)
			}
		}
		binary := "a b\x00\r\n"
		// What is a key must not depend on what a server happens to speak.
		if c.options.Protocol == ProtocolText || c.options.Protocol == ProtocolAuto {
			wantError(t, c.Set(&Item{Key: binary}), ErrMalformedKey)
			return
		}
		must(t, c.Set(&Item{Key: binary, Value: []byte("binary")}))
		wantValue(t, c, binary, "binary")
		items, err := c.GetMulti([]string{long, binary, "ключ"})
		if err != nil || len(items) != 3 || string(items[binary].Value) != "binary" {
			t.Errorf("%v, %v", items, err)
		}
	})
}

func TestLargeValues(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		value := bytes.Repeat([]byte("0123456789abcde\n"), 60_000)
		must(t, c.Set(&Item{Key: "k", Value: value}))
		item, err := c.Get("k")
		if err != nil || !bytes.Equal(item.Value, value) {
			t.Fatal(err)
		}
		// memcached takes values of up to 1 MiB.
		err = c.Set(&Item{Key: "k", Value: bytes.Repeat(value, 2)})
		if !errors.Is(err, ErrServerError) {
			t.Fatal(err)
		}
		must(t, c.Set(&Item{Key: "k", Value: []byte("the connection goes on")}))
		wantValue(t, c, "k", "the connection goes on")
	})
}

func TestManyGoroutines(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		var all sync.WaitGroup
		for g := range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := range 100 {
					key := fmt.Sprintf("%d:%d", g, i)
					if err := c.Set(&Item{Key: key, Value: []byte(key)}); err != nil {
						t.Error(err)
						return
					}
					item, err := c.Get(key)
					if err != nil || string(item.Value) != key {
						t.Errorf("%+v, %v", item, err)
						return
					}
				}
			}()
		}
		all.Wait()
	})
}

func TestReadsAllocateTheItemOnly(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startServer(t, "memcached")}})
	item := &Item{Key: "k", Value: []byte("value")}
	must(t, c.Set(item))
	for what, limit := range map[string]struct {
		f      func()
		allocs float64
	}{
		"get":  {func() { c.Get("k") }, 2},
		"miss": {func() { c.Get("missing") }, 0},
		"set":  {func() { c.Set(item) }, 0},
	} {
		if allocs := testing.AllocsPerRun(200, limit.f); allocs > limit.allocs {
			t.Errorf("%s: %v allocations, not %v", what, allocs, limit.allocs)
		}
	}
}

func TestLogins(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	must(t, os.WriteFile(users, []byte("app:secret\n"), 0o600))
	t.Setenv("MEMCACHED_SASL_PWDB", users)
	for _, c := range []struct {
		server   string
		args     []string
		protocol Protocol
	}{
		{"larderd", []string{"-Y", users}, ProtocolAuto},
		{"larderd", []string{"-Y", users}, ProtocolText},
		{"larderd", []string{"-S"}, ProtocolBinary},
		{"memcached", []string{"-Y", users}, ProtocolAuto},
	} {
		t.Run(fmt.Sprint(c.server, c.protocol), func(t *testing.T) {
			socket := startServer(t, c.server, c.args...)
			right := Options{Servers: []string{socket}, Protocol: c.protocol, Username: "app", Password: "secret"}
			client := newClient(t, right)
			must(t, client.Set(&Item{Key: "k", Value: []byte("v")}))
			wantValue(t, client, "k", "v")
			wrong := right
			wrong.Password = "guess"
			if _, err := newClient(t, wrong).Get("k"); !errors.Is(err, ErrLogin) {
				t.Errorf("%v, not %v", err, ErrLogin)
			}
			nobody := Options{Servers: []string{socket}, Protocol: c.protocol}
			if _, err := newClient(t, nobody).Get("k"); err == nil || err == ErrCacheMiss {
				t.Error(err)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	config := writeCertificate(t, cert, key)
	address := freePort(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	runServer(t, "larderd", "-l", "127.0.0.1", "-p", port, "-Z", "-o", "ssl_chain_cert="+cert+",ssl_key="+key)
	waitForServer(t, "tcp", address)
	c := newClient(t, Options{Servers: []string{address}, TLS: config})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	wantValue(t, c, "k", "v")
	distrusting := newClient(t, Options{Servers: []string{address}, TLS: config.Clone()})
	distrusting.options.TLS.RootCAs = nil
	var fault *FaultError
	if _, err := distrusting.Get("k"); !errors.As(err, &fault) {
		t.Error(err)
	}
}

func TestAServerThatKnowsTextOnlyIsSpokenTextTo(t *testing.T) {
	c := newClient(t, Options{Servers: []string{fakeServer(t, serveTextOnly)}})
	wantValue(t, c, "k", "v")
	item, err := c.GetAndTouch("k", 1)
	if err != nil || string(item.Value) != "v" {
		t.Error(item, err)
	}
	if _, err := c.Get("two words"); err != ErrMalformedKey {
		t.Error(err)
	}
}

func TestAServerThatHangsUpOnMetaIsSpokenTextTo(t *testing.T) {
	connections := newDialCounter()
	c := newClient(t, Options{DialContext: connections.dial, Servers: []string{fakeServer(t, serveAndHangUp)}})
	for range 3 {
		wantValue(t, c, "k", "v")
		must(t, c.Close())
	}
	// The first connection was in vain; the others were not asked.
	if dialed := addTo(connections.dialed, 0); dialed != 4 {
		t.Errorf("%d connections", dialed)
	}
}

func TestARestartedServerIsNotNoticed(t *testing.T) {
	address := freePort(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	first := runServer(t, "memcached", "-l", "127.0.0.1", "-p", port)
	waitForServer(t, "tcp", address)
	c := newClient(t, Options{Servers: []string{address}})
	must(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	first.Process.Kill()
	first.Wait()
	time.Sleep(10 * time.Millisecond)
	runServer(t, "memcached", "-l", "127.0.0.1", "-p", port)
	waitForServer(t, "tcp", address)
	_, err := c.Get("k")
	wantError(t, err, ErrCacheMiss)
}

func TestStaleItemsAreReadAsOthers(t *testing.T) {
	c := newClient(t, Options{Protocol: ProtocolMeta, Servers: []string{fakeServer(t, replyWith("VA 1 c7 f5 O0 W X Z\r\nv\r\n"))}})
	if item := wantValue(t, c, "k", "v"); item.Flags != 5 || item.CasID != 7 {
		t.Errorf("%+v", item)
	}
}
