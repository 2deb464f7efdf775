package wire

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// echo answers every command with its key.
var echo = HandlerFunc(func(w *Writer, r *Request) {
	switch {
	case r.Dialect == Meta:
		w.Meta(&MetaResponse{Status: MetaHeader, Flags: MetaFlags(nil).AddToken(FlagKey, r.Meta.Key)})
	case r.Dialect == Binary && r.Binary.Opcode == OpGet:
		w.Binary(&BinaryResponse{Opcode: OpGet, Opaque: r.Binary.Opaque, Key: r.Binary.Key})
	case r.Dialect == Text && r.Text.Verb != TextOther:
		w.Text(&TextResponse{Kind: TextLine, Text: r.Text.Keys})
	default:
		w.Unknown(r)
	}
})

// serve serves one connection, and returns its other end and what ServeConn returns.
func serve(t *testing.T, s *Server) (net.Conn, chan error) {
	t.Helper()
	s.Handler = echo
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeConn(there) }()
	here.SetDeadline(time.Now().Add(5 * time.Second))
	t.Cleanup(func() { here.Close() })
	return here, ended
}

func converse(t *testing.T, s *Server, said string) (answered string, err error) {
	t.Helper()
	conn, ended := serve(t, s)
	// quit is how these conversations end: who closes a pipe reads no answer from it.
	go io.WriteString(conn, said)
	all, _ := io.ReadAll(conn)
	return string(all), <-ended
}

func TestAServerAnswersAllDialects(t *testing.T) {
	get := BinaryRequest{Opcode: OpGet, Opaque: 7, Key: []byte("bin")}
	answer := BinaryResponse{Opcode: OpGet, Opaque: 7, Key: []byte("bin")}
	unknown := BinaryRequest{Opcode: 0xe7, Opaque: 8, Value: []byte("ignored")}
	refusal := BinaryResponse{Opcode: 0xe7, Opaque: 8, Status: StatusUnknownCommand, Value: []byte("Unknown command")}
	quit := BinaryRequest{Opcode: OpQuit, Opaque: 9}
	goodbye := BinaryResponse{Opcode: OpQuit, Opaque: 9}
	for _, c := range []struct{ said, want string }{
		{"get a\r\nmg b v\r\nquit\r\nget c\r\n", "a\r\nHD kb\r\n"},
		{"nonsense\r\n\r\nset k 0 0 -1\r\nset k 0 0 1\r\nabc\r\nquit\r\n", "ERROR\r\nERROR\r\n" + badFormat + "\r\n" + badChunk + "\r\nERROR\r\n"},
		{"mg k v v\r\nms k 1 S S\r\na\r\nmg k\r\nquit\r\n", duplicateFlag + "\r\n" + duplicateFlag + "\r\nHD kk\r\n"},
		{
			string(quit.AppendTo(unknown.AppendTo(get.AppendTo(nil)))),
			string(goodbye.AppendTo(refusal.AppendTo(answer.AppendTo(nil)))),
		},
	} {
		got, err := converse(t, new(Server), c.said)
		if got != c.want || err != nil {
			t.Errorf("%q: %q, %v, not %q", c.said, got, err, c.want)
		}
	}
}

func TestAServerSkipsWhatIsTooLarge(t *testing.T) {
	store := BinaryRequest{Opcode: OpSet, Opaque: 3, Key: []byte("k"), Value: make([]byte, 2000)}
	quit := BinaryRequest{Opcode: OpQuit}
	refusal := BinaryResponse{Opcode: OpSet, Opaque: 3, Status: StatusTooLarge, Value: []byte("Too large.")}
	for said, want := range map[string]string{
		"set k 0 0 2000\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n": tooLarge + "\r\na\r\n",
		"ms k 2000\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n":      tooLarge + "\r\na\r\n",
		string(quit.AppendTo(store.AppendTo(nil))):                                 string((&BinaryResponse{Opcode: OpQuit}).AppendTo(refusal.AppendTo(nil))),
	} {
		if got, err := converse(t, &Server{MaxMessageBytes: 1000}, said); got != want || err != nil {
			t.Errorf("%.20q: %q, %v, not %q", said, got, err, want)
		}
	}
}

func TestAServerHangsUpWhereThereIsNoNextCommand(t *testing.T) {
	for name, said := range map[string][]byte{
		"a body of 4 GiB":       {0x80, 1, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 23: 0},
		"a key beyond the body": {0x80, 1, 0, 1, 23: 0},
		"an endless line":       bytes.Repeat([]byte("x"), MaxLineBytes+1),
	} {
		conn, ended := serve(t, new(Server))
		go conn.Write(said)
		answer, _ := io.ReadAll(conn)
		if err := <-ended; err == nil || len(answer) > 100 {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}

func TestNobodyWaitsForAnAnswerThatWaits(t *testing.T) {
	conn, _ := serve(t, new(Server))
	go io.WriteString(conn, "get a\r\nget ")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "a\r\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}

func TestASilentConnectionEnds(t *testing.T) {
	_, ended := serve(t, &Server{IdleTimeout: 20 * time.Millisecond})
	if err := <-ended; !os.IsTimeout(err) {
		t.Error(err)
	}
}

func TestAServerEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- (&Server{Handler: echo}).Serve(ctx, listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "get a\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "a\r\n" || err != nil {
		t.Fatal(line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}
