package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/wire"
)

// requests are all kinds of requests to one server.
var requests = map[string]func(ctx context.Context, c *Client) error{
	"Get":      func(ctx context.Context, c *Client) error { _, err := c.GetContext(ctx, "k"); return err },
	"GetMulti": func(ctx context.Context, c *Client) error { _, err := c.GetMultiContext(ctx, testKeys(9)); return err },
	"Set":      func(ctx context.Context, c *Client) error { return c.SetContext(ctx, &Item{Key: "k"}) },
	"Delete":   func(ctx context.Context, c *Client) error { return c.DeleteContext(ctx, "k") },
	"Touch":    func(ctx context.Context, c *Client) error { return c.TouchContext(ctx, "k", 9) },
	"Incr":     func(ctx context.Context, c *Client) error { _, err := c.Incr(ctx, "k", 1, 1, 0); return err },
	"Details":  func(ctx context.Context, c *Client) error { _, _, err := c.GetDetails(ctx, "k"); return err },
	"Update":   func(ctx context.Context, c *Client) error { return c.Update(ctx, "k", addOne) },
	"Stats":    func(ctx context.Context, c *Client) error { _, err := c.Stats(ctx, ""); return err },
	"FlushAll": func(ctx context.Context, c *Client) error { return c.FlushAllContext(ctx) },
	"Ping":     func(ctx context.Context, c *Client) error { return c.PingContext(ctx) },
	"Auth":     func(ctx context.Context, c *Client) error { return c.AuthPlain(ctx, "a", "b") },
}

var protocols = []Protocol{ProtocolAuto, ProtocolMeta, ProtocolText, ProtocolBinary}

// eachRequest calls f with each kind of request in each protocol.
func eachRequest(f func(name string, protocol Protocol, request func(context.Context, *Client) error)) {
	for _, protocol := range protocols {
		for name, request := range requests {
			f(fmt.Sprint(name, " in protocol ", protocol), protocol, request)
		}
	}
}

func TestSilentServerObeysContexts(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	server := fakeServer(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	eachRequest(func(name string, protocol Protocol, request func(context.Context, *Client) error) {
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			options := Options{Protocol: protocol, Timeout: 30 * time.Second, BackoffMin: -1}
			c, connections := newCountedClient(t, options, server)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			if end == context.Canceled {
				cancel()
				ctx, cancel = context.WithCancel(context.Background())
				time.AfterFunc(5*time.Millisecond, cancel)
			}
			begin := time.Now()
			check.ErrorIs(t, name, request(ctx, c), end)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("%s took %v after the end of its context, want at most 5 s", name, took)
			}
			cancel()
			wantOpen(t, connections, 0)
		}
	})
}

// garbage returns a response that no request expects, the same for each seed.
func garbage(seed int64) []byte {
	random := rand.New(rand.NewSource(seed))
	words := []string{
		"VA ", "HD", "VALUE k ", "STAT ", "END", "EN", "\r\n", "\x81\x00\x00\x00", "-1", "99999999999999999999", " ", "2147483645",
		"O1", "c", "\x00", "\xff\xff\xff\xff", "SERVER_ERROR ", "MN\r\n", "STORED\r\n", "T", "\n", "NOT_FOUND\r\n",
	}
	var b []byte
	for range random.Intn(20) {
		b = append(b, words[random.Intn(len(words))]...)
	}
	return b
}

// requestWithin runs a request with a deadline, and fails the test if it takes much longer.
func requestWithin(t *testing.T, name string, c *Client, request func(context.Context, *Client) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := request(ctx, c)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("%s took %v, want at most 5 s", name, took)
	}
	return err
}

// A server that answers anything causes errors, but neither a panic nor a leak.
func TestGarbage(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	var seed atomic.Int64
	server := fakeServer(t, func(conn net.Conn) {
		buf := make([]byte, 1<<10)
		for range 4 {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			conn.Write(garbage(seed.Add(1)))
		}
	})
	for range 10 {
		eachRequest(func(name string, protocol Protocol, request func(context.Context, *Client) error) {
			options := Options{Protocol: protocol, BackoffMin: -1, MaxValueBytes: 1 << 20}
			c, connections := newCountedClient(t, options, server)
			requestWithin(t, name, c, request)
			c.Close()
			wantOpen(t, connections, 0)
		})
	}
}

