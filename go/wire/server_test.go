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
	"syscall"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/grammar"
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
		{"nonsense\r\n\r\nset k 0 0 -1\r\nset k 0 0 1\r\nabc\r\nquit\r\n", "ERROR\r\n" + grammar.BadFormat + grammar.BadFormat + grammar.BadChunk + grammar.BadFormat},
		{"mg k v v\r\nms k 1 I I\r\na\r\nmg k\r\nquit\r\n", grammar.TwoFlags + grammar.TwoFlags + "HD kk\r\n"},
		{"set k none 0 1 noreply\r\na\r\nnonsense noreply\r\nget a\r\nquit\r\n", "a\r\n"},
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
		"set k 0 0 2000\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n":         grammar.TooLarge + "a\r\n",
		"set k 0 0 2000 noreply\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n": "a\r\n",
		"ms k 2000\r\n" + strings.Repeat("x", 2000) + "\r\nget a\r\nquit\r\n":              grammar.TooLarge + "a\r\n",
		string(quit.AppendTo(store.AppendTo(nil))):                                         string((&BinaryResponse{Opcode: OpQuit}).AppendTo(rejection.AppendTo(nil))),
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
		"a browser":             []byte("GET / HTTP/1.1\r\nHost: x\r\n"),
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

// shortListener has no descriptor for its first connections.
type shortListener struct {
	net.Listener
	failures int
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// listen serves at a port, and returns its address and the result of Serve.
func listen(t *testing.T, s *Server, wrap func(net.Listener) net.Listener) (address string, ended chan error) {
	t.Helper()
	s.Handler = echo
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ended = make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		ended <- s.Serve(ctx, wrap(listener))
	}()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	return listener.Addr().String(), ended
}

func asIs(l net.Listener) net.Listener { return l }

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	check.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	check.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	return conn
}

func ask(t *testing.T, conn net.Conn, request, want string) {
	t.Helper()
	_, err := io.WriteString(conn, request)
	check.NoError(t, err)
	got := make([]byte, len(want))
	_, err = io.ReadFull(conn, got)
	check.NoError(t, err)
	check.Equal(t, fmt.Sprintf("response to %q", request), string(got), want)
}

func TestServeWaitsForDescriptors(t *testing.T) {
	address, ended := listen(t, new(Server), func(l net.Listener) net.Listener { return &shortListener{l, 4} })
	ask(t, dialTCP(t, address), "get a\r\n", "a\r\n")
	select {
	case err := <-ended:
		t.Errorf("Serve: %v, want it to go on", err)
	default:
	}
}

func TestServeLimitsConnections(t *testing.T) {
	address, _ := listen(t, &Server{MaxConns: 2}, asIs)
	first := dialTCP(t, address)
	ask(t, first, "get a\r\n", "a\r\n")
	ask(t, dialTCP(t, address), "get b\r\n", "b\r\n")
	refusal, err := io.ReadAll(dialTCP(t, address))
	check.NoError(t, err)
	check.Equal(t, "response to the third connection", string(refusal), "ERROR Too many open connections\r\n")
	check.NoError(t, first.Close())
	check.Eventually(t, "a place for another connection", func() bool {
		conn := dialTCP(t, address)
		_, err := io.WriteString(conn, "get c\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return err == nil && line == "c\r\n"
	})
}

func TestShutdownCompletesCommandsThatHaveBegun(t *testing.T) {
	s := new(Server)
	address, ended := listen(t, s, asIs)
	idle, busy := dialTCP(t, address), dialTCP(t, address)
	ask(t, idle, "get a\r\n", "a\r\n")
	ask(t, busy, "get a\r\nset b 0 0 3\r\nx", "a\r\n")
	done := make(chan error)
	go func() { done <- s.Shutdown(context.Background()) }()
	_, err := idle.Read(make([]byte, 1))
	check.Equal(t, "Read of the idle connection", err, io.EOF)
	ask(t, busy, "yz\r\n", "b\r\n")
	_, err = busy.Read(make([]byte, 1))
	check.Equal(t, "Read after the last command", err, io.EOF)
	check.NoError(t, <-done)
	check.ErrorIs(t, "Serve", <-ended, ErrServerClosed)
	other, _ := net.Pipe()
	check.ErrorIs(t, "ServeConn", s.ServeConn(other), ErrServerClosed)
}

func TestShutdownEndsWithTheContext(t *testing.T) {
	s := new(Server)
	address, ended := listen(t, s, asIs)
	busy := dialTCP(t, address)
	ask(t, busy, "get a\r\nset b 0 0 3\r\nx", "a\r\n")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	check.ErrorIs(t, "Shutdown", s.Shutdown(ctx), context.DeadlineExceeded)
	if _, err := busy.Read(make([]byte, 1)); err == nil {
		t.Error("Read after the end: no error, want a closed connection")
	}
	check.ErrorIs(t, "Serve", <-ended, ErrServerClosed)
}

func TestReadTimeoutCountsFromTheFirstByte(t *testing.T) {
	conn, ended := serve(t, &Server{ReadTimeout: 100 * time.Millisecond})
	// A command that arrives byte by byte does not move the deadline; the pause before it does.
	time.Sleep(150 * time.Millisecond)
	go func() {
		for range 100 {
			if _, err := io.WriteString(conn, "g"); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	began := time.Now()
	if err := <-ended; !os.IsTimeout(err) {
		t.Errorf("ServeConn: error %v, want a timeout", err)
	}
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("ServeConn ended after %v, want about 100 ms", took)
	}
}

func TestWriteTimeoutEndsAClientThatDoesNotRead(t *testing.T) {
	conn, ended := serve(t, &Server{WriteTimeout: 100 * time.Millisecond})
	go io.WriteString(conn, strings.Repeat("get a\r\n", 100_000))
	if err := <-ended; !os.IsTimeout(err) {
		t.Errorf("ServeConn: error %v, want a timeout", err)
	}
}

// A client that pipelines always has a part of its next command in the server's buffer.
func TestReadTimeoutIsThatOfOneCommand(t *testing.T) {
	const timeout = time.Second
	conn, ended := serve(t, &Server{ReadTimeout: timeout})
	go io.Copy(io.Discard, conn)
	_, err := io.WriteString(conn, "get")
	check.NoError(t, err)
	for began := time.Now(); time.Since(began) < 2*timeout; time.Sleep(timeout / 50) {
		_, err := io.WriteString(conn, " a\r\nget")
		check.NoError(t, err)
	}
	_, err = io.WriteString(conn, " a\r\nquit\r\n")
	check.NoError(t, err)
	check.NoError(t, <-ended)
}
