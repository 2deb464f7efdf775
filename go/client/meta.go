package client

import (
	"bytes"
	"strconv"

	"larder.example/larder/wire"
)

// In the meta protocol the opaque token O of a response holds the index of its key. Misses have no
// response, and mn ends the responses.

func (c *conn) sendMeta(o *operation) error {
	r := &c.meta.request
	*r = wire.MetaRequest{Flags: c.flags[:0]}
	switch o.verb {
	case verbPing:
		r.Verb = wire.MetaNoOp
		c.w.SetBuffer(r.AppendTo(c.w.Buffer()))
		return nil
	case verbFlush, verbStats:
		return c.sendText(o)
	}
	inBase64, err := c.setKey(o.key)
	if err != nil {
		return err
	}
	r.Key = c.key
	if inBase64 {
		r.Flags = r.Flags.Add(wire.FlagBase64)
	}
	c.setMeta(o)
	c.flags = r.Flags
	c.w.SetBuffer(r.AppendHeadTo(c.w.Buffer(), len(o.value)))
	if r.Verb == wire.MetaSet {
		c.w.Value(o.value, "\r\n")
	}
	return nil
}

// setMeta sets the verb and the flags of the request for an operation.
func (c *conn) setMeta(o *operation) {
	r := &c.meta.request
	switch o.verb {
	case verbGet, verbGetAndTouch, verbTouch:
		r.Verb = wire.MetaGet
		if o.verb != verbTouch {
			r.Flags = r.Flags.Add(wire.FlagCAS).Add(wire.FlagFlags).Add(wire.FlagValue)
		}
		if o.wantsDetails {
			r.Flags = r.Flags.Add(wire.FlagTTL)
		}
		if o.verb != verbGet {
			r.Flags = r.Flags.AddInt(wire.FlagSetTTL, int64(o.exptime))
		}
	case verbDelete:
		r.Verb = wire.MetaDelete
	case verbIncrement, verbDecrement:
		r.Verb = wire.MetaArithmetic
		r.Flags = r.Flags.AddUint(wire.FlagDelta, o.delta).Add(wire.FlagValue)
		if o.creates {
			r.Flags = r.Flags.AddInt(wire.FlagVivify, int64(o.exptime)).AddUint(wire.FlagInitial, o.initial)
		}
		if o.verb == verbDecrement {
			r.Flags = r.Flags.AddToken(wire.FlagMode, []byte("D"))
		}
	default:
		r.Verb = wire.MetaSet
		c.setMetaSet(o)
	}
}

func (c *conn) setMetaSet(o *operation) {
	r := &c.meta.request
	if o.flags != 0 {
		r.Flags = r.Flags.AddUint(wire.FlagSetFlags, uint64(o.flags))
	}
	if o.exptime != 0 {
		r.Flags = r.Flags.AddInt(wire.FlagSetTTL, int64(o.exptime))
	}
	switch o.verb {
	case verbAdd:
		r.Flags = r.Flags.AddToken(wire.FlagMode, []byte("E"))
	case verbReplace:
		r.Flags = r.Flags.AddToken(wire.FlagMode, []byte("R"))
	case verbAppend:
		r.Flags = r.Flags.AddToken(wire.FlagMode, []byte("A"))
	case verbPrepend:
		r.Flags = r.Flags.AddToken(wire.FlagMode, []byte("P"))
	case verbCompareAndSwap:
		r.Flags = r.Flags.AddUint(wire.FlagCompare, o.cas)
		if o.wantsDetails {
			r.Flags = r.Flags.Add(wire.FlagCAS)
		}
	}
}

