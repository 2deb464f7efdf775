package wire

import (
	"io"
	"net"
)

// So much is gathered before it is sent, and a buffer that has become larger than that is not kept.
const flushBytes = 64 << 10

// A value from here on is sent from where it lies.
const noCopyBytes = 16 << 10

// Writer gathers messages for a connection. It is used by one goroutine at a time.
//
//	w.SetBuffer(message.AppendTo(w.Buffer()))
//	err := w.Flush()
//
// An error stays: all later calls return it.
type Writer struct {
	dst io.Writer
	buf []byte
	err error
	// How many bytes dst has taken.
	written int64
}

// NewWriter writes to dst, which should have WriteTo of [net.Buffers] write with one system call, as connections do.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Buffer is what waits to be sent, to append a message to.
func (w *Writer) Buffer() []byte { return w.buf }

// SetBuffer takes what was appended to Buffer. It sends all if it has become much.
func (w *Writer) SetBuffer(b []byte) {
	w.buf = b
	if len(w.buf) >= flushBytes {
		w.Flush()
	}
}

// Value puts a value, and what is behind it, after what waits. A large value is sent at once and not copied.
func (w *Writer) Value(value []byte, end string) {
	if len(value) < noCopyBytes {
		w.SetBuffer(append(append(w.buf, value...), end...))
		return
	}
	if w.err == nil {
		parts := net.Buffers{w.buf, value, []byte(end)}
		var n int64
		n, w.err = parts.WriteTo(w.dst)
		w.written += n
	}
	w.reset()
}

// Flush sends what waits.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		var n int
		n, w.err = w.dst.Write(w.buf)
		w.written += int64(n)
	}
	w.reset()
	return w.err
}

// Written is how many bytes have been sent, all or in part.
func (w *Writer) Written() int64 { return w.written }

func (w *Writer) reset() {
	if cap(w.buf) > 2*flushBytes {
		w.buf = nil
	}
	w.buf = w.buf[:0]
}

// Text puts an answer of the text protocol.
func (w *Writer) Text(r *TextResponse) { w.SetBuffer(r.AppendTo(w.buf)) }

// Meta puts an answer of the meta protocol.
func (w *Writer) Meta(r *MetaResponse) { w.SetBuffer(r.AppendTo(w.buf)) }

// Binary puts an answer of the binary protocol.
func (w *Writer) Binary(r *BinaryResponse) { w.SetBuffer(r.AppendTo(w.buf)) }
