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

// If other clients create and delete a key this often during an operation, the operation fails with
// a conflict.
const countTriesMax = 8

// receiveTextCount creates an absent number by an add, because the text protocol has no initial
// value. If another client creates it first, it counts again.
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
// since the read, Update repeats this, until it has stored the item or ctx ends.
//
// The function change receives the item. If found is false, the key has no item, and the argument
// has only a key. change sets Value, Flags and Expiration; the read does not set Expiration. A
// negative Expiration deletes the item. If change returns an error, Update returns it and stores
// nothing.
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

// pauseAfter waits for a random time that grows with the number of conflicts, so that one of many
// clients succeeds.
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
