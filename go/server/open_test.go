package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
	"larder.example/larder/server"
)

// serve serves a cache at an address until the test ends.
func serve(t *testing.T, cache *larder.Cache, wrap func(net.Listener) net.Listener) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	s := server.New(cache, server.Options{})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(wrap(listener)) }()
	t.Cleanup(func() {
		check.NoError(t, s.Shutdown(context.Background()))
		check.ErrorIs(t, "Serve", <-ended, server.ErrServerClosed)
	})
	return listener.Addr()
}

func plain(listener net.Listener) net.Listener { return listener }

func open(t *testing.T) *larder.Cache {
	t.Helper()
	cache, err := larder.Open(larder.Options{Memory: 8 << 20, CAS: true})
	check.NoError(t, err)
	return cache
}

// exchange sends requests that end in quit and returns the responses.
func exchange(t *testing.T, conn net.Conn, requests string) string {
	t.Helper()
	defer conn.Close()
	check.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := io.WriteString(conn, requests+"quit\r\n")
	check.NoError(t, err)
	responses, err := io.ReadAll(conn)
	check.NoError(t, err)
	return string(responses)
}

func TestProgramAndClientsUseOneCache(t *testing.T) {
	cache := open(t)
	defer cache.Close()
	address := serve(t, cache, plain)
	check.NoError(t, cache.Set("mine", []byte("1"), 0))
	conn, err := net.Dial("tcp", address.String())
	check.NoError(t, err)
	check.Equal(t, "responses", exchange(t, conn, "get mine\r\nset yours 0 0 1\r\n2\r\n"),
		"VALUE mine 0 1\r\n1\r\nEND\r\nSTORED\r\n")
	value, ok := cache.Get("yours")
	check.Equal(t, "Get", string(value), "2")
	check.Equal(t, "found", ok, true)
}

func TestWritesOfClientsPrecedeLoads(t *testing.T) {
	cache := open(t)
	defer cache.Close()
	address := serve(t, cache, plain)
	_, err := cache.GetOrLoad(context.Background(), "k",
		func(context.Context, string) ([]byte, time.Duration, error) {
			conn, err := net.Dial("tcp", address.String())
			if err != nil {
				return nil, 0, err
			}
			exchange(t, conn, "set k 0 0 3\r\nnew\r\n")
			return []byte("old"), 0, nil
		})
	check.NoError(t, err)
	value, _ := cache.Get("k")
	check.Equal(t, "the value after the load", string(value), "new")
}

// The garbage collector closes an unreachable cache.
func TestServerKeepsTheCacheOpen(t *testing.T) {
	address := serve(t, open(t), plain)
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	conn, err := net.Dial("tcp", address.String())
	check.NoError(t, err)
	check.Equal(t, "response", exchange(t, conn, "set k 0 0 1\r\nx\r\n"), "STORED\r\n")
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	check.NoError(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
	cache := open(t)
	defer cache.Close()
	address := serve(t, cache, func(listener net.Listener) net.Listener { return tls.NewListener(listener, config) })
	// A client without TLS does not block other clients.
	broken, err := net.Dial("tcp", address.String())
	check.NoError(t, err)
	defer broken.Close()
	fmt.Fprint(broken, "get k\r\n")
	conn, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true})
	check.NoError(t, err)
	value := make([]byte, 100000)
	for at := range value {
		value[at] = 'a' + byte(at%26)
	}
	want := fmt.Sprintf("STORED\r\nVALUE k 0 %d\r\n%s\r\nEND\r\n", len(value), value)
	got := exchange(t, conn, fmt.Sprintf("set k 0 0 %d\r\n%s\r\nget k\r\n", len(value), value))
	if got != want {
		t.Errorf("%.200q", got)
	}
}
