package client

import (
	"math"

	"larder.example/larder/wire"
)

// In the binary protocol every request has its own number in the opaque field. A response with
// another number is a protocol error, which closes the connection.

func (c *conn) sendBinary(o *operation) error {
	r := &c.binary.request
	c.opaque++
	*r = wire.BinaryRequest{Opcode: opcodeOf(o.verb), Opaque: c.opaque}
	switch o.verb {
	case verbPing, verbFlush:
	case verbStats:
		r.Key = append(c.key[:0], o.key...)
	default:
		if _, err := c.setKey(o.key); err != nil {
			return err
		}
		r.Key = c.key
	}
	var value []byte
	extras := c.flags[:0]
	switch o.verb {
	case verbGetAndTouch, verbTouch:
		extras = wire.AppendUint32Extras(extras, binaryExptime(o.exptime))
	case verbIncrement, verbDecrement:
		exptime := uint32(wire.ExptimeNoCreate)
		if o.creates {
			exptime = binaryExptime(o.exptime)
		}
		extras = wire.AppendCountExtras(extras, o.delta, o.initial, exptime)
	case verbAppend, verbPrepend:
		value = o.value
	case verbSet, verbAdd, verbReplace, verbCompareAndSwap:
		extras, value = wire.AppendStoreExtras(extras, o.flags, binaryExptime(o.exptime)), o.value
		if o.verb == verbCompareAndSwap {
			r.CAS = compareToken(o.cas)
		}
	}
	r.Extras, c.flags = extras, extras
	c.w.SetBuffer(r.AppendHeadTo(c.w.Buffer(), len(value)))
	c.w.Value(value, "")
	return nil
}

// compareToken returns the token that a request contains for a compare-and-swap. In the binary
// protocol 0 means that nothing is compared. compareToken therefore replaces it with the largest
// number, which is the token of no item.
func compareToken(cas uint64) uint64 {
	if cas == 0 {
		return math.MaxUint64
	}
	return cas
}

// binaryExptime encodes an expiration. The field is unsigned, so a negative expiration, which means
// expired, becomes a Unix time in 1970.
func binaryExptime(exptime int32) uint32 {
	const firstUnixTime = 30*24*60*60 + 1
	if exptime < 0 {
		return firstUnixTime
	}
	return uint32(exptime)
}

func opcodeOf(v verb) wire.Opcode {
	return [...]wire.Opcode{
		verbGet: wire.OpGet, verbGetAndTouch: wire.OpGAT, verbTouch: wire.OpTouch, verbSet: wire.OpSet, verbAdd: wire.OpAdd,
		verbReplace: wire.OpReplace, verbAppend: wire.OpAppend, verbPrepend: wire.OpPrepend,
		verbCompareAndSwap: wire.OpSet, verbDelete: wire.OpDelete, verbIncrement: wire.OpIncrement,
		verbDecrement: wire.OpDecrement, verbFlush: wire.OpFlush, verbPing: wire.OpNoOp,
		verbStats: wire.OpStat,
	}[v]
}

func (c *conn) receiveBinary(o *operation) error {
	if o.verb == verbStats {
		return c.receiveBinaryStats(o)
	}
	return c.receiveBinaryOne(o)
}

func (c *conn) receiveBinaryOne(o *operation) error {
	r := &c.binary.response
	if err := c.r.Read(r); err != nil {
		return err
	}
	if r.Opaque != c.opaque || r.Opcode != c.binary.request.Opcode {
		return unexpected("a response to the request", r.Opcode)
	}
	switch r.Status {
	case wire.StatusOK:
		return c.takeBinaryValue(o)
	case wire.StatusNotFound:
		if o.verb == verbReplace {
			return ErrNotStored
		}
		return ErrCacheMiss
	case wire.StatusExists:
		if o.verb == verbAdd {
			return ErrNotStored
		}
		return ErrCASConflict
	case wire.StatusNotStored:
		return ErrNotStored
	}
	return c.statusError()
}

func (c *conn) takeBinaryValue(o *operation) error {
	r := &c.binary.response
	var ok bool
	switch o.verb {
	case verbGet, verbGetAndTouch:
		var flags uint32
		if flags, ok = wire.ParseUint32Extras(r.Extras); !ok {
			return unexpected("4 bytes of flags", r.Extras)
		}
		o.item = &Item{Key: o.key, Value: c.takeValue(&r.Value), Flags: flags, CasID: r.CAS}
	case verbIncrement, verbDecrement:
		if o.number, ok = wire.ParseCount(r.Value); !ok {
			return unexpected("a number of 8 bytes", r.Value)
		}
	}
	return nil
}

// statusError returns the error for a status.
func (c *conn) statusError() error {
	r := &c.binary.response
	kind := ErrServerError
	switch r.Status {
	case wire.StatusInvalid, wire.StatusNonNumeric, wire.StatusUnknownCommand:
		kind = ErrClientError
	case wire.StatusAuthError, wire.StatusAuthContinue:
		kind = ErrLogin
	}
	line := string(r.Value)
	if line == "" {
		line = r.Status.String()
	}
	return &ReplyError{Server: c.server, Line: line, kind: kind}
}

// appendBinaryMany appends a quiet get per key, with the index of the key as opaque, and a no-op
// that ends the responses.
func (c *conn) appendBinaryMany(dst []byte, keys []string) ([]byte, error) {
	for i, key := range keys {
		if _, err := c.setKey(key); err != nil {
			return dst, err
		}
		r := wire.BinaryRequest{Opcode: wire.OpGetQ, Opaque: uint32(i), Key: c.key}
		dst = r.AppendTo(dst)
	}
	end := wire.BinaryRequest{Opcode: wire.OpNoOp, Opaque: uint32(len(keys))}
	return end.AppendTo(dst), nil
}

func (c *conn) receiveBinaryMany(keys []string, newItem func() *Item) error {
	r := &c.binary.response
	var failed error
	for next := 0; ; {
		if err := c.r.Read(r); err != nil {
			return err
		}
		number := int(r.Opaque)
		if number < next || number > len(keys) || (number == len(keys)) != (r.Opcode == wire.OpNoOp) {
			return unexpected("responses in the order of the requests", r.Opcode)
		}
		next = number + 1
		flags, ok := wire.ParseUint32Extras(r.Extras)
		switch {
		case r.Status != wire.StatusOK:
			failed = c.statusError()
		case r.Opcode == wire.OpNoOp:
			return failed
		case !ok:
			return unexpected("4 bytes of flags", r.Extras)
		default:
			*newItem() = Item{Key: keys[number], Value: c.takeManyValue(&r.Value), Flags: flags, CasID: r.CAS}
		}
	}
}

// loginBinary authenticates by SASL PLAIN.
func (c *conn) loginBinary(user, password string) error {
	c.binary.request = wire.BinaryRequest{
		Opcode: wire.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00" + user + "\x00" + password),
	}
	if _, err := c.Write(c.binary.request.AppendTo(nil)); err != nil {
		return err
	}
	r := &c.binary.response
	if err := c.r.Read(r); err != nil {
		return err
	}
	if r.Opcode != wire.OpSASLAuth {
		return unexpected("a response to the login", r.Opcode)
	}
	if r.Status != wire.StatusOK {
		err := c.statusError().(*ReplyError)
		err.kind = ErrLogin
		return err
	}
	return nil
}
