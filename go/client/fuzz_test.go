package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"larder.example/larder/wire"
)

// script is a connection that discards requests and has fixed responses.
type script struct{ io.Reader }

func (script) Write(b []byte) (int, error)      { return len(b), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return serverAddr{"tcp", "here:1"} }
func (script) RemoteAddr() net.Addr             { return serverAddr{"tcp", "there:1"} }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

const verbs = uint8(verbStats) + 1

// creates reports whether a fuzzed operation counts from an initial value.
func creates(v uint8) bool {
	kind := verb(v % verbs)
	return v/verbs%2 == 1 && (kind == verbIncrement || kind == verbDecrement)
}

// FuzzResponses sends arbitrary responses to all requests. The outcome must not depend on how the
// response is split, and a value must not be longer than the response.
func FuzzResponses(f *testing.F) {
	for v := verbGet; v <= verbStats; v++ {
		f.Add(uint8(v), uint8(0), []byte("VA 2 f5 c7 O1\r\n42\r\nMN\r\n"))
		f.Add(uint8(v), uint8(0), []byte("HD\r\n"))
		f.Add(uint8(v), uint8(1), []byte("VALUE k 5 2 7\r\n42\r\nEND\r\n"))
		f.Add(uint8(v), uint8(1), []byte("STORED\r\n"))
		f.Add(uint8(v), uint8(1), []byte("NOT_FOUND\r\nNOT_STORED\r\n7\r\n"))
		f.Add(uint8(v)+verbs, uint8(1), []byte("NOT_FOUND\r\nNOT_STORED\r\n7\r\n"))
		f.Add(uint8(v), uint8(1), []byte("STAT pid 1\r\nSTAT a b c\r\nEND\r\n"))
		response := wire.BinaryResponse{Opcode: opcodeOf(v), Opaque: 1, Extras: make([]byte, 4), Value: make([]byte, 8)}
		f.Add(uint8(v), uint8(2), response.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, v, protocol uint8, response []byte) {
		dialect := []wire.Dialect{wire.Meta, wire.Text, wire.Binary}[protocol%3]
		outcomeOf := func(source io.Reader) string {
			cn := newConn(script{source}, serverAddr{"tcp", "there:1"}, 1<<20)
			cn.dialect, cn.anyKeys = dialect, true
			o := operation{verb: verb(v) % verb(verbs), key: "k", creates: creates(v)}
			outcome := cn.do(&o)
			var items []*Item
			many := cn.getMany([]string{"k", "l"}, func() *Item {
				items = append(items, new(Item))
				return items[len(items)-1]
			})
			for _, item := range append(items, o.item) {
				if item != nil && len(item.Value) > len(response) {
					t.Fatalf("value %q is longer than the response %q", item.Value, response)
				}
			}
			for _, err := range []error{outcome, many} {
				var reply *ReplyError
				if errors.As(err, &reply) && len(reply.Line) > len(response) && dialect != wire.Binary {
					t.Fatalf("line %q is longer than the response %q", reply.Line, response)
				}
			}
			return fmt.Sprint(outcome, o.item, o.number, many, len(items))
		}
		whole := outcomeOf(bytes.NewReader(response))
		if split := outcomeOf(iotest.OneByteReader(bytes.NewReader(response))); split != whole {
			t.Fatalf("%q byte by byte: %s, want %s as in one piece", response, split, whole)
		}
	})
}
