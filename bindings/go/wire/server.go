package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Handler answers commands. A server calls it for the commands of one connection in order, and
// concurrently for different connections. The request and its slices are valid until it returns.
//
// The handler decides whether a request needs a response: NoReply, FlagQuiet, IsQuiet.
type Handler interface {
	Answer(w *Writer, r *Request)
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc func(w *Writer, r *Request)

// Answer calls f.
func (f HandlerFunc) Answer(w *Writer, r *Request) { f(w, r) }

// Server is a memcached server without a cache. It parses commands, responds to malformed ones,
// calls a handler for the others, and closes a connection on quit.
type Server struct {
	Handler Handler
	// MaxMessageBytes limits the size of a command, including its value. The server skips larger
	// ones and responds with an error. 0 means DefaultMaxMessageBytes.
	MaxMessageBytes int
	// IdleTimeout limits the time between commands of a connection; 0 means no limit.
	IdleTimeout time.Duration
}

// Serve accepts connections until ctx ends or the listener fails. It then closes the listener and
// all connections, waits for their handlers, and returns nil if ctx has ended.
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

// ServeConn serves one connection until its end and closes it. It returns nil if the client closes
// it or sends quit.
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

// flushingConn flushes the responses before it waits for further commands. Pipelined commands thus
// share one write, and no client waits for a response in the buffer.
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

// respondToError responds to an invalid command, and reports whether the connection remains usable.
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

// Unknown responds that the command does not exist, in the protocol of the request.
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
