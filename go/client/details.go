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
	// Local is true if the item was read in the server's memory.
	Local bool
}

// GetDetails is [Client.GetContext] and returns the details of the item, which only the meta
// protocol provides.
func (c *Client) GetDetails(ctx context.Context, key string) (*Item, Details, error) {
	o := operation{verb: verbGet, key: key, wantsDetails: true}
	err := c.do(ctx, &o)
	return o.item, o.details, err
}

// Swap is [Client.CompareAndSwapContext] and returns the item's new CasID, which only the meta
// protocol provides.
func (c *Client) Swap(ctx context.Context, item *Item) (casID uint64, err error) {
	o := operation{
		verb: verbCompareAndSwap, key: item.Key, value: item.Value, flags: item.Flags,
		exptime: item.Expiration, cas: item.CasID, wantsDetails: true,
	}
	err = c.do(ctx, &o)
	return o.number, err
}

// takeDetails parses the details of an item, or the new CasID of a stored one.
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
			// 0 is less than a second, not the absence of an expiry.
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
