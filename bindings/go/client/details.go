package client

import (
	"context"
	"time"

	"larder/client/wire"
)

// Details are what is known of an item beside what [Item] has.
type Details struct {
	// TTL is how long the item has to live; 0 is for ever.
	TTL time.Duration
	// Stale says that the value was marked as out of date.
	Stale bool
	// Local says that the item was read in the server's memory.
	Local bool
}

// GetDetails is [Client.GetContext] with the details of the item, which only the meta protocol tells.
func (c *Client) GetDetails(ctx context.Context, key string) (*Item, Details, error) {
	o := operation{verb: verbGet, key: key, wantsDetails: true}
	err := c.do(ctx, &o)
	return o.item, o.details, err
}

// Swap is [Client.CompareAndSwapContext], and returns the item's new CasID, which only the meta protocol tells.
func (c *Client) Swap(ctx context.Context, item *Item) (casID uint64, err error) {
	o := operation{
		verb: verbCompareAndSwap, key: item.Key, value: item.Value, flags: item.Flags,
		exptime: item.Expiration, cas: item.CasID, wantsDetails: true,
	}
	err = c.do(ctx, &o)
	return o.number, err
}

// takeDetails reads the details of an item, or the new CasID of one that was stored.
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
				return unexpected("seconds to live", c.meta.response.Flags)
			}
			// Less than a second is left of one that is still there.
			o.details.TTL = time.Duration(max(secs, 1)) * time.Second
		case wire.FlagCAS:
			number, ok := wire.ParseUint(token)
			if !ok {
				return unexpected("a number behind a flag", c.meta.response.Flags)
			}
			o.number = number
		}
	}
	return nil
}
