package client

import (
	"context"
	"time"

	"larder.example/larder/wire"
)

// Details holds metadata of an item beyond the fields of [Item].
type Details struct {
	// TTL is the remaining time to live; 0 means that the item does not expire.
	TTL time.Duration
	// Stale is true if the value was marked as out of date.
	Stale bool
	// Local is true if the client has read the item directly from the server's memory.
	Local bool
}

// GetDetails is like [Client.GetContext], and also returns the details of the item. Only the meta
// protocol provides them.
func (c *Client) GetDetails(ctx context.Context, key string) (*Item, Details, error) {
	o := operation{verb: verbGet, key: key, wantsDetails: true}
	err := c.do(ctx, &o)
	return o.item, o.details, err
}

// Swap is like [Client.CompareAndSwapContext], and also returns the new CasID of the item. Only the
// meta protocol provides it.
func (c *Client) Swap(ctx context.Context, item *Item) (casID uint64, err error) {
	o := operation{
		verb: verbCompareAndSwap, key: item.Key, value: item.Value, flags: item.Flags,
		exptime: item.Expiration, cas: item.CasID, wantsDetails: true,
	}
	err = c.do(ctx, &o)
	return o.number, err
}

// takeDetails parses the details of an item, or the new CasID of a stored item.
func (c *conn) takeDetails(o *operation) error {
	for letter, token := range c.meta.response.Flags.All() {
		switch letter {
		case wire.FlagStale:
			o.details.Stale = true
		case wire.FlagTTL:
			if string(token) == "-1" {
				continue
			}
			secs, ok := wire.ParseUint(token)
			if !ok || secs > 1<<32 {
				return unexpected("a time to live in seconds", c.meta.response.Flags)
			}
			// 0 means less than a second. It does not mean that the item never expires.
			o.details.TTL = time.Duration(max(secs, 1)) * time.Second
		case wire.FlagCAS:
			number, ok := wire.ParseUint(token)
			if !ok {
				return unexpected("a number after a flag", c.meta.response.Flags)
			}
			o.number = number
		}
	}
	return nil
}
