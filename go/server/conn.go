package server

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"larder.example/larder/internal/engine"
)

const (
	// firstBytes is the size of an input buffer until it is full for the first time, and freeBytes is
	// its size afterwards. Buffers of up to freeBytes do not count against the memory limit.
	firstBytes = 4 << 10
	freeBytes  = 16 << 10
	// The connection sends its responses once they have outMax bytes. Only a longer value makes the
	// buffer larger.
	outMax = 64 << 10
	// writeMax is the number of bytes that a client must read within Options.WriteTimeout.
	writeMax = 64 << 10
)

// conn is a connection. Its goroutine reads requests into a buffer, executes the complete requests,
// and sends the responses before it waits for more bytes.
type conn struct {
	server *Server
	engine *engine.Engine
	socket net.Conn
	// activity is the phase of the connection, and the time at which it began. began is the time at
	// which the first bytes of a request arrived that has not arrived completely.
	activity  atomicMoment
	began     atomic.Int64
	held      atomic.Int64
	isAborted atomic.Bool
	counters  counters
	// number identifies the connection in "stats conns".
	number uint64

	// in[start:end] are the bytes that have arrived and are not executed yet.
	in         []byte
	start, end int
	// need is the number of bytes that the next call of step needs. skip is the number of bytes to
	// ignore; after them the connection sends reply. skip has 64 bits, because a client may announce
	// more bytes than an int of 32 bits can count.
	need  int
	skip  int64
	reply []byte
	// isBusy is true after a read has filled the input buffer: the next buffer is larger.
	isBusy bool
	// out is the output buffer. outHeld is the number of its bytes that count against the memory
	// limit.
	out     []byte
	outHeld int
	// step executes a request at the start of its argument and returns the bytes that it has
	// executed, 0 if more are needed.
	step func(c *conn, b []byte) int
	// isClosing ends the connection after it has sent the responses. isBroken ends it without sending
	// them.
	isClosing, isBroken bool
	isLoggedIn          bool
	// hasTaken is true once the client has sent bytes after a response: see tryHold.
	hasTaken bool
	// isClear is true if no request was partially received before the last read.
	isClear bool
	list    keyList
	lookup  lookup
}

func newConn(s *Server, socket net.Conn) *conn {
	c := &conn{server: s, engine: s.engine, socket: socket, step: (*conn).stepFirst, isClear: true}
	c.lookup.visit = c.visitHit
	c.activity.Store(s.now.Load(), idle)
	return c
}

// abort ends the connection from another goroutine.
func (c *conn) abort() {
	c.isAborted.Store(true)
	_ = c.socket.Close()
}

func (c *conn) run() {
	defer c.server.release(c)
	if secure, ok := c.socket.(*tls.Conn); ok {
		c.began.Store(c.server.now.Load())
		c.activity.Store(c.server.now.Load(), reading)
		if secure.Handshake() != nil {
			return
		}
	}
	for {
		c.execute()
		if c.isBroken || !c.flush() || c.isClosing || !c.fill() {
			return
		}
	}
}

// execute executes the requests that have arrived.
func (c *conn) execute() {
	for !c.isClosing && !c.isBroken {
		if c.skip > 0 {
			skipped := min(c.skip, int64(c.end-c.start))
			c.start += int(skipped)
			if c.skip -= skipped; c.skip > 0 {
				break
			}
			c.out = append(c.out, c.reply...)
			c.reply, c.isClear = c.reply[:0], true
			continue
		}
		if c.start == c.end || c.end-c.start < c.need {
			break
		}
		executed := c.step(c, c.in[c.start:c.end])
		if executed == 0 {
			break
		}
		c.start += executed
		c.need, c.isClear = 0, true
		if len(c.out) >= outMax || !c.chargeOut(cap(c.out)) {
			c.flush()
		}
	}
}

// stepFirst selects the protocol by the first byte of the connection.
func (c *conn) stepFirst(b []byte) int {
	switch {
	case b[0] == 0x80:
		c.step = (*conn).stepBinary
	case c.server.options.Auth != nil:
		c.step = (*conn).stepLogin
	default:
		c.step = (*conn).stepText
	}
	return c.step(c, b)
}

// skipValue ignores a value of length bytes after a line of head bytes and then responds.
func (c *conn) skipValue(head, length int, reply string) int {
	c.skip, c.reply = int64(length)+int64(len("\r\n")), append(c.reply[:0], reply...)
	return head
}

