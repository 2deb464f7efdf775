package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"testing"

	"larder.example/larder/internal/check"
	"larder.example/larder/wire"
)

// serveAnnouncement answers each get by the start of a value of length bytes, and hangs up.
func serveAnnouncement(protocol Protocol, length uint32) func(net.Conn) {
	return func(conn net.Conn) {
		requests := bufio.NewReader(conn)
		if protocol == ProtocolBinary {
			head := make([]byte, wire.BinaryHeaderBytes)
			if _, err := io.ReadFull(requests, head); err != nil {
				return
			}
			response := wire.BinaryResponse{Opcode: wire.Opcode(head[1]), Extras: make([]byte, 4), Opaque: 1}
			b := response.AppendTo(nil)
			b[8], b[9], b[10], b[11] = byte(length>>24), byte(length>>16), byte(length>>8), byte(length)
			_, _ = conn.Write(append(b, "abc"...))
			return
		}
		if _, err := requests.ReadString('\n'); err != nil {
			return
		}
		if protocol == ProtocolMeta {
			fmt.Fprintf(conn, "VA %d c1 f0\r\nabc", length)
			return
		}
		fmt.Fprintf(conn, "VALUE k 0 %d 1\r\nabc", length)
	}
}

func TestMaxValueBytesAppliesToAnnouncedLengths(t *testing.T) {
	const length = DefaultMaxValueBytes + 2*headerBytesMax
	for _, protocol := range []Protocol{ProtocolMeta, ProtocolText, ProtocolBinary} {
		for _, max := range []int{0, length - 2*headerBytesMax, length, math.MaxInt} {
			server := fakeServer(t, serveAnnouncement(protocol, length))
			c, _ := newCountedClient(t, Options{Protocol: protocol, MaxValueBytes: max}, server)
			_, err := c.Get("k")
			var large *wire.TooLargeError
			isRefused := errors.As(err, &large)
			if wanted := max < length; isRefused != wanted || err == nil {
				t.Errorf("%v, MaxValueBytes %d: Get of %d bytes: error %v, want a TooLargeError: %t",
					protocol, max, length, err, wanted)
			}
		}
	}
}

// An int of 32 bits cannot hold the sum of the longest value and its line.
func TestLongestAnnouncedLengthsAreErrors(t *testing.T) {
	for _, protocol := range []Protocol{ProtocolMeta, ProtocolText, ProtocolBinary} {
		for _, length := range []uint32{math.MaxInt32 - 64, math.MaxInt32 - 8, math.MaxInt32 - 2, math.MaxInt32, math.MaxUint32} {
			for _, max := range []int{0, math.MaxInt} {
				server := fakeServer(t, serveAnnouncement(protocol, length))
				c, _ := newCountedClient(t, Options{Protocol: protocol, MaxValueBytes: max}, server)
				if _, err := c.GetContext(context.Background(), "k"); err == nil || errors.Is(err, ErrCacheMiss) {
					t.Errorf("%v, MaxValueBytes %d: Get of %d bytes: error %v, want another one", protocol, max, length, err)
				}
				check.NoError(t, c.Close())
			}
		}
	}
}
