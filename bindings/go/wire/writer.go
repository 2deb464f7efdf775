package wire

import (
	"io"
	"net"
)

// Messages are buffered up to this size, in bytes, and larger buffers are not kept.
const flushBytes = 64 << 10

// Values from this size on, in bytes, are written without a copy.
const noCopyBytes = 16 << 10

// Writer buffers messages for a connection. It is not safe for concurrent use.
//
//	w.SetBuffer(message.AppendTo(w.Buffer()))
//	err := w.Flush()
//
// After an error all later calls return it.
type Writer struct {
	dst io.Writer
	buf []byte
	err error
	// The number of bytes that dst has accepted.
	written int64
}

// NewWriter returns a writer to dst. WriteTo of [net.Buffers] should take one system call on dst,
// as on a connection.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Buffer returns the buffered bytes, to append a message.
func (w *Writer) Buffer() []byte { return w.buf }

// SetBuffer replaces the buffered bytes by an extension of Buffer, and flushes them if they exceed
// 64 KiB.
func (w *Writer) SetBuffer(b []byte) {
	w.buf = b
	if len(w.buf) >= flushBytes {
		w.Flush()
	}
}

// Value appends a value and its end. It writes a large value at once, without a copy.
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

// Flush writes the buffered bytes.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		var n int
		n, w.err = w.dst.Write(w.buf)
		w.written += int64(n)
	}
	w.reset()
	return w.err
}

// Written returns the number of bytes written to dst, including incomplete messages.
func (w *Writer) Written() int64 { return w.written }

func (w *Writer) reset() {
	if cap(w.buf) > 2*flushBytes {
		w.buf = nil
	}
	w.buf = w.buf[:0]
}

// Text appends a response of the text protocol.
func (w *Writer) Text(r *TextResponse) { w.SetBuffer(r.AppendTo(w.buf)) }

// Meta appends a response of the meta protocol.
func (w *Writer) Meta(r *MetaResponse) { w.SetBuffer(r.AppendTo(w.buf)) }

// Binary appends a response of the binary protocol.
func (w *Writer) Binary(r *BinaryResponse) { w.SetBuffer(r.AppendTo(w.buf)) }