// TestHalfAnswers closes the connection after each byte of a response.
func TestHalfAnswers(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	get := wire.BinaryResponse{Opcode: wire.OpGet, Opaque: 1, Extras: make([]byte, 4), Value: []byte("vvv")}
	count := wire.BinaryResponse{Opcode: wire.OpIncrement, Opaque: 1, Value: make([]byte, 8)}
	stat := wire.BinaryResponse{Opcode: wire.OpStat, Opaque: 1, Key: []byte("pid"), Value: []byte("1")}
	for _, test := range []struct {
		protocol  Protocol
		name      string
		responses string
	}{
		{ProtocolMeta, "Get", "VA 3 c1 f0\r\nvvv\r\n"},
		{ProtocolMeta, "GetMulti", "VA 3 c1 f0 O0\r\nvvv\r\nMN\r\n"},
		{ProtocolMeta, "Set", "HD\r\n"},
		{ProtocolMeta, "Stats", "STAT pid 1\r\nSTAT a b\r\nEND\r\n"},
		{ProtocolText, "Get", "VALUE k 0 3 1\r\nvvv\r\nEND\r\n"},
		{ProtocolText, "Incr", "17\r\n"},
		{ProtocolBinary, "Get", string(get.AppendTo(nil))},
		{ProtocolBinary, "Incr", string(count.AppendTo(nil))},
		{ProtocolBinary, "Stats", string(stat.AppendTo(nil))},
	} {
		for cut := range len(test.responses) {
			server := fakeServer(t, func(conn net.Conn) {
				conn.Read(make([]byte, 1<<10))
				io.WriteString(conn, test.responses[:cut])
			})
			c, connections := newCountedClient(t, Options{Protocol: test.protocol, BackoffMin: -1}, server)
			err := requests[test.name](context.Background(), c)
			if err == nil || keepsConn(err) {
				t.Errorf("%s in protocol %v after %q: error %v, want a failure", test.name, test.protocol, test.responses[:cut], err)
			}
			wantOpen(t, connections, 0)
		}
	}
}

// TestAnnouncedLengthIsNotAllocated announces long values, sends a few bytes and then nothing.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	body := make([]byte, wire.BinaryHeaderBytes)
	body[0] = wire.MagicResponse
	binary.BigEndian.PutUint32(body[8:], 100<<20)
	binary.BigEndian.PutUint32(body[12:], 1)
	huge := append([]byte(nil), body...)
	binary.BigEndian.PutUint32(huge[8:], 0xffffffff)
	for _, test := range []struct {
		protocol Protocol
		response string
	}{
		{ProtocolMeta, "VA 100000000 c1 f0\r\nabc"}, {ProtocolMeta, "VA 2147483645 c1 f0\r\nabc"},
		{ProtocolMeta, "VA 18446744073709551615 c1 f0\r\nabc"}, {ProtocolText, "VALUE k 0 100000000 1\r\nabc"},
		{ProtocolText, "VALUE k 0 4294967295 1\r\nabc"}, {ProtocolBinary, string(body)}, {ProtocolBinary, string(huge)},
	} {
		server := fakeServer(t, func(conn net.Conn) {
			conn.Read(make([]byte, 1<<10))
			io.WriteString(conn, test.response)
			io.Copy(io.Discard, conn)
		})
		c, connections := newCountedClient(t, Options{Protocol: test.protocol, BackoffMin: -1}, server)
		before := allocated()
		if err := requestWithin(t, test.response, c, requests["Get"]); err == nil || err == ErrCacheMiss {
			t.Errorf("Get of %.20q: error %v, want a failure", test.response, err)
		}
		if bytes := allocated() - before; bytes > 4<<20 {
			t.Errorf("Get of %.20q allocated %d bytes, want at most 4 MiB", test.response, bytes)
		}
		wantOpen(t, connections, 0)
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// The client closes connections that fail. A closed client also closes the other connections.
func TestNoDescriptorLeaks(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	server := fakeServer(t, replyWith("VA 1 c1 f0\r\nv\r\n"))
	for range 50 {
		c := newClient(t, Options{Servers: []string{server}, Protocol: ProtocolMeta})
		wantValue(t, c, "k", "v")
		_, err := c.GetMulti([]string{strings.Repeat("k", 10), "l"})
		check.ErrorIs(t, "GetMulti", err, ErrProtocol)
		check.NoError(t, c.Close())
	}
}
