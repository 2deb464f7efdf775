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

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func TestSetGetDelete(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		_, err := c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v\r\n\x00"), Flags: math.MaxUint32}))
		item := wantValue(t, c, "k", "v\r\n\x00")
		check.Equal(t, "Flags", item.Flags, math.MaxUint32)
		check.Equal(t, "CasID is 0", item.CasID == 0, false)
		check.NoError(t, c.Set(&Item{Key: "k"}))
		wantValue(t, c, "k", "")
		check.NoError(t, c.Delete("k"))
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
		check.NoError(t, c.Add(&Item{Key: "k", Value: []byte("b"), Flags: 7}))
		wantOutcome(t, c.Add(k("x")), ErrNotStored)
		check.NoError(t, c.Append(k("c")))
		check.NoError(t, c.Prepend(k("a")))
		check.Equal(t, "Flags", wantValue(t, c, "k", "abc").Flags, 7)
		check.NoError(t, c.Replace(k("d")))
		wantValue(t, c, "k", "d")
	})
}

func TestCompareAndSwap(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		wantOutcome(t, c.CompareAndSwap(&Item{Key: "k", CasID: 1}), ErrCacheMiss)
		wantOutcome(t, c.CompareAndSwap(&Item{Key: "k", CasID: 0}), ErrCacheMiss)
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("1")}))
		item := wantValue(t, c, "k", "1")
		item.Value = []byte("2")
		check.NoError(t, c.CompareAndSwap(item))
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
		check.NoError(t, c.Set(&Item{Key: "n", Value: []byte("10")}))
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
			check.NoError(t, err)
			check.Equal(t, "number", got, step.want)
		}
		check.NoError(t, c.Set(&Item{Key: "n", Value: []byte("word")}))
		_, err = c.Increment("n", 1)
		check.ErrorIs(t, "Increment", err, ErrClientError)
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
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v"), Flags: 3, Expiration: 60}))
		check.NoError(t, c.Touch("k", 0))
		item, err := c.GetAndTouch("k", -1)
		check.NoError(t, err)
		check.Equal(t, "Value", string(item.Value), "v")
		check.Equal(t, "Flags", item.Flags, 3)
		check.Equal(t, "CasID is 0", item.CasID == 0, false)
		_, err = c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
		check.NoError(t, c.Set(&Item{Key: "k", Expiration: -1}))
		_, err = c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
	})
}

func TestGetMulti(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		keys := testKeys(5000)
		for i, key := range keys {
			if i%2 == 0 {
				check.NoError(t, c.Set(&Item{Key: key, Value: bytes.Repeat([]byte(key), 50), Flags: uint32(i)}))
			}
		}
		items, err := c.GetMulti(append(keys, "key:0"))
		check.NoError(t, err)
		check.Equal(t, "items", len(items), len(keys)/2)
		for i, key := range keys {
			item := items[key]
			if i%2 != 0 {
				check.Equal(t, "item of an absent key", item, nil)
				continue
			}
			if item == nil {
				t.Fatalf("GetMulti: no item for %q, want one", key)
			}
			check.Equal(t, "Key", item.Key, key)
			check.Equal(t, "Flags", item.Flags, uint32(i))
			check.Equal(t, "CasID is 0", item.CasID == 0, false)
			if !bytes.HasPrefix(item.Value, []byte(key+"key")) {
				t.Errorf("value of %q = %.20q, want repetitions of the key", key, item.Value)
			}
		}
		none, err := c.GetMulti(nil)
		check.NoError(t, err)
		check.Equal(t, "GetMulti(nil) is nil", none == nil, false)
		check.Equal(t, "items of GetMulti(nil)", len(none), 0)
	})
}

func TestFlushAndPing(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		check.NoError(t, c.Ping())
		check.NoError(t, c.Set(&Item{Key: "k"}))
		check.NoError(t, c.DeleteAll())
		_, err := c.Get("k")
		wantOutcome(t, err, ErrCacheMiss)
	})
}

