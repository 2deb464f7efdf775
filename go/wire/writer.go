package wire

import (
	"io"
	"net"
	"time"
)

// The writer buffers messages up to this size, in bytes, and does not keep larger buffers.
const flushBytes = 64 << 10

// The writer does not copy values of this size, in bytes, or more.
const noCopyBytes = 16 << 10

// Writer buffers messages for a connection. It is not safe for concurrent use.
//
//	w.SetBuffer(message.AppendTo(w.Buffer()))
//	err := w.Flush()
//
// After an error all later calls return the same error.
type Writer struct {
	dst io.Writer
	buf []byte
	err error
	// written is the number of bytes that dst has accepted.
	written int64
	// deadline limits the time in which the peer must read the bytes; nil means no limit.
	deadline *writeDeadline
}

// writeDeadline is a time limit for each part of the bytes that a peer must read.
type writeDeadline struct {
	conn    net.Conn
	timeout time.Duration
	end     time.Time
}

// extend moves the deadline if less than three quarters of the timeout remain. Setting the deadline
// for each write would be exact, but this way most writes need not set it.
func (d *writeDeadline) extend() {
	if now := time.Now(); d.end.Sub(now) < d.timeout/4*3 {
		d.end = now.Add(d.timeout)
		_ = d.conn.SetWriteDeadline(d.end)
	}
}

// NewWriter returns a writer to dst. WriteTo of [net.Buffers] should take one system call on dst,
// as on a connection.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Buffer returns the buffered bytes, to append a message.
func (w *Writer) Buffer() []byte { return w.buf }

// SetBuffer replaces the buffered bytes with an extension of Buffer, and flushes them if they
// exceed 64 KiB.
func (w *Writer) SetBuffer(b []byte) {
	w.buf = b
	if len(w.buf) >= flushBytes {
		w.Flush()
	}
}

// Value appends a value and its end. It writes a large value immediately, without a copy.
func (w *Writer) Value(value []byte, end string) {
	if len(value) < noCopyBytes {
		w.SetBuffer(append(append(w.buf, value...), end...))
		return
	}
	switch {
	case w.err != nil:
	case w.deadline != nil:
		w.write(w.buf)
		w.write(value)
		w.write([]byte(end))
	default:
		parts := net.Buffers{w.buf, value, []byte(end)}
		var n int64
		n, w.err = parts.WriteTo(w.dst)
		w.written += n
	}
	w.reset()
}

// write writes in parts, each with its own time limit if there is one.
func (w *Writer) write(b []byte) {
	for len(b) > 0 && w.err == nil {
		part := b
		if w.deadline != nil {
			w.deadline.extend()
			part = b[:min(len(b), flushBytes)]
		}
		var n int
		n, w.err = w.dst.Write(part)
		w.written += int64(n)
		b = b[n:]
	}
}

// Flush writes the buffered bytes.
func (w *Writer) Flush() error {
	w.write(w.buf)
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
