package client

import (
	"bytes"
	"strconv"

	"larder.example/larder/wire"
)

func (c *conn) sendText(o *operation) error {
	r := &c.text.request
	*r = wire.TextRequest{Flags: o.flags, Exptime: o.exptime, CAS: o.cas, Delta: o.delta}
	switch o.verb {
	case verbPing:
		r.Verb = wire.TextVersion
	case verbFlush:
		r.Verb = wire.TextFlushAll
	case verbStats:
		r.Verb, r.Args = wire.TextStats, wire.Words(o.key)
	default:
		if _, err := c.setKey(o.key); err != nil {
			return err
		}
		r.Verb, r.Keys = textVerbOf(o.verb), c.key
	}
	c.w.SetBuffer(r.AppendHeadTo(c.w.Buffer(), len(o.value)))
	if r.Verb.Stores() {
		c.w.Value(o.value, "\r\n")
	}
	return nil
}

func textVerbOf(v verb) wire.TextVerb {
	return [...]wire.TextVerb{
		verbGet: wire.TextGets, verbGetAndTouch: wire.TextGats, verbTouch: wire.TextTouch, verbSet: wire.TextSet,
		verbAdd: wire.TextAdd, verbReplace: wire.TextReplace, verbAppend: wire.TextAppend, verbPrepend: wire.TextPrepend,
		verbCompareAndSwap: wire.TextCAS, verbDelete: wire.TextDelete, verbIncrement: wire.TextIncr,
		verbDecrement: wire.TextDecr,
	}[v]
}

func (c *conn) receiveText(o *operation) error {
	switch {
	case o.verb == verbStats:
		return c.receiveTextStats(o)
	case o.creates:
		return c.receiveTextCount(o)
	}
	return c.receiveTextOne(o)
}

func (c *conn) receiveTextOne(o *operation) error {
	r := &c.text.response
	if err := c.r.Read(r); err != nil {
		return err
	}
	switch r.Kind {
	case wire.TextValue:
		if o.verb <= verbGetAndTouch {
			return c.takeTextValue(o)
		}
	case wire.TextEnd:
		if o.verb <= verbGetAndTouch {
			return ErrCacheMiss
		}
	case wire.TextStored:
		if o.verb.stores() {
			return nil
		}
	case wire.TextNotStored:
		return ErrNotStored
	case wire.TextExists:
		return ErrCASConflict
	case wire.TextNotFound:
		return ErrCacheMiss
	case wire.TextNumber:
		if o.verb == verbIncrement || o.verb == verbDecrement {
			o.number = r.Number
			return nil
		}
	case wire.TextClientError, wire.TextServerError, wire.TextError:
		return c.replyError(r.Kind.String(), r.Text)
	case successKind(o.verb):
		return nil
	}
	return unexpected("a response to the text request", r.AppendTo(nil))
}

// successKind returns the response that means success of a verb.
func successKind(v verb) wire.TextKind {
	switch v {
	case verbTouch:
		return wire.TextTouched
	case verbDelete:
		return wire.TextDeleted
	case verbFlush:
		return wire.TextOK
	case verbPing:
		return wire.TextVersionIs
	}
	return wire.TextStored
}

func (c *conn) takeTextValue(o *operation) error {
	r := &c.text.response
	// The text protocol does not number its requests: only the key shows that the response belongs to
	// this request.
	if string(r.Key) != o.key {
		return unexpected("the value of the requested key", r.Key)
	}
	o.item = &Item{Key: o.key, Value: c.takeValue(&r.Value), Flags: uint32(r.Flags), CasID: r.CAS}
	if err := c.r.Read(r); err != nil {
		return err
	}
	if r.Kind != wire.TextEnd {
		return unexpected("END", r.AppendTo(nil))
	}
	return nil
}

func (c *conn) appendTextMany(dst []byte, keys []string) ([]byte, error) {
	dst = append(dst, "gets"...)
	for _, key := range keys {
		if _, err := c.setKey(key); err != nil {
			return dst, err
		}
		dst = append(dst, ' ')
		dst = append(dst, key...)
	}
	return append(dst, "\r\n"...), nil
}

// receiveTextMany matches the values with the keys, which the server returns in the order of the
// request.
func (c *conn) receiveTextMany(keys []string, newItem func() *Item) error {
	r := &c.text.response
	for {
		if err := c.r.Read(r); err != nil {
			return err
		}
		switch r.Kind {
		case wire.TextEnd:
			return nil
		case wire.TextValue:
			for len(keys) > 0 && keys[0] != string(r.Key) {
				keys = keys[1:]
			}
			if len(keys) == 0 {
				return unexpected("values of the requested keys", r.Key)
			}
			*newItem() = Item{Key: keys[0], Value: c.takeManyValue(&r.Value), Flags: uint32(r.Flags), CasID: r.CAS}
			keys = keys[1:]
		case wire.TextClientError, wire.TextServerError, wire.TextError:
			return c.replyError(r.Kind.String(), r.Text)
		default:
			return unexpected("a value, or the end of the values", r.AppendTo(nil))
		}
	}
}

// loginText authenticates by a set with an arbitrary key. memcached with -Y, and larderd, expect
// this.
func (c *conn) loginText(user, password string) error {
	login := user + " " + password
	if bytes.ContainsAny([]byte(login), "\r\n") {
		return &ReplyError{Server: c.server, Line: "not sent: user and password must not contain line ends", kind: ErrLogin}
	}
	request := "set login 0 0 " + strconv.Itoa(len(login)) + "\r\n" + login + "\r\n"
	if _, err := c.Write([]byte(request)); err != nil {
		return err
	}
	r := &c.text.response
	if err := c.r.Read(r); err != nil {
		return err
	}
	switch r.Kind {
	case wire.TextStored:
		return nil
	case wire.TextClientError, wire.TextServerError, wire.TextError:
		return &ReplyError{Server: c.server, Line: r.Kind.String() + " " + string(r.Text), kind: ErrLogin}
	}
	return unexpected("a response to the login", r.AppendTo(nil))
}