// fill reads once, and returns false at the end of the connection.
func (c *conn) fill() bool {
	if !c.makeSpace() {
		return false
	}
	s := c.server
	for {
		isClear := c.start == c.end && c.skip == 0 && c.list.verb == 0
		switch now := s.now.Load(); {
		case isClear:
			c.activity.Store(now, idle)
		case c.isClear:
			c.began.Store(now)
			fallthrough
		default:
			c.activity.Store(now, c.missing())
		}
		c.isClear = isClear
		if isClear && s.isDraining.Load() {
			return false
		}
		// Let other goroutines run first: the next request usually arrives while they run. This saves a
		// read that returns nothing, and a wait for the poller.
		runtime.Gosched()
		n, err := c.socket.Read(c.in[c.end:])
		c.activity.Store(s.now.Load(), working)
		if n > 0 {
			c.counters.add1(bytesRead, n)
			c.end += n
			c.hasTaken = c.counters[bytesWritten].Load() > 0
			c.isBusy = c.isBusy || c.end == len(c.in)
			return true
		}
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && s.isDraining.Load() && !isClear {
			// Shutdown has set this deadline, because the connection was idle then. Since then a part of a
			// request has arrived, so wait for the rest.
			_ = c.socket.SetReadDeadline(time.Time{})
			continue
		}
		return false
	}
}

// missing returns the phase of a connection that waits for the rest of a request.
func (c *conn) missing() phase {
	switch {
	case c.skip > 0:
		return skipping
	case c.need > 0:
		return filling
	}
	return reading
}

// makeSpace makes the input buffer large enough for the next read. For a long value the buffer
// grows only as bytes arrive, so that a client cannot occupy memory by announcing a length.
func (c *conn) makeSpace() bool {
	have := c.end - c.start
	size := firstBytes
	if c.isBusy {
		size = freeBytes
	}
	if c.need > size {
		size = max(size, min(c.need, 2*have))
	}
	if size < len(c.in) && (have > 0 || len(c.in) <= freeBytes) {
		size = len(c.in)
	}
	if size == len(c.in) {
		if c.start > 0 && (have == 0 || len(c.in)-c.start < max(c.need, len(c.in)/2)) {
			copy(c.in, c.in[c.start:c.end])
			c.start, c.end = 0, have
		}
		return true
	}
	if more := charged(size) - charged(len(c.in)); more > 0 && !c.server.hold(c, more) {
		c.out = append(c.out, noBuffers...)
		c.flush()
		return false
	} else if more < 0 {
		c.giveBack(-more)
	}
	grown := make([]byte, size)
	copy(grown, c.in[c.start:c.end])
	c.in, c.start, c.end = grown, 0, have
	return true
}

// charged returns how many bytes of a buffer count against the memory limit.
func charged(size int) int { return max(0, size-freeBytes) }

func (c *conn) giveBack(bytes int) {
	c.held.Add(-int64(bytes))
	c.server.held.Add(-int64(bytes))
}

// flush sends the responses, and returns false if that fails.
func (c *conn) flush() bool {
	for sent := 0; sent < len(c.out) && !c.isBroken; {
		part := c.out[sent:min(len(c.out), sent+writeMax)]
		c.activity.Store(c.server.now.Load(), writing)
		n, err := c.socket.Write(part)
		c.counters.add1(bytesWritten, n)
		sent += n
		c.isBroken = err != nil
	}
	if size := cap(c.out); size > freeBytes && (len(c.out) <= freeBytes || size > outMax) {
		c.giveBack(c.outHeld)
		c.out, c.outHeld = nil, 0
	}
	c.out = c.out[:0]
	return !c.isBroken
}

// hasRoom returns true if the output buffer has space for more bytes. The buffer may grow to make
// this space.
func (c *conn) hasRoom(more int) bool {
	length, size := len(c.out)+more, cap(c.out)
	if length <= size {
		return true
	}
	if length > outMax {
		return false
	}
	size = min(max(2*size, length, 512), outMax)
	if !c.chargeOut(size) {
		return false
	}
	c.out = append(make([]byte, 0, size), c.out...)
	return true
}

// chargeOut counts an output buffer of this size against the memory limit, and returns false if the
// limit would be exceeded.
func (c *conn) chargeOut(size int) bool {
	more := charged(size) - c.outHeld
	if more <= 0 {
		return true
	}
	if !c.server.tryHold(c, more) {
		return false
	}
	c.outHeld += more
	return true
}

// makeRoom sends the responses and waits for memory for more bytes. It returns false if the
// connection must end.
func (c *conn) makeRoom(more int) bool {
	if !c.flush() {
		return false
	}
	if c.hasRoom(more) {
		return true
	}
	if bytes := charged(more) - c.outHeld; bytes > 0 {
		if !c.server.hold(c, bytes) {
			c.isBroken = true
			return false
		}
		c.outHeld += bytes
	}
	c.out = make([]byte, 0, more)
	return true
}
