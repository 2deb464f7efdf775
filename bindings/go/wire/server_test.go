package wire

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// echo responds to every command with its key.
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

// serve serves one connection, and returns its other end and the result of ServeConn.
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

// converse sends requests that end in quit, and returns the responses and the result of ServeConn.
func converse(t *testing.T, s *Server, requests string) (responses string, err error) {
	t.Helper()
	conn, ended := serve(t, s)
	go io.WriteString(conn, requests)
	all, _ := io.ReadAll(conn)
	return string(all), <-ended
}

func TestServerRespondsInAllProtocols(t *testing.T) {
	get := BinaryRequest{Opcode: OpGet, Opaque: 7, Key: []byte("bin")}
	response := BinaryResponse{Opcode: OpGet, Opaque: 7, Key: []byte("bin")}
	unknown := BinaryRequest{Opcode: 0xe7, Opaque: 8, Value: []byte("ignored")}
	rejection := BinaryResponse{Opcode: 0xe7, Opaque: 8, Status: StatusUnknownCommand, Value: []byte("Unknown command")}
	quit := BinaryRequest{Opcode: OpQuit, Opaque: 9}
	quitResponse := BinaryResponse{Opcode: OpQuit, Opaque: 9}
	for _, test := range []struct{ requests, want string }{
		{"get a\r\nmg b v\r\nquit\r\nget c\r\n", "a\r\nHD kb\r\n"},
		{"nonsense\r\n\r\nset k 0 0 -1\r\nset k 0 0 1\r\nabc\r\nquit\r\n", "ERROR\r\nERROR\r\n" + badFormat + "\r\n" + badChunk + "\r\nERROR\r\n"},
		{"mg k v v\r\nms k 1 S S\r\na\r\nmg k\r\nquit\r\n", duplicateFlag + "\r\n" + duplicateFlag + "\r\nHD kk\r\n"},
		{
			string(quit.AppendTo(unknown.AppendTo(get.AppendTo(nil)))),
			string(quitResponse.AppendTo(rejection.AppendTo(response.AppendTo(nil)))),
		},
	} {
		got, err := converse(t, new(Server), test.requests)
		check.NoError(t, err)
		check.Equal(t, fmt.Sprintf("responses to %q", test.requests), got, test.want)
	}
}

func TestServerSkipsTooLargeCommand(t *testing.T) {
	store := BinaryRequest{Opcode: OpSet, Opaque: 3, Key: []byte("k"), Value: make([]byte, 2000)}
	quit := BinaryRequest{Opcode: OpQuit}
	rejection := BinaryResponse{Opcode: OpSet, Opaque: 3, Status: StatusTooLarge, Value: []byte("Too large.")}
	for requests, want := range map[string]string{
		"set k 0 0 2000\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n": tooLarge + "\r\na\r\n",
		"ms k 2000\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n":      tooLarge + "\r\na\r\n",
		string(quit.AppendTo(store.AppendTo(nil))):                                 string((&BinaryResponse{Opcode: OpQuit}).AppendTo(rejection.AppendTo(nil))),
	} {
		got, err := converse(t, &Server{MaxMessageBytes: 1000}, requests)
		check.NoError(t, err)
		check.Equal(t, fmt.Sprintf("responses to %.20q", requests), got, want)
	}
}

func TestServerClosesConnectionAfterUnrecoverableError(t *testing.T) {
	for name, request := range map[string][]byte{
		"a body of 4 GiB":       {0x80, 1, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 23: 0},
		"a key beyond the body": {0x80, 1, 0, 1, 23: 0},
		"an endless line":       bytes.Repeat([]byte("x"), MaxLineBytes+1),
	} {
		conn, ended := serve(t, new(Server))
		go conn.Write(request)
		response, _ := io.ReadAll(conn)
		if err := <-ended; err == nil {
			t.Errorf("%s: ServeConn: no error, want one", name)
		}
		// An error line at most.
		if len(response) > 100 {
			t.Errorf("%s: response of %d bytes, want at most 100", name, len(response))
		}
	}
}

func TestServerFlushesBeforeItWaits(t *testing.T) {
	conn, _ := serve(t, new(Server))
	go io.WriteString(conn, "get a\r\nget ")
	line, err := bufio.NewReader(conn).ReadString('\n')
	check.NoError(t, err)
	check.Equal(t, "response", line, "a\r\n")
}

func TestIdleTimeout(t *testing.T) {
	_, ended := serve(t, &Server{IdleTimeout: 20 * time.Millisecond})
	if err := <-ended; !os.IsTimeout(err) {
		t.Errorf("ServeConn: error %v, want a timeout", err)
	}
}

func TestServeEndsWithContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- (&Server{Handler: echo}).Serve(ctx, listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	check.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn, "get a\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	check.NoError(t, err)
	check.Equal(t, "response", line, "a\r\n")
	cancel()
	check.Equal(t, "Serve", <-ended, nil)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("Read after the end: no error, want a closed connection")
	}
}