func (c *conn) receiveMeta(o *operation) error {
	if o.verb == verbFlush || o.verb == verbStats {
		return c.receiveText(o)
	}
	r := &c.meta.response
	if err := c.r.Read(r); err != nil {
		return err
	}
	switch r.Status {
	case wire.MetaHeader:
		if o.wantsDetails {
			return c.takeDetails(o)
		}
		if o.verb == verbTouch || o.verb == verbDelete || o.verb.stores() {
			return nil
		}
	case wire.MetaNoOpDone:
		if o.verb == verbPing {
			return nil
		}
	case wire.MetaValue:
		return c.takeMetaValue(o)
	case wire.MetaMiss, wire.MetaNotFound:
		if o.verb != verbPing {
			return ErrCacheMiss
		}
	case wire.MetaNotStored:
		return ErrNotStored
	case wire.MetaExists:
		return ErrCASConflict
	case wire.MetaError, wire.MetaClientError, wire.MetaServerError:
		return c.replyError(r.Status.String(), r.Text)
	}
	return unexpected("a response to the meta request", r.Status)
}

func (c *conn) takeMetaValue(o *operation) error {
	r := &c.meta.response
	switch o.verb {
	case verbGet, verbGetAndTouch:
		o.item = &Item{Key: o.key}
		_, err := metaItem(r, o.item, nil)
		o.item.Value = c.takeValue(&r.Value)
		if err != nil || !o.wantsDetails {
			return err
		}
		return c.takeDetails(o)
	case verbIncrement, verbDecrement:
		var err error
		o.number, err = strconv.ParseUint(string(bytes.TrimRight(r.Value, " ")), 10, 64)
		if err == nil {
			return nil
		}
	}
	return unexpected("a response to the meta request", r.Status)
}

// metaItem fills an item, without its value, and returns the index of its key. It parses all flags
// in one pass, because header lines dominate the cost of many small items.
func metaItem(r *wire.MetaResponse, item *Item, keys []string) (number int, err error) {
	number = -1
	for letter, token := range r.Flags.All() {
		v, ok := wire.ParseUint(token)
		switch letter {
		case wire.FlagFlags:
			item.Flags = uint32(v)
		case wire.FlagCAS:
			item.CasID = v
		case wire.FlagOpaque:
			number = int(min(v, uint64(len(keys))))
		default:
			// Ignore the marks for stale values: W (this client has the recache token), X (the value is
			// stale) and Z (another client has the token).
			continue
		}
		if !ok {
			return 0, unexpected("a number after a flag", r.Flags)
		}
	}
	return number, nil
}

func (c *conn) appendMetaMany(dst []byte, keys []string) ([]byte, error) {
	r := &c.meta.request
	for i, key := range keys {
		if len(key) > 0 && len(key) <= wire.MaxKeyBytes && !wire.NeedsBase64(key) {
			dst = append(append(append(dst, "mg "...), key...), " c f v q O"...)
			dst = append(strconv.AppendUint(dst, uint64(i), 10), "\r\n"...)
			continue
		}
		inBase64, err := c.setKey(key)
		if err != nil {
			return dst, err
		}
		r.Flags = append(c.flags[:0], "c f v q"...)
		if inBase64 {
			r.Flags = r.Flags.Add(wire.FlagBase64)
		}
		r.Flags = r.Flags.AddUint(wire.FlagOpaque, uint64(i))
		r.Verb, r.Key, c.flags = wire.MetaGet, c.key, r.Flags
		dst = r.AppendTo(dst)
	}
	return append(dst, "mn\r\n"...), nil
}

func (c *conn) receiveMetaMany(keys []string, newItem func() *Item) error {
	m := &c.meta.batch
	m.keys, m.newItem, m.next = keys, newItem, 0
	defer func() { m.keys, m.newItem = nil, nil }()
	r := &m.response
	var failed error
	for {
		if err := c.r.Read(m); err != nil {
			return err
		}
		if !m.isOne {
			continue
		}
		switch r.Status {
		case wire.MetaNoOpDone:
			return failed
		case wire.MetaValue:
			item := newItem()
			number, err := metaItem(r, item, keys)
			if err != nil || number < m.next || number >= len(keys) {
				return unexpected("responses in the order of the requests", r.Flags)
			}
			m.next, item.Key, item.Value = number+1, keys[number], c.takeManyValue(&r.Value)
		case wire.MetaClientError, wire.MetaServerError:
			failed = c.replyError(r.Status.String(), r.Text)
		default:
			return unexpected("a value, or the end of the values", r.Status)
		}
	}
}
