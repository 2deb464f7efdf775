package client

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"larder.example/larder/wire"
)

// conn is a connection to a server, with the messages that it writes and reads. It handles one
// request at a time, so it allocates the messages once.
type conn struct {
	net.Conn
	server  net.Addr
	dialect wire.Dialect
	r       *wire.Reader
	w       *wire.Writer
	// generation is the generation of the node when the connection was opened: see node.generation.
	generation int
	// usedAt is the start time of the last operation.
	usedAt time.Time
	// alive is nil if the state of the connection cannot be checked.
	alive *liveness
	// anyKeys is true if keys may contain spaces and control characters.
	anyKeys bool

	meta       metaMessages
	text       textMessages
	binary     binaryMessages
	opaque     uint32
	key, flags []byte
	// many is the buffer for requests with many keys.
	many []byte
	// chunk holds small values of the current multi-get, and keysLeft is the number of its keys whose
	// values have not arrived.
	chunk    []byte
	keysLeft int
}

type metaMessages struct {
	request  wire.MetaRequest
	response wire.MetaResponse
	batch    metaBatch
}

type textMessages struct {
	request  wire.TextRequest
	response wire.TextResponse
}

type binaryMessages struct {
	request  wire.BinaryRequest
	response wire.BinaryResponse
}

// The maximum size of a line or a header, without the value, in bytes.
const headerBytesMax = 2 << 10

func newConn(raw net.Conn, server net.Addr, maxValueBytes int) *conn {
	messageMax := min(maxValueBytes, math.MaxInt-headerBytesMax) + headerBytesMax
	c := &conn{
		Conn: raw, server: server, alive: livenessOf(raw),
		r: wire.NewReader(raw, messageMax), w: wire.NewWriter(raw),
	}
	c.meta.batch.bytesMax = min(chunkBytes, messageMax)
	return c
}

// runUntil calls f, and ends its reads and writes on the connection at the deadline or when ctx
// ends. usable is false if the connection must not be used again: when ctx ends, another goroutine
// sets a deadline on the connection, which may happen after the return.
func (c *conn) runUntil(ctx context.Context, deadline time.Time, f func() error) (usable bool, err error) {
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	if err := c.SetDeadline(deadline); err != nil {
		return false, err
	}
	usable = true
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
		err = f()
		usable = stop()
	} else {
		err = f()
	}
	if err == nil || keepsConn(err) {
		return usable, err
	}
	if cause := contextError(ctx); cause != nil {
		err = cause
	}
	return usable, err
}

// contextError returns the error of an ended context. A connection may notice a deadline before the
// context does.
func contextError(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func (c *conn) do(o *operation) error {
	if err := c.send(o); err != nil {
		return err
	}
	if err := c.w.Flush(); err != nil {
		return err
	}
	switch c.dialect {
	case wire.Meta:
		return c.receiveMeta(o)
	case wire.Binary:
		return c.receiveBinary(o)
	}
	return c.receiveText(o)
}

func (c *conn) send(o *operation) error {
	switch c.dialect {
	case wire.Meta:
		return c.sendMeta(o)
	case wire.Binary:
		return c.sendBinary(o)
	}
	return c.sendText(o)
}

// getMany requests many keys with one write. It calls newItem for each hit and fills the result.
func (c *conn) getMany(keys []string, newItem func() *Item) error {
	var err error
	switch c.dialect {
	case wire.Meta:
		c.many, err = c.appendMetaMany(c.many[:0], keys)
	case wire.Binary:
		c.many, err = c.appendBinaryMany(c.many[:0], keys)
	default:
		c.many, err = c.appendTextMany(c.many[:0], keys)
	}
	if err != nil {
		return err
	}
	c.keysLeft = len(keys)
	defer func() { c.chunk = nil }()
	return c.exchange(c.many, func() error {
		switch c.dialect {
		case wire.Meta:
			return c.receiveMetaMany(keys, newItem)
		case wire.Binary:
			return c.receiveBinaryMany(keys, newItem)
		}
		return c.receiveTextMany(keys, newItem)
	})
}

// unreadBytes is a number of bytes that fits into the socket buffers of both sides together, even
// if the server reads nothing.
const unreadBytes = 32 << 10

// exchange writes the request, then reads the responses. If the request may not fit into the socket
// buffers, it does both at the same time: a server may stop reading requests until the client has
// read the responses to the first ones.
func (c *conn) exchange(request []byte, receive func() error) error {
	if len(request) <= unreadBytes {
		if _, err := c.Write(request); err != nil {
			return err
		}
		return receive()
	}
	// Do not keep a buffer of this size with each connection.
	c.many = nil
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(request)
		written <- err
	}()
	err := receive()
	if !keepsConn(err) {
		c.Close()
	}
	if writeErr := <-written; writeErr != nil && err == nil {
		err = writeErr
	}
	return err
}

// setKey sets the key of the next request, encoded in base64 if necessary.
func (c *conn) setKey(key string) (inBase64 bool, err error) {
	special := wire.NeedsBase64(key)
	inBase64 = special && c.dialect == wire.Meta
	if inBase64 {
		c.key = base64.StdEncoding.AppendEncode(c.key[:0], []byte(key))
	} else {
		c.key = append(c.key[:0], key...)
	}
	if len(key) == 0 || len(c.key) > wire.MaxKeyBytes || special && !c.anyKeys {
		return false, ErrMalformedKey
	}
	return inBase64, nil
}

