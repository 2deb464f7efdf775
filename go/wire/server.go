package wire

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"larder.example/larder/internal/accept"
	"larder.example/larder/internal/grammar"
)

// Handler answers commands. A server calls it for the commands of one connection in order, and
// concurrently for different connections. The request and its slices are valid until it returns.
//
// The handler decides whether a request needs a response: NoReply, FlagQuiet, IsQuiet.
type Handler interface {
	Answer(w *Writer, r *Request)
}

// HandlerFunc is an adapter that makes a function a [Handler].
type HandlerFunc func(w *Writer, r *Request)

// Answer calls f.
func (f HandlerFunc) Answer(w *Writer, r *Request) { f(w, r) }

// The defaults of [Server].
const (
	DefaultMaxConns     = 1024
	DefaultReadTimeout  = time.Minute
	DefaultWriteTimeout = time.Minute
)

// ErrServerClosed is the error of Serve and ServeConn after Shutdown.
var ErrServerClosed = errors.New("wire: server is closed")

// Server is a memcached server without a cache. It parses commands, responds to malformed commands,
// calls a handler for the others, and closes a connection on quit. The fields must not change after
// the first call of a method.
type Server struct {
	Handler Handler
	// MaxMessageBytes limits the size of a command, including its value. The server skips larger
	// commands and responds with an error. 0 means DefaultMaxMessageBytes.
	MaxMessageBytes int
	// MaxConns limits the number of open connections; 0 means DefaultMaxConns. Serve sends "ERROR Too
	// many open connections" to a connection above the limit, and closes it.
	MaxConns int
	// IdleTimeout limits the time between commands of a connection; 0 means no limit.
	IdleTimeout time.Duration
	// ReadTimeout limits the time from the first to the last byte of a command. WriteTimeout limits
	// the time in which a client must read 64 KiB of responses. 0 means DefaultReadTimeout and
	// DefaultWriteTimeout, and a negative value means no limit.
	ReadTimeout, WriteTimeout time.Duration

	open openConns
}

// Serve accepts connections until ctx ends, the listener fails, or Shutdown is called. It closes
// the listener and waits for the handlers of its connections. After Shutdown the connections
// complete their commands, otherwise Serve closes them. It returns nil if ctx has ended, and
// [ErrServerClosed] after Shutdown. While the process has no file descriptor for another
// connection, Serve waits for one.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	done := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(done)
		_ = listener.Close()
	})
	defer end()
	forget, isOpen := s.open.atDrain(end)
	if !isOpen {
		return ErrServerClosed
	}
	defer forget()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, end)()
	var running sync.WaitGroup
	err := accept.Loop(listener, done, func(socket net.Conn) {
		c := newServerConn(s, socket)
		if err := s.open.add(c, orDefault(s.MaxConns, DefaultMaxConns)); err != nil {
			refuse(socket, err)
			return
		}
		running.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
			_ = c.run()
		})
	})
	if s.open.isDraining() {
		err = ErrServerClosed
	} else {
		cancel()
	}
	running.Wait()
	return err
}

// ServeConn serves one connection until it ends, and closes it. It returns nil if the client closes
// the connection or sends quit, and after Shutdown.
func (s *Server) ServeConn(conn net.Conn) error {
	c := newServerConn(s, conn)
	if err := s.open.add(c, math.MaxInt); err != nil {
		_ = conn.Close()
		return err
	}
	return c.run()
}

// Shutdown closes the listeners and the idle connections. It waits until the other connections have
// completed the commands that have arrived, also in part. When ctx ends, it closes them and returns
// the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.open.drain()
	ended := make(chan struct{})
	go func() {
		s.open.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.open.closeAll()
		<-ended
		return ctx.Err()
	}
}

// refuse tells a client that there are too many connections, as memcached does.
func refuse(socket net.Conn, err error) {
	if errors.Is(err, errTooManyConns) {
		_ = socket.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = io.WriteString(socket, "ERROR Too many open connections\r\n")
	}
	_ = socket.Close()
}

// orDefault returns a setting, or its default if it is 0.
func orDefault[T int | time.Duration](setting, fallback T) T {
	if setting == 0 {
		return fallback
	}
	return setting
}

// respondToError responds to an invalid command, and reports whether the connection remains usable.
func (w *Writer) respondToError(r *Request, err error) bool {
	var wrong *SyntaxError
	var large *TooLargeError
	switch {
	case errors.As(err, &large):
		if r.Dialect == Binary {
			w.fail(&r.Binary, StatusTooLarge)
		} else {
			w.refuse(r, grammar.TooLarge)
		}
		return true
	case errors.As(err, &wrong) && wrong.Reply != "":
		reply := wrong.Reply + "\r\n"
		w.refuse(r, reply)
		return wrong.Reply != outOfMemory && reply != grammar.TooLarge
	}
	return false
}

// refuse responds to an invalid command of the text or meta protocol.
func (w *Writer) refuse(r *Request, reply string) {
	if r.Dialect != Text || !r.Text.NoReply {
		w.SetBuffer(append(w.buf, reply...))
	}
}

// Unknown responds that the command does not exist, in the protocol of the request.
func (w *Writer) Unknown(r *Request) {
	switch r.Dialect {
	case Binary:
		w.fail(&r.Binary, StatusUnknownCommand)
	case Text:
		w.unknownText(&r.Text)
	default:
		w.Text(&TextResponse{Kind: TextError})
	}
}

// unknownText responds to an unknown command, which may end in noreply.
func (w *Writer) unknownText(r *TextRequest) {
	words := grammar.UnknownWords(r.Name, r.Args)
	if !r.NoReply && !words.IsQuiet() {
		w.Text(&TextResponse{Kind: TextError})
	}
}

func (w *Writer) fail(r *BinaryRequest, status BinaryStatus) {
	w.Binary(&BinaryResponse{Opcode: r.Opcode, Opaque: r.Opaque, Status: status, Value: []byte(status.String())})
}

func (r *Request) quits() bool {
	switch r.Dialect {
	case Text:
		return r.Text.Verb == TextQuit
	case Binary:
		return r.Binary.Opcode == OpQuit || r.Binary.Opcode == OpQuitQ
	}
	return false
}

func (w *Writer) quit(r *Request) {
	if r.Dialect == Binary && r.Binary.Opcode == OpQuit {
		w.Binary(&BinaryResponse{Opcode: OpQuit, Opaque: r.Binary.Opaque})
	}
}
