package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/grammar"
)

// mirror responds to each command with the command that it has received.
func mirror(c *Command) Result {
	if c.Verb == TextOther {
		return Result{}
	}
	text := fmt.Sprintf("%v %s %s F%d T%d C%d D%d I%d %v", c.Verb, c.Key, c.Value, c.Flags, c.Exptime, c.CAS, c.Delta, c.Initial, c.Creates)
	return Result{Kind: TextServerError, Text: text}
}

func TestCommandsOfAllProtocols(t *testing.T) {
	store := AppendStoreExtras(nil, 5, 60)
	for _, test := range []struct {
		request codec
		want    string
	}{
		{&TextRequest{Verb: TextSet, Keys: Words("k"), Flags: 5, Exptime: 60, Value: []byte("v")}, "set k v F5 T60 C0 D0 I0 false"},
		{&MetaRequest{Verb: MetaSet, Key: []byte("k"), Flags: flags("F5 T60 O1 q"), Value: []byte("v")}, "set k v F5 T60 C0 D1 I0 false"},
		{&MetaRequest{Verb: MetaSet, Key: []byte("azI="), Flags: flags("b ME"), Value: []byte("v")}, "add k2 v F0 T0 C0 D1 I0 false"},
		{&MetaRequest{Verb: MetaSet, Key: []byte("k"), Flags: flags("C7"), Value: []byte("v")}, "cas k v F0 T0 C7 D1 I0 false"},
		{&MetaRequest{Verb: MetaGet, Key: []byte("k"), Flags: flags("v T-1")}, "gat k  F0 T-1 C0 D1 I0 false"},
		{&MetaRequest{Verb: MetaArithmetic, Key: []byte("k"), Flags: flags("MD D2 N60 J9")}, "decr k  F0 T60 C0 D2 I9 true"},
		{&BinaryRequest{Opcode: OpSetQ, Key: []byte("k"), Extras: store, Value: []byte("v")}, "set k v F5 T60 C0 D0 I0 false"},
		{&BinaryRequest{Opcode: OpReplace, Key: []byte("k"), Extras: store, CAS: 7}, "cas k  F5 T60 C7 D0 I0 false"},
		{&BinaryRequest{Opcode: OpIncrement, Key: []byte("k"), Extras: AppendCountExtras(nil, 2, 9, 60)}, "incr k  F0 T60 C0 D2 I9 true"},
		{&BinaryRequest{Opcode: OpDecrement, Key: []byte("k"), Extras: AppendCountExtras(nil, 2, 9, ExptimeNoCreate)}, "decr k  F0 T-1 C0 D2 I9 false"},
		{&BinaryRequest{Opcode: OpTouch, Key: []byte("k"), Extras: AppendUint32Extras(nil, 9)}, "touch k  F0 T9 C0 D0 I0 false"},
	} {
		var r Request
		_, err := r.Parse(test.request.AppendTo(nil))
		check.NoError(t, err)
		var got string
		handler := CommandHandler(func(c *Command) Result {
			result := mirror(c)
			got = result.Text
			return result
		})
		handler.Answer(NewWriter(io.Discard), &r)
		check.Equal(t, fmt.Sprintf("command of %v", test.request), got, test.want)
	}
}

