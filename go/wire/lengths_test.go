package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strconv"
	"testing"

	"larder.example/larder/internal/check"
)

// The lengths around which a sum with the length of a line exceeds 31 bits, and 32 bits.
var longLengths = []uint64{
	math.MaxInt32 - MaxLineBytes, math.MaxInt32 - 64, math.MaxInt32 - 24, math.MaxInt32 - 7,
	math.MaxInt32 - 2, math.MaxInt32 - 1, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32 - 1,
	math.MaxUint32, math.MaxInt64, math.MaxUint64,
}

// announcements are messages that announce a value of a length and have its first bytes only.
func announcements(length uint64) map[string]Parser {
	text := strconv.FormatUint(length, 10)
	messages := map[string]Parser{
		"set k 0 0 " + text + "\r\nabc":             new(TextRequest),
		"set k 0 x " + text + "\r\nabc":             new(TextRequest),
		"cas k 0 0 " + text + " 1 noreply\r\nabc":   new(TextRequest),
		"cas k 0 0 " + text + " one\r\nabc":         new(TextRequest),
		"ms k " + text + "\r\nabc":                  new(MetaRequest),
		"ms k " + text + " c c\r\nabc":              new(MetaRequest),
		"prepend " + text + " 0 0 " + text + "\r\n": new(Request),
		"VALUE k 0 " + text + "\r\nabc":             new(TextResponse),
		"VALUE k 0 " + text + " 1\r\nabc":           new(TextResponse),
		"VA " + text + " c1\r\nabc":                 new(MetaResponse),
	}
	if length <= math.MaxUint32 {
		head := func(message codec) string {
			b := message.AppendTo(nil)
			b[8], b[9], b[10], b[11] = byte(length>>24), byte(length>>16), byte(length>>8), byte(length)
			return string(b) + "abc"
		}
		messages[head(&BinaryRequest{Opcode: OpSet, Key: []byte("k"), Extras: make([]byte, 8)})] = new(BinaryRequest)
		messages[head(&BinaryResponse{Opcode: OpGet, Key: []byte("k")})] = new(BinaryResponse)
	}
	return messages
}

// An int of 32 bits cannot hold the length of each message that the protocols allow.
func TestParseOfLongLengthsReturnsTheirLengthOrAnError(t *testing.T) {
	for _, length := range longLengths {
		for b, message := range announcements(length) {
			n, err := message.Parse([]byte(b))
			var wrong *SyntaxError
			isWrong := errors.As(err, &wrong)
			switch {
			case err == nil:
				t.Errorf("Parse(%q): no error, want one: the value is missing", b)
			case errors.Is(err, ErrShort) && uint64(n) < length:
				t.Errorf("Parse(%q) = %d, ErrShort, want the length of the message", b, n)
			case isWrong && n != 0 && n != bytes.IndexByte([]byte(b), '\n')+1 && uint64(n) < length:
				t.Errorf("Parse(%q) = %d, %v, want 0 or the length of the line or message", b, n, err)
			}
			if n < 0 {
				t.Errorf("Parse(%q) = %d, %v, want no negative length", b, n, err)
			}
		}
	}
}

func TestReaderOfLongLengthsEndsOrSkipsThem(t *testing.T) {
	for _, length := range longLengths {
		for b, message := range announcements(length) {
			for _, limit := range []int{1 << 20, math.MaxInt} {
				r := NewReader(bytes.NewReader([]byte(b)), limit)
				var err error
				for range 10 {
					err = r.Read(message)
					if r.skip < 0 || r.Buffered() < 0 {
						t.Fatalf("Read of %q: %d bytes to skip, %d buffered", b, r.skip, r.Buffered())
					}
				}
				if err == nil {
					t.Errorf("Read of %q ten times: no error, want one", b)
				}
			}
		}
	}
}

func TestServerOfLongLengthsGoesOnWithOtherConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	s := Server{Handler: CommandHandler(func(*Command) Result { return Result{Kind: TextEnd} })}
	go func() { served <- s.Serve(ctx, listener) }()
	for _, length := range longLengths {
		for b := range announcements(length) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			check.NoError(t, err)
			_, err = io.WriteString(conn, b)
			check.NoError(t, err)
			check.NoError(t, conn.(*net.TCPConn).CloseWrite())
			_, _ = io.Copy(io.Discard, conn)
			check.NoError(t, conn.Close())
		}
	}
	cancel()
	check.NoError(t, <-served)
}