// replyError returns the error for an error line of the server.
func (c *conn) replyError(word string, text []byte) error {
	kind := ErrServerError
	if word != "SERVER_ERROR" {
		kind = ErrClientError
	}
	line := word
	if len(text) > 0 {
		line += " " + string(text)
	}
	return &ReplyError{Server: c.server, Line: line, kind: kind}
}

// login authenticates the connection in the protocol that it will use.
func (c *conn) login(protocol Protocol, user, password string) error {
	if protocol == ProtocolBinary {
		c.dialect = wire.Binary
		return c.loginBinary(user, password)
	}
	return c.loginText(user, password)
}

// errClosedOnMeta means that a server closed the connection when it received a meta command.
// Routers that support only the text protocol do this.
var errClosedOnMeta = errors.New("larder client: the server closed the connection on a meta command")

// detect finds out whether the server supports the meta protocol.
func (c *conn) detect() error {
	c.dialect = wire.Meta
	c.meta.request = wire.MetaRequest{Verb: wire.MetaNoOp}
	c.w.SetBuffer(c.meta.request.AppendTo(c.w.Buffer()))
	if err := c.w.Flush(); err != nil {
		return err
	}
	if err := c.r.Read(&c.meta.response); closedByPeer(err) {
		return errClosedOnMeta
	} else if err != nil {
		return err
	}
	switch c.meta.response.Status {
	case wire.MetaNoOpDone:
		return nil
	case wire.MetaServerError:
		return c.replyError("SERVER_ERROR", c.meta.response.Text)
	case wire.MetaError:
		// A server at its connection limit sends an error and closes the connection.
		if len(c.meta.response.Text) > 0 {
			return c.replyError("ERROR", c.meta.response.Text)
		}
	}
	c.dialect = wire.Text
	return nil
}

// dial opens a connection and prepares it for requests.
func (c *Client) dial(ctx context.Context, server net.Addr, protocol Protocol) (*conn, error) {
	timeout := c.options.DialTimeout
	if timeout <= 0 {
		timeout = c.timeout()
	}
	deadline := time.Now().Add(timeout)
	dialCtx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	raw, err := c.dialContext()(dialCtx, server.Network(), server.String())
	if err == nil && c.options.TLS != nil {
		raw, err = c.encrypt(dialCtx, raw, server)
	}
	if err != nil {
		switch cause := contextError(ctx); {
		case cause != nil:
			return nil, &FaultError{Server: server, Err: cause}
		case contextError(dialCtx) != nil || timedOut(err):
			return nil, &ConnectTimeoutError{server}
		}
		return nil, &FaultError{Server: server, Err: err, dialing: true}
	}
	cn := newConn(raw, server, c.maxValueBytes())
	usable, err := cn.runUntil(ctx, deadline, func() error { return c.handshake(cn, protocol) })
	if err == nil && usable {
		return cn, nil
	}
	raw.Close()
	if err == nil {
		err = contextError(ctx)
	}
	if keepsConn(err) {
		return nil, err
	}
	return nil, &FaultError{Server: server, Err: err, dialing: true}
}

func (c *Client) handshake(cn *conn, protocol Protocol) error {
	if l := c.currentLogin(); l != nil {
		if err := cn.login(protocol, l.user, l.password); err != nil {
			return err
		}
	}
	switch protocol {
	case ProtocolMeta:
		cn.dialect, cn.anyKeys = wire.Meta, true
	case ProtocolText:
		cn.dialect = wire.Text
	case ProtocolBinary:
		cn.dialect, cn.anyKeys = wire.Binary, true
	default:
		return cn.detect()
	}
	return nil
}

func (c *Client) encrypt(ctx context.Context, raw net.Conn, server net.Addr) (net.Conn, error) {
	config := c.options.TLS
	if config.ServerName == "" && !config.InsecureSkipVerify {
		config = config.Clone()
		host, _, err := net.SplitHostPort(server.String())
		if err != nil {
			raw.Close()
			return nil, fmt.Errorf("TLS without tls.Config.ServerName: %w", err)
		}
		config.ServerName = host
	}
	encrypted := tls.Client(raw, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return encrypted, nil
}

// takeManyValue is like takeValue, for a response of a multi-get. Small values share an allocation.
func (c *conn) takeManyValue(value *[]byte) []byte {
	v := *value
	if len(v) == 0 || len(v) > chunkValueBytes {
		return c.takeValue(value)
	}
	if cap(c.chunk)-len(c.chunk) < len(v) {
		c.chunk = make([]byte, 0, min(max(c.keysLeft, 1)*len(v), chunkBytes))
	}
	c.keysLeft--
	at := len(c.chunk)
	c.chunk = append(c.chunk, v...)
	*value = nil
	return c.chunk[at:len(c.chunk):len(c.chunk)]
}

// takeValue takes the value out of a response, so that the connection does not retain it while it
// is idle.
func (c *conn) takeValue(value *[]byte) []byte {
	taken := c.r.Take(*value)
	*value = nil
	return taken
}
