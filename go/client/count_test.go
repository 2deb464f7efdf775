package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func TestCountFromInitialValue(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		ctx := context.Background()
		for _, step := range []struct {
			by   func(context.Context, string, uint64, uint64, int32) (uint64, error)
			key  string
			want uint64
		}{{c.Incr, "up", 100}, {c.Incr, "up", 107}, {c.Decr, "up", 100}, {c.Decr, "down", 100}, {c.Decr, "down", 93}} {
			n, err := step.by(ctx, step.key, 7, 100, 3600)
			check.NoError(t, err)
			check.Equal(t, "count of "+step.key, n, step.want)
		}
		n, err := c.Increment("up", 1)
		check.NoError(t, err)
		check.Equal(t, "Increment after Incr", n, 101)
		check.NoError(t, c.Set(&Item{Key: "word", Value: []byte("x")}))
		_, err = c.Incr(ctx, "word", 1, 1, 0)
		check.ErrorIs(t, "Incr of a word", err, ErrClientError)
	})
}

func TestCreatedNumberExpires(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		ctx := context.Background()
		_, err := c.Incr(ctx, "gone", 1, 5, -1)
		check.NoError(t, err)
		_, err = c.Get("gone")
		wantOutcome(t, err, ErrCacheMiss)
		_, err = c.Incr(ctx, "stays", 1, 5, 0)
		check.NoError(t, err)
		wantValue(t, c, "stays", "5")
	})
}

func TestTextCountGivesUp(t *testing.T) {
	var requests int
	server := fakeServer(t, func(conn net.Conn) {
		buf := make([]byte, 1000)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			requests++
			response := "NOT_FOUND\r\n"
			if bytes.HasPrefix(buf[:n], []byte("add ")) {
				response = "NOT_STORED\r\n"
			}
			conn.Write([]byte(response))
		}
	})
	c := newClient(t, Options{Servers: []string{server}, Protocol: ProtocolText})
	_, err := c.Incr(context.Background(), "k", 1, 1, 0)
	wantOutcome(t, err, ErrCacheMiss)
	check.NoError(t, c.Close())
	check.Equal(t, "requests", requests, 1+2*countTriesMax)
}

func TestUpdate(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		const goroutines, each = 4, 10
		var all sync.WaitGroup
		for range goroutines {
			all.Add(1)
			go func() {
				defer all.Done()
				for range each {
					if err := c.Update(context.Background(), "n", addOne); err != nil {
						t.Errorf("Update: %v", err)
					}
				}
			}()
		}
		all.Wait()
		item := wantValue(t, c, "n", strconv.Itoa(goroutines*each))
		check.Equal(t, "Flags", item.Flags, 3)
		stop := errors.New("stop")
		check.ErrorIs(t, "Update", c.Update(context.Background(), "n", func(*Item, bool) error { return stop }), stop)
		check.NoError(t, c.Update(context.Background(), "n", func(item *Item, found bool) error {
			check.Equal(t, "found", found, true)
			item.Expiration = -1
			return nil
		}))
		_, err := c.Get("n")
		wantOutcome(t, err, ErrCacheMiss)
	})
}

func addOne(item *Item, found bool) error {
	n, err := strconv.Atoi("0" + string(item.Value))
	item.Value, item.Flags = []byte(strconv.Itoa(n+1)), 3
	return err
}

func TestUpdateEndsWithContext(t *testing.T) {
	server := fakeServer(t, func(conn net.Conn) {
		buf := make([]byte, 1000)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			response := "EX\r\n"
			if strings.HasPrefix(string(buf[:n]), "mg ") {
				response = "VA 1 c7 f0\r\nv\r\n"
			}
			conn.Write([]byte(response))
		}
	})
	c := newClient(t, Options{Servers: []string{server}, Protocol: ProtocolMeta})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := c.Update(ctx, "k", func(*Item, bool) error { return nil })
	check.ErrorIs(t, "Update in conflict", err, context.DeadlineExceeded)
}

func TestStats(t *testing.T) {
	forEachServer(t, func(t *testing.T, c *Client) {
		ctx := context.Background()
		check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
		address := c.options.Servers[0]
		for group, name := range map[string]string{"": "curr_items", "settings": "maxbytes"} {
			all, err := c.Stats(ctx, group)
			check.NoError(t, err)
			if all[address][name] == "" {
				t.Errorf("Stats(%q) has no %s: %v", group, name, all)
			}
		}
		all, err := c.Stats(ctx, "reset")
		check.NoError(t, err)
		check.Equal(t, "statistics of reset", len(all[address]), 0)
		// The connection has no remainder of a response.
		wantValue(t, c, "k", "v")
		_, err = c.Stats(ctx, "a\r\nflush_all")
		check.Equal(t, "Stats of two lines fails", err != nil, true)
		wantValue(t, c, "k", "v")
	})
}

func TestStatsOfFailedServer(t *testing.T) {
	socket := testserver.Start(t, "larderd")
	c := newClient(t, Options{Servers: []string{freePort(t), socket}})
	all, err := c.Stats(context.Background(), "")
	wantErrorAs[*FaultError](t, err)
	check.Equal(t, "servers with statistics", len(all), 1)
	check.Equal(t, "has a pid", all[socket]["pid"] != "", true)
}

func TestEndlessStatsAreInvalid(t *testing.T) {
	line := "STAT a " + strings.Repeat("x", 60_000) + "\r\n"
	server := fakeServer(t, func(conn net.Conn) {
		conn.Read(make([]byte, 100))
		for {
			if _, err := conn.Write([]byte(line)); err != nil {
				return
			}
		}
	})
	c, connections := newCountedClient(t, Options{Protocol: ProtocolText, Timeout: 30 * time.Second}, server)
	_, err := c.Stats(context.Background(), "")
	check.ErrorIs(t, "Stats", err, ErrProtocol)
	wantOpen(t, connections, 0)
}
