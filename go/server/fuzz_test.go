package server

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"larder.example/larder/internal/engine"
)

// scripted is a connection whose client sends bytes in pieces and reads all.
type scripted struct {
	net.Conn
	in      []byte
	piece   int
	written int
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.piece)], s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *scripted) Write(b []byte) (int, error) {
	s.written += len(b)
	return len(b), nil
}

func (s *scripted) Close() error                    { return nil }
func (s *scripted) SetReadDeadline(time.Time) error { return nil }

func FuzzSession(f *testing.F) {
	for _, requests := range slices.Concat(curated, recaching, ofLarderd, ofMemcached) {
		// The fuzzer minimizes the inputs that it finds, which is slow for long inputs.
		if len(requests) < 2000 {
			f.Add([]byte(requests), uint8(0), false)
		}
	}
	f.Add(binaryCut(), uint8(3), false)
	f.Add([]byte("set x 0 0 3\r\na b\r\nget x\r\n"), uint8(7), true)
	f.Add([]byte(saslPlain("a", "b")), uint8(1), true)
	cache, err := engine.New(engine.Config{MemoryBytes: 1 << 20, CAS: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, requests []byte, piece uint8, hasLogin bool) {
		options := Options{ItemMax: 4096, SoftExpiry: float64(piece % 3)}
		if hasLogin {
			options.Auth = func(user, _ string) bool { return user == "a" }
		}
		s := newServer(cache, options)
		defer s.Close()
		client := &scripted{in: requests, piece: 1 + int(piece)}
		c := s.admit(client)
		c.run()
		if s.held.Load() != 0 || cap(c.in) > freeBytes || cap(c.out) > outMax+freeBytes {
			t.Fatalf("%d bytes held, buffers of %d and %d bytes", s.held.Load(), cap(c.in), cap(c.out))
		}
		if c.end-c.start > len(requests) || client.written > 20000*(1+len(requests)) {
			t.Fatalf("%d bytes of responses to %d bytes", client.written, len(requests))
		}
	})
}
