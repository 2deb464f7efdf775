package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// Appender is implemented by the messages of all protocols.
type Appender interface {
	AppendTo(dst []byte) []byte
}

// Conn sends and receives messages on a connection, as a client or as a server. One goroutine may
// send while another one receives.
//
// It adds no timeouts: SetDeadline of the [net.Conn] limits the time of a call, and Close ends it.
// After an error other than a [*SyntaxError] with a Reply or a [*TooLargeError] the connection
// should be closed.
type Conn struct {
	net.Conn
	r *Reader
	w *Writer
}

// NewConn returns a Conn on an open connection. Messages longer than maxMessageBytes are errors; 0
// means DefaultMaxMessageBytes.
func NewConn(conn net.Conn, maxMessageBytes int) *Conn {
	return &Conn{Conn: conn, r: NewReader(conn, maxMessageBytes), w: NewWriter(conn)}
}

// Dial connects to a server. The network and the address are as in [net.Dial].
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return NewConn(conn, 0), nil
}

// Send sends messages, with one write if they are small.
func (c *Conn) Send(messages ...Appender) error {
	for _, m := range messages {
		c.w.SetBuffer(m.AppendTo(c.w.Buffer()))
	}
	return c.w.Flush()
}

// Receive receives a message of the type of m, which is valid until the next Receive. It returns
// the same errors as [Reader.Read].
func (c *Conn) Receive(m Parser) error { return c.r.Read(m) }

// Buffered returns the number of bytes that were received but not parsed.
func (c *Conn) Buffered() int { return c.r.Buffered() }

// ErrAuth means that a server rejected user or password.
var ErrAuth = errors.New("wire: the server rejected user or password")

// AuthPlain authenticates the connection in the binary protocol by SASL PLAIN. The password is sent
// in clear text, so the connection should be encrypted or local.
func (c *Conn) AuthPlain(user, password string) error {
	request := BinaryRequest{
		Opcode: OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00" + user + "\x00" + password),
	}
	if err := c.Send(&request); err != nil {
		return err
	}
	var response BinaryResponse
	if err := c.Receive(&response); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	switch {
	case response.Opcode != OpSASLAuth:
		return syntax("a response to the login", []byte(response.Opcode.String()), "")
	case response.Status != StatusOK:
		return fmt.Errorf("%w: %v", ErrAuth, response.Status)
	}
	return nil
}
