package client

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSetGetDelete(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		_, err := c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Value: []byte("v\r\n\x00"), Flags: math.MaxUint32}))
		item := wantValue(t, c, "k", "v\r\n\x00")
		equal(t, "Flags", item.Flags, math.MaxUint32)
		equal(t, "CasID is 0", item.CasID == 0, false)
		must(t, c.Set(&Item{Key: "k"}))
		wantValue(t, c, "k", "")
		must(t, c.Delete("k"))
		wantOutcome(t, c.Delete("k"), ErrCacheMiss)
		_, err = c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
	})
}

func TestConditionalStores(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		k := func(value string) *Item { return &Item{Key: "k", Value: []byte(value)} }
		wantOutcome(t, c.Replace(k("x")), ErrNotStored)
		wantOutcome(t, c.Append(k("x")), ErrNotStored)
		wantOutcome(t, c.Prepend(k("x")), ErrNotStored)
		must(t, c.Add(&Item{Key: "k", Value: []byte("b"), Flags: 7}))
		wantOutcome(t, c.Add(k("x")), ErrNotStored)
		must(t, c.Append(k("c")))
		must(t, c.Prepend(k("a")))
		equal(t, "Flags", wantValue(t, c, "k", "abc").Flags, 7)
		must(t, c.Replace(k("d")))
		wantValue(t, c, "k", "d")
	})
}

func TestCompareAndSwap(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		wantOutcome(t, c.CompareAndSwap(&Item{Key: "k", CasID: 1}), ErrCacheMiss)
		wantOutcome(t, c.CompareAndSwap(&Item{Key: "k", CasID: 0}), ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Value: []byte("1")}))
		item := wantValue(t, c, "k", "1")
		item.Value = []byte("2")
		must(t, c.CompareAndSwap(item))
		wantOutcome(t, c.CompareAndSwap(item), ErrCASConflict)
		wantOutcome(t, c.CompareAndSwap(&Item{Key: "k", CasID: 0}), ErrCASConflict)
		wantValue(t, c, "k", "2")
	})
}

func TestIncrementDecrement(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		_, err := c.Increment("n", 1)
		wantOutcome(t, err, ErrCacheMiss)
		_, err = c.Decrement("n", 1)
		wantOutcome(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "n", Value: []byte("10")}))
		for _, step := range []struct {
			by   func(string, uint64) (uint64, error)
			n    uint64
			want uint64
		}{
			{c.Increment, 0, 10},
			{c.Decrement, 1, 9},
			{c.Decrement, 10, 0},
			{c.Increment, math.MaxUint64, math.MaxUint64},
			{c.Increment, 2, 1},
		} {
			got, err := step.by("n", step.n)
			must(t, err)
			equal(t, "number", got, step.want)
		}
		must(t, c.Set(&Item{Key: "n", Value: []byte("word")}))
		_, err = c.Increment("n", 1)
		wantError(t, err, ErrClientError)
		wantErrorAs[*ReplyError](t, err)
		// Users of gomemcache search for this text.
		if !strings.Contains(err.Error(), "client error") {
			t.Errorf("error %q, want the text %q", err, "client error")
		}
		wantValue(t, c, "n", "word")
	})
}

func TestExpirations(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		wantOutcome(t, c.Touch("k", 60), ErrCacheMiss)
		_, err := c.GetAndTouch("k", 60)
		wantOutcome(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Value: []byte("v"), Flags: 3, Expiration: 60}))
		must(t, c.Touch("k", 0))
		item, err := c.GetAndTouch("k", -1)
		must(t, err)
		equal(t, "Value", string(item.Value), "v")
		equal(t, "Flags", item.Flags, 3)
		equal(t, "CasID is 0", item.CasID == 0, false)
		_, err = c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
		must(t, c.Set(&Item{Key: "k", Expiration: -1}))
		_, err = c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
	})
}

func TestGetMulti(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		keys := testKeys(5000)
		for i, key := range keys {
			if i%2 == 0 {
				must(t, c.Set(&Item{Key: key, Value: bytes.Repeat([]byte(key), 50), Flags: uint32(i)}))
			}
		}
		items, err := c.GetMulti(append(keys, "key:0"))
		must(t, err)
		equal(t, "items", len(items), len(keys)/2)
		for i, key := range keys {
			item := items[key]
			if i%2 != 0 {
				equal(t, "item of an absent key", item, nil)
				continue
			}
			if item == nil {
				t.Fatalf("GetMulti: no item for %q, want one", key)
			}
			equal(t, "Key", item.Key, key)
			equal(t, "Flags", item.Flags, uint32(i))
			equal(t, "CasID is 0", item.CasID == 0, false)
			if !bytes.HasPrefix(item.Value, []byte(key+"key")) {
				t.Errorf("value of %q = %.20q, want repetitions of the key", key, item.Value)
			}
		}
		none, err := c.GetMulti(nil)
		must(t, err)
		equal(t, "GetMulti(nil) is nil", none == nil, false)
		equal(t, "items of GetMulti(nil)", len(none), 0)
	})
}

