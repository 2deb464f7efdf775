package client

import (
	"context"
	"errors"
	"fmt"
	"net"

	"larder.example/larder/wire"
)

// The maximum size of the statistics of a server. memcached's largest group, the sizes of the
// items, is far smaller.
const statsBytesMax = 16 << 20

// Stats returns the statistics of all servers, by address and name. The group is the argument of
// the stats command: "" for the general statistics, or "settings", "items", "slabs", "conns",
// "reset" and others. If some servers fail, it returns the statistics of the others and the joined
// errors.
func (c *Client) Stats(ctx context.Context, group string) (map[string]map[string]string, error) {
	if len(group) > wire.MaxKeyBytes || group != "" && wire.NeedsBase64(withoutSpaces(group)) {
		return nil, fmt.Errorf("larder client: invalid group of statistics %.40q", group)
	}
	if c.invalid != nil {
		return nil, c.invalid
	}
	all := make(map[string]map[string]string)
	var errs []error
	err := c.selector.Each(func(addr net.Addr) error {
		o := operation{verb: verbStats, key: group}
		if err := c.doAt(ctx, addr, &o); err != nil {
			errs = append(errs, err)
		} else {
			all[addr.String()] = o.stats
		}
		return nil
	})
	return all, errors.Join(append(errs, err)...)
}

// withoutSpaces returns a group with its spaces replaced. A group may contain them, for example
// "detail on", although a key may not.
func withoutSpaces(group string) string {
	b := []byte(group)
	for i := range b {
		if b[i] == ' ' {
			b[i] = '_'
		}
	}
	return string(b)
}

func (o *operation) addStat(name, value []byte) error {
	if o.statsBytes += len(name) + len(value); o.statsBytes > statsBytesMax {
		return unexpected(fmt.Sprintf("statistics of at most %d bytes", statsBytesMax), string(name))
	}
	o.stats[string(name)] = string(value)
	return nil
}

func (c *conn) receiveTextStats(o *operation) error {
	o.stats, o.statsBytes = make(map[string]string), 0
	r := &c.text.response
	for {
		if err := c.r.Read(r); err != nil {
			return err
		}
		switch r.Kind {
		case wire.TextStat:
			if err := o.addStat(r.Stat()); err != nil {
				return err
			}
		case wire.TextEnd, wire.TextReset, wire.TextOK:
			return nil
		case wire.TextClientError, wire.TextServerError, wire.TextError:
			return c.replyError(r.Kind.String(), r.Text)
		default:
			return unexpected("a statistic, or the end of them", r.AppendTo(nil))
		}
	}
}

// receiveBinaryStats receives one response per statistic. A response without a key is the last.
func (c *conn) receiveBinaryStats(o *operation) error {
	o.stats, o.statsBytes = make(map[string]string), 0
	r := &c.binary.response
	for {
		switch err := c.receiveBinaryOne(o); {
		case err == ErrCacheMiss:
			return &ReplyError{Server: c.server, Line: "no such group of statistics", kind: ErrClientError}
		case err != nil:
			return err
		case len(r.Key) == 0:
			return nil
		}
		if err := o.addStat(r.Key, r.Value); err != nil {
			return err
		}
	}
}
