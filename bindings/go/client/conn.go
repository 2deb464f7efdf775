package client

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"time"

	"larder/client/wire"
)

// conn is a connection to a server, and the messages that are written and read on it: one at a time, so that they are
// allocated once.
type conn struct {
	net.Conn
	server  net.Addr
	dialect wire.Dialect
	r       *wire.Reader
	w       *wire.Writer
	// generation is that of the pool when it was opened.
	generation int
	// alive is nil where nothing can be told.
	alive *liveness
	// anyKeys says that keys may have spaces and control characters in them.
	anyKeys bool

	meta       metaMessages
	text       textMessages
	binary     binaryMessages
	opaque     uint32
	key, flags []byte
	// many is a request for many keys.
	many []byte
}

type metaMessages struct {
	request  wire.MetaRequest
	response wire.MetaResponse
}

type textMessages struct {
	request  wire.TextRequest
	response wire.TextResponse
}

type binaryMessages struct {
	request  wire.BinaryRequest
	response wire.BinaryResponse
}

// What a line or a header takes beside a value.
const headerBytesMax = 2 << 10

func newConn(raw net.Conn, server net.Addr, maxValueBytes int) *conn {
	return &conn{
		Conn: raw, server: server, alive: livenessOf(raw),
		r: wire.NewReader(raw, maxValueBytes+headerBytesMax), w: wire.NewWriter(raw),
	}
}

// within lets f talk until the deadline, or until ctx is done. It says whether nothing will happen to the connection
// any more once it has returned.
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

// isOver says why nobody waits any longer. A connection may notice that the time is over before the context does.
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

// getMany asks for many keys with one write, and fills what found returns for each that is there.
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

// So much the sockets of both sides hold at least without anybody reading it.
const unreadBytes = 32 << 10

// exchange writes, then reads. If what is written is more than fits between two sockets it does both at once: the
// server may not read on before its answers are read.
func (c *conn) exchange(request []byte, receive func() error) error {
	if len(request) <= unreadBytes {
		if _, err := c.Write(request); err != nil {
			return err
		}
		return receive()
	}
	// Nobody keeps as much for each connection.
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

// setKey makes the key of the next request, in base64 if it has to be.
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

// replied is the error that a server has told.
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

// login says who we are, in the protocol that will be spoken.
func (c *conn) login(protocol Protocol, user, password string) error {
	if protocol == ProtocolBinary {
		c.dialect = wire.Binary
		return c.loginBinary(user, password)
	}
	return c.loginText(user, password)
}

// errHungUpOnMeta says that a server closed the connection when it was asked for the meta protocol, as routers do that
// know only text.
var errClosedOnMeta = errors.New("larder client: the server hung up when it was asked for the meta protocol")

// detect finds out whether the server speaks the meta protocol.
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
		// A server that has too many connections says so unasked, and hangs up.
		if len(c.meta.response.Text) > 0 {
			return c.replyError("ERROR", c.meta.response.Text)
		}
	}
	c.dialect = wire.Text
	return nil
}

// dial opens a connection and makes it ready for requests.
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
	if c.options.Username != "" {
		if err := cn.login(protocol, c.options.Username, c.options.Password); err != nil {
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

// takeValue takes a value out of a response, which shall not hold on to it while the connection is idle.
func (c *conn) takeValue(value *[]byte) []byte {
	taken := c.r.Take(*value)
	*value = nil
	return taken
}
