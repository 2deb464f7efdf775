package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Handler answers commands. It is called for one command of a connection after the other, and for many connections at
// the same time. The request and what it points to are good until it returns.
//
// Whether a request wants an answer is the handler's matter: NoReply, FlagQuiet, IsQuiet.
type Handler interface {
	Answer(w *Writer, r *Request)
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(w *Writer, r *Request)

// Answer calls the function.
func (f HandlerFunc) Answer(w *Writer, r *Request) { f(w, r) }

// Server is a memcached server without a cache: it reads commands, answers those that are malformed, asks a handler
// for the others, and ends a connection with quit.
type Server struct {
	Handler Handler
	// MaxMessageBytes is how long a command may be, its value included; longer ones are skipped and answered with an
	// error. 0 stands for DefaultMaxMessageBytes.
	MaxMessageBytes int
	// IdleTimeout is how long a connection may say nothing. 0 stands for as long as it likes.
	IdleTimeout time.Duration
}

// Serve accepts connections until ctx is done or the listener fails. Then it closes the listener and all connections,
// and returns when nobody is served any more: nil if ctx was done.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			listener.Close()
			return err
		}
		serving.Add(1)
		go func() {
			defer serving.Done()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.ServeConn(conn)
		}()
	}
}

// ServeConn serves one connection until its end and closes it. It returns nil if the peer has closed it or said quit.
func (s *Server) ServeConn(conn net.Conn) error {
	defer conn.Close()
	w := NewWriter(conn)
	r := NewReader(&flushingConn{conn, w}, s.MaxMessageBytes)
	request := new(Request)
	for {
		if s.IdleTimeout > 0 {
			conn.SetReadDeadline(time.Now().Add(s.IdleTimeout))
		}
		err := r.Read(request)
		switch {
		case err == io.EOF:
			return w.Flush()
		case err != nil:
			if !w.respondToError(request, err) {
				w.Flush()
				return err
			}
		case request.quits():
			w.quit(request)
			return w.Flush()
		default:
			s.Handler.Answer(w, request)
		}
		if w.err != nil {
			return w.err
		}
	}
}

// answeredFirst sends what waits before it waits itself: who sends many commands at once gets the answers at once, and
// nobody waits for an answer that waits for the next command.
type flushingConn struct {
	net.Conn
	w *Writer
}

func (c *flushingConn) Read(b []byte) (int, error) {
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// refuse answers what is no command, and says whether the connection can go on.
func (w *Writer) respondToError(r *Request, err error) bool {
	var wrong *SyntaxError
	var large *TooLargeError
	switch {
	case errors.As(err, &large):
		if r.Dialect == Binary {
			w.fail(&r.Binary, StatusTooLarge)
		} else {
			w.SetBuffer(append(append(w.buf, tooLarge...), "\r\n"...))
		}
		return true
	case errors.As(err, &wrong) && wrong.Reply != "":
		w.SetBuffer(append(append(w.buf, wrong.Reply...), "\r\n"...))
		return wrong.Reply != lineTooLarge
	}
	return false
}

// Unknown answers that there is no such command, in the words of the request's protocol.
func (w *Writer) Unknown(r *Request) {
	if r.Dialect == Binary {
		w.fail(&r.Binary, StatusUnknownCommand)
		return
	}
	w.Text(&TextResponse{Kind: TextError})
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