func TestFlushAndPing(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		must(t, c.Ping())
		must(t, c.Set(&Item{Key: "k"}))
		must(t, c.DeleteAll())
		_, err := c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
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
			wantOutcome(t, c.Set(&Item{Key: key}), ErrMalformedKey)
			_, err := c.GetMulti([]string{"k", key})
			wantError(t, err, ErrMalformedKey)
		}
		binary := "a b\x00\r\n"
		// The validity of a key must not depend on the protocol of the server.
		if c.options.Protocol == ProtocolText || c.options.Protocol == ProtocolAuto {
			wantOutcome(t, c.Set(&Item{Key: binary}), ErrMalformedKey)
			return
		}
		must(t, c.Set(&Item{Key: binary, Value: []byte("binary")}))
		wantValue(t, c, binary, "binary")
		items, err := c.GetMulti([]string{long, binary, "ключ"})
		must(t, err)
		equal(t, "items", len(items), 3)
		equal(t, "value of the binary key", string(items[binary].Value), "binary")
	})
}

func TestLargeValues(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		value := bytes.Repeat([]byte("0123456789abcde\n"), 60_000)
		must(t, c.Set(&Item{Key: "k", Value: value}))
		item, err := c.Get("k")
		must(t, err)
		equal(t, "Get returns the stored value", bytes.Equal(item.Value, value), true)
		// memcached's limit is 1 MiB.
		wantError(t, c.Set(&Item{Key: "k", Value: bytes.Repeat(value, 2)}), ErrServerError)
		// The connection remains usable.
		must(t, c.Set(&Item{Key: "k", Value: []byte("small")}))
		wantValue(t, c, "k", "small")
	})
}

func TestConcurrentUse(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		var all sync.WaitGroup
		for g := range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := range 100 {
					key := fmt.Sprintf("%d:%d", g, i)
					if err := c.Set(&Item{Key: key, Value: []byte(key)}); err != nil {
						t.Errorf("Set(%q): %v", key, err)
						return
					}
					item, err := c.Get(key)
					if err != nil || string(item.Value) != key {
						t.Errorf("Get(%q) = %+v, %v, want the key as value", key, item, err)
						return
					}
				}
			}()
		}
		all.Wait()
	})
}

func TestAllocations(t *testing.T) {
	c := newClient(t, Options{Servers: []string{startServer(t, "memcached")}})
	item := &Item{Key: "k", Value: []byte("value")}
	must(t, c.Set(item))
	tests := []struct {
		name string
		do   func()
		most float64
	}{
		// The item and its value.
		{"hit", func() { c.Get("k") }, 2},
		{"miss", func() { c.Get("missing") }, 0},
		{"set", func() { c.Set(item) }, 0},
	}
	for _, test := range tests {
		if allocations := testing.AllocsPerRun(200, test.do); allocations > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, allocations, test.most)
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
			_, err := newClient(t, wrong).Get("k")
			wantError(t, err, ErrLogin)
			anonymous := Options{Servers: []string{socket}, Protocol: c.protocol}
			if _, err := newClient(t, anonymous).Get("k"); err == nil || err == ErrCacheMiss {
				t.Errorf("Get without a login: error %v, want a rejection", err)
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
	_, err := distrusting.Get("k")
	wantErrorAs[*FaultError](t, err)
}

func TestProtocolAutoFallsBackToText(t *testing.T) {
	c := newClient(t, Options{Servers: []string{fakeServer(t, serveTextOnly)}})
	wantValue(t, c, "k", "v")
	item, err := c.GetAndTouch("k", 1)
	must(t, err)
	equal(t, "Value", string(item.Value), "v")
	_, err = c.Get("two words")
	wantOutcome(t, err, ErrMalformedKey)
}

func TestProtocolAutoFallsBackToTextAfterHangUp(t *testing.T) {
	connections := newDialCounter()
	c := newClient(t, Options{DialContext: connections.dial, Servers: []string{fakeServer(t, serveAndHangUp)}})
	for range 3 {
		wantValue(t, c, "k", "v")
		must(t, c.Close())
	}
	// The server closed the first one; the client remembers that it supports text only.
	equal(t, "connections opened", addTo(connections.dialed, 0), 4)
}

func TestGetReturnsStaleItems(t *testing.T) {
	server := fakeServer(t, replyWith("VA 1 c7 f5 O0 W X Z\r\nv\r\n"))
	c := newClient(t, Options{Protocol: ProtocolMeta, Servers: []string{server}})
	item := wantValue(t, c, "k", "v")
	equal(t, "Flags", item.Flags, 5)
	equal(t, "CasID", item.CasID, 7)
}

func TestValuesDoNotShareMemory(t *testing.T) {
	client := newClient(t, Options{Servers: []string{startServer(t, "memcached")}})
	must(t, client.Set(&Item{Key: "a", Value: []byte("aaaa")}))
	must(t, client.Set(&Item{Key: "b", Value: []byte("bbbb")}))
	a := wantValue(t, client, "a", "aaaa")
	wantValue(t, client, "b", "bbbb")
	equal(t, "first value after the second Get", string(a.Value), "aaaa")
}
