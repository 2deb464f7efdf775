package client

import "context"

// Get returns the item of a key, or ErrCacheMiss.
func (c *Client) Get(key string) (*Item, error) { return c.GetContext(context.Background(), key) }

// GetContext is like Get, but takes a context.
func (c *Client) GetContext(ctx context.Context, key string) (*Item, error) {
	o := operation{verb: verbGet, key: key}
	err := c.do(ctx, &o)
	return o.item, err
}

// GetAndTouch is like Get, and also sets the expiration of the item.
func (c *Client) GetAndTouch(key string, expiration int32) (*Item, error) {
	return c.GetAndTouchContext(context.Background(), key, expiration)
}

// GetAndTouchContext is like GetAndTouch, but takes a context.
func (c *Client) GetAndTouchContext(ctx context.Context, key string, expiration int32) (*Item, error) {
	o := operation{verb: verbGetAndTouch, key: key, exptime: expiration}
	err := c.do(ctx, &o)
	return o.item, err
}

// Touch sets the expiration of an item. It returns ErrCacheMiss if the item does not exist.
func (c *Client) Touch(key string, seconds int32) error {
	return c.TouchContext(context.Background(), key, seconds)
}

// TouchContext is like Touch, but takes a context.
func (c *Client) TouchContext(ctx context.Context, key string, seconds int32) error {
	return c.do(ctx, &operation{verb: verbTouch, key: key, exptime: seconds})
}

// Set stores an item unconditionally.
func (c *Client) Set(item *Item) error { return c.SetContext(context.Background(), item) }

// SetContext is like Set, but takes a context.
func (c *Client) SetContext(ctx context.Context, item *Item) error {
	return c.store(ctx, verbSet, item)
}

// Add stores an item if the key does not have one yet. Otherwise it returns ErrNotStored.
func (c *Client) Add(item *Item) error { return c.AddContext(context.Background(), item) }

// AddContext is like Add, but takes a context.
func (c *Client) AddContext(ctx context.Context, item *Item) error {
	return c.store(ctx, verbAdd, item)
}

// Replace stores an item if the key has one. Otherwise it returns ErrNotStored.
func (c *Client) Replace(item *Item) error { return c.ReplaceContext(context.Background(), item) }

// ReplaceContext is like Replace, but takes a context.
func (c *Client) ReplaceContext(ctx context.Context, item *Item) error {
	return c.store(ctx, verbReplace, item)
}

// Append adds a value to the end of the existing value, or returns ErrNotStored. Flags and
// expiration do not change.
func (c *Client) Append(item *Item) error { return c.AppendContext(context.Background(), item) }

// AppendContext is like Append, but takes a context.
func (c *Client) AppendContext(ctx context.Context, item *Item) error {
	return c.store(ctx, verbAppend, item)
}

// Prepend adds a value to the start of the existing value, or returns ErrNotStored. Flags and
// expiration do not change.
func (c *Client) Prepend(item *Item) error { return c.PrependContext(context.Background(), item) }

// PrependContext is like Prepend, but takes a context.
func (c *Client) PrependContext(ctx context.Context, item *Item) error {
	return c.store(ctx, verbPrepend, item)
}

// CompareAndSwap stores a modified item if it has not changed since it was read. Otherwise it
// returns ErrCASConflict, or ErrCacheMiss if the item does not exist.
func (c *Client) CompareAndSwap(item *Item) error {
	return c.CompareAndSwapContext(context.Background(), item)
}

// CompareAndSwapContext is like CompareAndSwap, but takes a context.
func (c *Client) CompareAndSwapContext(ctx context.Context, item *Item) error {
	return c.store(ctx, verbCompareAndSwap, item)
}

func (c *Client) store(ctx context.Context, v verb, item *Item) error {
	return c.do(ctx, &operation{
		verb: v, key: item.Key, value: item.Value, flags: item.Flags, exptime: item.Expiration, cas: item.CasID,
	})
}

// Delete deletes an item, or returns ErrCacheMiss.
func (c *Client) Delete(key string) error { return c.DeleteContext(context.Background(), key) }

// DeleteContext is like Delete, but takes a context.
func (c *Client) DeleteContext(ctx context.Context, key string) error {
	return c.do(ctx, &operation{verb: verbDelete, key: key})
}

// Increment adds delta to an item whose value is a decimal number, and returns the sum, which wraps
// at 2^64. It returns ErrCacheMiss if the item does not exist.
func (c *Client) Increment(key string, delta uint64) (uint64, error) {
	return c.IncrementContext(context.Background(), key, delta)
}

// IncrementContext is like Increment, but takes a context.
func (c *Client) IncrementContext(ctx context.Context, key string, delta uint64) (uint64, error) {
	return c.count(ctx, verbIncrement, key, delta)
}

// Decrement is like Increment, but subtracts delta. The number stops at 0.
func (c *Client) Decrement(key string, delta uint64) (uint64, error) {
	return c.DecrementContext(context.Background(), key, delta)
}

// DecrementContext is like Decrement, but takes a context.
func (c *Client) DecrementContext(ctx context.Context, key string, delta uint64) (uint64, error) {
	return c.count(ctx, verbDecrement, key, delta)
}

func (c *Client) count(ctx context.Context, v verb, key string, delta uint64) (uint64, error) {
	o := operation{verb: v, key: key, delta: delta}
	err := c.do(ctx, &o)
	return o.number, err
}

// FlushAll deletes all items of all servers.
func (c *Client) FlushAll() error { return c.FlushAllContext(context.Background()) }

// FlushAllContext is like FlushAll, but takes a context.
func (c *Client) FlushAllContext(ctx context.Context) error { return c.each(ctx, verbFlush) }

// DeleteAll is an alias of FlushAll.
func (c *Client) DeleteAll() error { return c.FlushAll() }

// DeleteAllContext is like DeleteAll, but takes a context.
func (c *Client) DeleteAllContext(ctx context.Context) error { return c.FlushAllContext(ctx) }

// Ping returns an error unless all servers respond.
func (c *Client) Ping() error { return c.PingContext(context.Background()) }

// PingContext is like Ping, but takes a context.
func (c *Client) PingContext(ctx context.Context) error { return c.each(ctx, verbPing) }
