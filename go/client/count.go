package client

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

// Incr is like [Client.IncrementContext], but if the key has no item, it stores initial with an
// expiration and returns initial. The expiration of an existing item does not change.
func (c *Client) Incr(ctx context.Context, key string, delta, initial uint64, expiration int32) (uint64, error) {
	return c.countFrom(ctx, verbIncrement, key, delta, initial, expiration)
}

// Decr is like [Client.DecrementContext], and stores initial as Incr does.
func (c *Client) Decr(ctx context.Context, key string, delta, initial uint64, expiration int32) (uint64, error) {
	return c.countFrom(ctx, verbDecrement, key, delta, initial, expiration)
}

func (c *Client) countFrom(ctx context.Context, v verb, key string, delta, initial uint64, expiration int32) (uint64, error) {
	o := operation{verb: v, key: key, delta: delta, initial: initial, exptime: expiration, creates: true}
	err := c.do(ctx, &o)
	return o.number, err
}

// countTriesMax limits the attempts to create a counter. An attempt fails if another client creates
// the key between the increment, which has found no item, and the add. The increment is then sent
// again, and finds no item only if a client has deleted the key. After countTriesMax such attempts
// the operation fails.
const countTriesMax = 8

// receiveTextCount receives the response to incr or decr. If the key has no item, it creates the
// number by an add, because these commands of the text protocol have no initial value. If another
// client creates the number first, it sends the incr or decr again.
func (c *conn) receiveTextCount(o *operation) error {
	count := *o
	count.creates = false
	add := operation{
		verb: verbAdd, key: o.key, exptime: o.exptime, value: strconv.AppendUint(nil, o.initial, 10),
	}
	err := c.receiveTextOne(&count)
	for range countTriesMax {
		if err != ErrCacheMiss {
			o.number = count.number
			return err
		}
		if err = c.do(&add); err != ErrNotStored {
			o.number = o.initial
			return err
		}
		err = c.do(&count)
	}
	o.number = count.number
	return err
}

// Update reads an item, calls change and stores the result. If another client has changed the item
// since the read, Update starts over with the new item, until it has stored its result or ctx ends.
//
// The function change receives the item. If found is false, the key has no item, and only the field
// Key is set. change sets Value and Flags. It must also set Expiration unless the new item should
// never expire, because a read does not return the expiration. A negative Expiration deletes the
// item. If change returns an error, Update returns it and stores nothing.
func (c *Client) Update(ctx context.Context, key string, change func(item *Item, found bool) error) error {
	for tries := 0; ; tries++ {
		item, err := c.GetContext(ctx, key)
		found := err == nil
		if err == ErrCacheMiss {
			item, err = &Item{Key: key}, nil
		}
		if err != nil {
			return err
		}
		cas := item.CasID
		if err := change(item, found); err != nil {
			return err
		}
		item.Key, item.CasID = key, cas
		if found {
			err = c.CompareAndSwapContext(ctx, item)
		} else {
			err = c.AddContext(ctx, item)
		}
		if err != ErrCASConflict && err != ErrNotStored && err != ErrCacheMiss {
			return err
		}
		if err := pauseAfter(ctx, tries); err != nil {
			return err
		}
	}
}

// pauseAfter waits for a random time after a conflict with another client, so that clients that
// change the same item do not all try again at the same time. The time grows with the number of
// conflicts. The first two attempts are repeated immediately.
func pauseAfter(ctx context.Context, tries int) error {
	if tries < 2 {
		return contextError(ctx)
	}
	most := 100 * time.Microsecond << min(tries, 8)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