func TestKeys(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		long := strings.Repeat("k", 250)
		check.NoError(t, c.Set(&Item{Key: long, Value: []byte("long")}))
		wantValue(t, c, long, "long")
		check.NoError(t, c.Set(&Item{Key: "ключ", Value: []byte("utf-8")}))
		wantValue(t, c, "ключ", "utf-8")
		for _, key := range []string{"", long + "k", "a b" + strings.Repeat("k", 248)} {
			wantOutcome(t, c.Set(&Item{Key: key}), ErrMalformedKey)
			_, err := c.GetMulti([]string{"k", key})
			check.ErrorIs(t, "GetMulti", err, ErrMalformedKey)
		}
		binary := "a b\x00\r\n"
		// The validity of a key must not depend on the protocol of the server.
		if c.options.Protocol == ProtocolText || c.options.Protocol == ProtocolAuto {
			wantOutcome(t, c.Set(&Item{Key: binary}), ErrMalformedKey)
			return
		}
		check.NoError(t, c.Set(&Item{Key: binary, Value: []byte("binary")}))
		wantValue(t, c, binary, "binary")
		items, err := c.GetMulti([]string{long, binary, "ключ"})
		check.NoError(t, err)
		check.Equal(t, "items", len(items), 3)
		check.Equal(t, "value of the binary key", string(items[binary].Value), "binary")
	})
}

func TestLargeValues(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		value := bytes.Repeat([]byte("0123456789abcde\n"), 60_000)
		check.NoError(t, c.Set(&Item{Key: "k", Value: value}))
		item, err := c.Get("k")
		check.NoError(t, err)
		check.Equal(t, "Get returns the stored value", bytes.Equal(item.Value, value), true)
		// memcached's limit is 1 MiB.
		check.ErrorIs(t, "Set", c.Set(&Item{Key: "k", Value: bytes.Repeat(value, 2)}), ErrServerError)
		// The connection remains usable.
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("small")}))
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
	c := newClient(t, Options{Servers: []string{testserver.Start(t, "memcached")}})
	item := &Item{Key: "k", Value: []byte("value")}
	check.NoError(t, c.Set(item))
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
	check.NoError(t, os.WriteFile(users, []byte("app:secret\n"), 0o600))
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
			socket := testserver.Start(t, c.server, c.args...)
			right := Options{Servers: []string{socket}, Protocol: c.protocol, Username: "app", Password: "secret"}
			client := newClient(t, right)
			check.NoError(t, client.Set(&Item{Key: "k", Value: []byte("v")}))
			wantValue(t, client, "k", "v")
			wrong := right
			wrong.Password = "guess"
			_, err := newClient(t, wrong).Get("k")
			check.ErrorIs(t, "Get", err, ErrLogin)
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
	testserver.Run(t, "larderd", "-l", "127.0.0.1", "-p", port, "-Z", "-o", "ssl_chain_cert="+cert+",ssl_key="+key)
	testserver.Await(t, "tcp", address)
	c := newClient(t, Options{Servers: []string{address}, TLS: config})
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
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
	check.NoError(t, err)
	check.Equal(t, "Value", string(item.Value), "v")
	_, err = c.Get("two words")
	wantOutcome(t, err, ErrMalformedKey)
}

func TestProtocolAutoFallsBackToTextAfterHangUp(t *testing.T) {
	connections := newDialCounter()
	c := newClient(t, Options{DialContext: connections.dial, Servers: []string{fakeServer(t, serveAndHangUp)}})
	for range 3 {
		wantValue(t, c, "k", "v")
		check.NoError(t, c.Close())
	}
	// The server closed the first one; the client remembers that it supports text only.
	check.Equal(t, "connections opened", addTo(connections.dialed, 0), 4)
}

func TestGetReturnsStaleItems(t *testing.T) {
	server := fakeServer(t, replyWith("VA 1 c7 f5 O0 W X Z\r\nv\r\n"))
	c := newClient(t, Options{Protocol: ProtocolMeta, Servers: []string{server}})
	item := wantValue(t, c, "k", "v")
	check.Equal(t, "Flags", item.Flags, 5)
	check.Equal(t, "CasID", item.CasID, 7)
}

func TestValuesDoNotShareMemory(t *testing.T) {
	client := newClient(t, Options{Servers: []string{testserver.Start(t, "memcached")}})
	check.NoError(t, client.Set(&Item{Key: "a", Value: []byte("aaaa")}))
	check.NoError(t, client.Set(&Item{Key: "b", Value: []byte("bbbb")}))
	a := wantValue(t, client, "a", "aaaa")
	wantValue(t, client, "b", "bbbb")
	check.Equal(t, "first value after the second Get", string(a.Value), "aaaa")
}