func TestCommandHandlerRejectsInvalidRequests(t *testing.T) {
	for request, want := range map[string]string{
		"mg k v N5\r\n":      grammar.BadFlag,
		"mg k v t\r\n":       grammar.BadFlag,
		"ms k 1 Fx\r\n1\r\n": grammar.BadFormat,
		"mg a b\r\n":         grammar.BadKeyCode,
		"me k\r\n":           "ERROR\r\n",
		"verbosity 1\r\n":    "SERVER_ERROR verbosity   F0 T0 C0 D0 I0 false\r\n",
		"bogus\r\n":          "ERROR\r\n",
		string((&BinaryRequest{Opcode: OpSet, Key: []byte("k")}).AppendTo(nil)): string((&BinaryResponse{
			Opcode: OpSet, Status: StatusInvalid, Value: []byte("Invalid arguments")}).AppendTo(nil)),
		string((&BinaryRequest{Opcode: OpGet}).AppendTo(nil)): string((&BinaryResponse{
			Opcode: OpGet, Status: StatusInvalid, Value: []byte("Invalid arguments")}).AppendTo(nil)),
	} {
		var sent bytes.Buffer
		(&Server{Handler: CommandHandler(mirror)}).ServeConn(&scriptConn{Reader: strings.NewReader(request), Writer: &sent})
		check.Equal(t, fmt.Sprintf("response to %q", request), sent.String(), want)
	}
}

// scriptConn is a connection with fixed requests.
type scriptConn struct {
	io.Reader
	io.Writer
	net.Conn
}

func (c *scriptConn) Read(b []byte) (int, error)       { return c.Reader.Read(b) }
func (c *scriptConn) Write(b []byte) (int, error)      { return c.Writer.Write(b) }
func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// memory is a cache for tests.
func memory() CommandHandler {
	items := make(map[string]Result)
	return func(c *Command) Result {
		switch {
		case c.Verb == TextGet:
			if v, found := items[string(c.Key)]; found {
				return v
			}
			return Result{Kind: TextEnd}
		case c.Verb.Stores():
			items[string(c.Key)] = Result{Kind: TextValue, Value: bytes.Clone(c.Value), Flags: c.Flags}
			return Result{Kind: TextStored}
		case c.Verb == TextStats:
			return Result{Kind: TextEnd, Stats: []string{"items", fmt.Sprint(len(items))}}
		}
		return Result{}
	}
}

// FuzzServer sends arbitrary requests to a server. The responses must not depend on how the
// requests are split.
func FuzzServer(f *testing.F) {
	seed(f)
	f.Add([]byte("ms k 1\r\nv\r\nmg k v k b O1 s f c\r\nget k\r\nstats\r\n"), uint(3))
	f.Add((&BinaryRequest{Opcode: OpSetQ, Key: []byte("k"), Extras: make([]byte, 8)}).AppendTo(sampleBytes), uint(1))
	f.Fuzz(func(t *testing.T, requests []byte, cut uint) {
		respond := func(source io.Reader) string {
			var sent bytes.Buffer
			server := Server{Handler: memory(), MaxMessageBytes: 1 << 16}
			server.ServeConn(&scriptConn{Reader: source, Writer: &sent})
			return sent.String()
		}
		whole := respond(bytes.NewReader(requests))
		if split := respond(cutReader(requests, cut)); split != whole {
			t.Fatalf("responses to %q in pieces: %q, want %q as in one piece", requests, split, whole)
		}
	})
}

// Connections that announce long values and send nothing cost little.
func TestServerDoesNotAllocateAnnouncedLengths(t *testing.T) {
	check.GoroutineLeaks(t)
	check.DescriptorLeaks(t)
	const connections = 200
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- (&Server{Handler: memory()}).Serve(ctx, listener) }()
	before := allocated()
	for range connections {
		conn, err := Dial(ctx, "tcp", listener.Addr().String())
		check.NoError(t, err)
		defer conn.Close()
		check.NoError(t, conn.Send(&TextRequest{Verb: TextVersion}))
		check.NoError(t, conn.Receive(new(TextResponse)))
		_, err = io.WriteString(conn, "set k 0 0 1048576\r\n")
		check.NoError(t, err)
	}
	time.Sleep(50 * time.Millisecond)
	// The buffers of both sides.
	const most = 16 << 10
	if bytes := allocated() - before; bytes > connections*most {
		t.Errorf("%d bytes for %d connections, want at most %d per connection", bytes, connections, most)
	}
	cancel()
	check.NoError(t, <-ended)
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}
