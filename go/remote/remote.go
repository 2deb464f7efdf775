// Package remote provides the cache of a server, with the methods of a cache in the process:
//
//	cache, err := remote.Connect(ctx, "/run/larderd/larderd.sock")
//
// It is separate from package larder, so that a program with a cache in the process links neither
// network code, nor TLS, nor package larder/client.
package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"larder.example/larder"
	"larder.example/larder/client"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/flight"
	"larder.example/larder/wire"
)

// Cache is the cache of a larderd, or of a memcached that supports the meta protocol. If the server
// is a larderd on the same machine with --local-readers, the Cache reads hits directly from the
// server's memory, without a system call; all other requests go through the socket. Times to live
// are rounded up to whole seconds. A key with spaces or control characters has at most 186 bytes,
// because the protocol encodes it. All methods are safe for concurrent use. Close it after use. The
// zero Cache is a closed cache.
//
// When its context ends, a call returns immediately; the server may still have applied its change.
// A goroutine that waits for a response occupies no OS thread.
type Cache struct {
	client  *client.Client
	options Options
	loads   *flight.Group
	closed  atomic.Bool
}

// Options configure a [Cache]. The zero value of each field is its default.
type Options struct {
	// Timeout limits the wait for a response, in addition to the context of a call; 5 seconds by
	// default.
	Timeout time.Duration
	// StaleFor, RefreshBefore and LoadTimeout have the same meaning for [Cache.GetOrLoad] as the
	// fields of [larder.Options] have for [larder.Cache.GetOrLoad]. A StaleFor of more than a year
	// counts as a year.
	StaleFor, RefreshBefore, LoadTimeout time.Duration
}

const (
	timeoutDefault     = 5 * time.Second
	loadTimeoutDefault = 30 * time.Second
	// connectionsMax is the maximum number of open connections to a server. When all are in use, a
	// call waits for a free connection.
	connectionsMax = 64
	// staleMax keeps the sum of StaleFor and a time to live within the range of the protocol's times,
	// which end in the year 2038.
	staleMax = 365 * 24 * time.Hour
)

// Connect returns the cache of the server at an address: the path of a unix socket, which contains
// a slash, or "host:port". It fails if the server does not respond.
func Connect(ctx context.Context, address string) (*Cache, error) {
	return ConnectWithOptions(ctx, address, Options{})
}

// ConnectWithOptions is like [Connect], with options.
func ConnectWithOptions(ctx context.Context, address string, options Options) (*Cache, error) {
	if options.Timeout <= 0 {
		options.Timeout = timeoutDefault
	}
	if options.LoadTimeout <= 0 {
		options.LoadTimeout = loadTimeoutDefault
	}
	if options.StaleFor < 0 || options.RefreshBefore < 0 {
		return nil, fmt.Errorf("%w: StaleFor is %v and RefreshBefore %v, expected positive durations, or 0",
			larder.ErrInvalid, options.StaleFor, options.RefreshBefore)
	}
	options.StaleFor = min(options.StaleFor, staleMax)
	if strings.Contains(address, "/") {
		path, err := filepath.Abs(address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		address = path
	}
	server, err := client.NewWithOptions(client.Options{
		Servers: []string{address}, Protocol: client.ProtocolMeta, Timeout: options.Timeout,
		BackoffMin: -1, MaxIdleConns: connectionsMax, MaxConns: connectionsMax,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: expected host:port or the path of a unix socket, got %q: %w",
			larder.ErrInvalid, address, err)
	}
	r := &Cache{client: server, options: options}
	r.loads = flight.NewGroup(loading{r}, flight.Config{
		Timeout: options.LoadTimeout, Waits: true, ErrTimeout: larder.ErrLoadTimeout,
		ErrClosed: larder.ErrClosed, ErrRecursive: larder.ErrRecursive,
		Panicked: func(value any, stack []byte) error { return &larder.PanicError{Value: value, Stack: stack} },
	})
	if err := r.done(ctx, server.PingContext(ctx)); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the connections. It does not wait: a call in progress ends with its response, its
// context or its timeout. Later calls and the callers of loads in progress get [larder.ErrClosed].
func (r *Cache) Close() error {
	if r.closed.Store(true); r.client == nil {
		return nil
	}
	r.loads.Close()
	return r.client.Close()
}

// isClosed returns true after Close, and for the zero Cache.
func (r *Cache) isClosed() bool { return r.closed.Load() || r.client == nil }

// LocalReads returns the number of values that the Cache has read directly from the server's
// memory.
func (r *Cache) LocalReads() uint64 {
	if r.client == nil {
		return 0
	}
	return r.client.LocalReads()
}

// Get returns the value of a key, or [larder.ErrNotFound].
func (r *Cache) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := r.GetItem(ctx, key)
	return value, err
}

// GetItem is like [Cache.Get] and also returns the metadata of the item.
func (r *Cache) GetItem(ctx context.Context, key string) ([]byte, larder.Item, error) {
	if r.isClosed() {
		return nil, larder.Item{}, larder.ErrClosed
	}
	if !isRemoteKey(key) {
		return nil, larder.Item{}, larder.ErrNotFound
	}
	found, details, err := r.client.GetDetails(ctx, key)
	if err = r.done(ctx, err); err != nil {
		return nil, larder.Item{}, err
	}
	value := found.Value
	if value == nil {
		value = []byte{}
	}
	return value, larder.Item{
		CAS: found.CasID, TTL: details.TTL, Flags: found.Flags, Stale: details.Stale, Local: details.Local,
	}, nil
}

// GetMany calls visit for each key that has an item, in the order of the keys. The argument at is
// the position of the key. GetMany sends one request for all keys that it does not find in the
// server's memory.
func (r *Cache) GetMany(ctx context.Context, keys []string, visit func(at int, value []byte)) error {
	if r.isClosed() {
		return larder.ErrClosed
	}
	found, err := r.client.GetMultiContext(ctx, slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return !isRemoteKey(key)
	}))
	if err = r.done(ctx, err); err != nil {
		return err
	}
	for at, key := range keys {
		if item := found[key]; item != nil {
			visit(at, item.Value)
		}
	}
	return nil
}

// Set stores a value and replaces the item of the key. The item lives for ttl: 0 and
// [larder.Forever] mean that it does not expire, and a negative ttl deletes it.
func (r *Cache) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.SetItem(ctx, key, value, larder.Item{TTL: ttl})
}

// SetItem is like [Cache.Set], but also stores metadata: it stores item.Flags, and the item lives
// for item.TTL. If item.CAS is not 0, SetItem replaces only the item with that token, and otherwise
// returns [larder.ErrChanged].
func (r *Cache) SetItem(ctx context.Context, key string, value []byte, item larder.Item) error {
	if item.CAS != 0 {
		_, err := r.swap(ctx, key, value, item)
		return err
	}
	if item.TTL < 0 {
		_, err := r.Delete(ctx, key)
		return err
	}
	_, err := r.store(ctx, r.client.SetContext, key, value, item)
	return err
}

// Add stores a value if the key has no item, and reports whether it did. With a negative ttl it
// stores nothing.
func (r *Cache) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	if ttl < 0 {
		return false, r.usable(key)
	}
	return r.store(ctx, r.client.AddContext, key, value, larder.Item{TTL: ttl})
}

// Replace stores a value if the key has an item, and reports whether it did. With a negative ttl it
// deletes the item.
func (r *Cache) Replace(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	if ttl < 0 {
		return r.Delete(ctx, key)
	}
	return r.store(ctx, r.client.ReplaceContext, key, value, larder.Item{TTL: ttl})
}

// Append adds bytes to the end of a value and keeps its time to live. It reports whether the key
// has an item.
func (r *Cache) Append(ctx context.Context, key string, part []byte) (bool, error) {
	return r.store(ctx, r.client.AppendContext, key, part, larder.Item{})
}

// Prepend adds bytes to the start of a value and keeps its time to live. It reports whether the key
// has an item.
func (r *Cache) Prepend(ctx context.Context, key string, part []byte) (bool, error) {
	return r.store(ctx, r.client.PrependContext, key, part, larder.Item{})
}

// CompareAndSwap replaces the value of the item that has this token ([Item.CAS]) and returns the
// new token. If the item has another token, the error is [larder.ErrChanged]. If the key has no
// item, it is [larder.ErrNotFound], and for a negative ttl [larder.ErrInvalid].
func (r *Cache) CompareAndSwap(
	ctx context.Context, key string, value []byte, ttl time.Duration, cas uint64,
) (uint64, error) {
	return r.swap(ctx, key, value, larder.Item{CAS: cas, TTL: ttl})
}

func (r *Cache) swap(ctx context.Context, key string, value []byte, item larder.Item) (uint64, error) {
	if item.TTL < 0 {
		return 0, fmt.Errorf("%w: a compare-and-swap with a negative ttl: use Delete", larder.ErrInvalid)
	}
	if r.isClosed() {
		return 0, larder.ErrClosed
	}
	r.loads.Forget(key)
	return r.swapLoaded(ctx, key, value, item)
}

// swapLoaded is like swap, for the result of a load.
func (r *Cache) swapLoaded(ctx context.Context, key string, value []byte, item larder.Item) (uint64, error) {
	next, err := r.client.Swap(ctx, &client.Item{
		Key: key, Value: value, Flags: item.Flags, Expiration: expiration(item.TTL), CasID: item.CAS,
	})
	return next, r.done(ctx, err)
}

// Delete removes an item, and reports whether it existed. For an invalid key it returns false.
func (r *Cache) Delete(ctx context.Context, key string) (bool, error) {
	if r.isClosed() {
		return false, larder.ErrClosed
	}
	if !isRemoteKey(key) {
		return false, nil
	}
	r.loads.Forget(key)
	return r.condition(ctx, r.client.DeleteContext(ctx, key))
}

// Touch sets the time to live of an item, counted from now, and reports whether the item exists. A
// negative ttl deletes the item.
func (r *Cache) Touch(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if ttl < 0 {
		return r.Delete(ctx, key)
	}
	if r.isClosed() {
		return false, larder.ErrClosed
	}
	if !isRemoteKey(key) {
		return false, nil
	}
	return r.condition(ctx, r.client.TouchContext(ctx, key, expiration(ttl)))
}

// Incr adds delta to a counter, an item whose value is a decimal number, and returns the result.
// The counter wraps at 2^64 and keeps its time to live. If the key has no item, the error is
// [larder.ErrNotFound]; [Cache.Add] creates a counter.
func (r *Cache) Incr(ctx context.Context, key string, delta uint64) (uint64, error) {
	return r.count(ctx, r.client.IncrementContext, key, delta)
}

// Decr is like [Cache.Incr], but subtracts delta. The counter stops at 0.
func (r *Cache) Decr(ctx context.Context, key string, delta uint64) (uint64, error) {
	return r.count(ctx, r.client.DecrementContext, key, delta)
}

func (r *Cache) count(
	ctx context.Context, op func(context.Context, string, uint64) (uint64, error), key string, delta uint64,
) (uint64, error) {
	if r.isClosed() {
		return 0, larder.ErrClosed
	}
	r.loads.Forget(key)
	number, err := op(ctx, key, delta)
	return number, r.done(ctx, err)
}

// Clear removes all items of the server.
func (r *Cache) Clear(ctx context.Context) error {
	if r.isClosed() {
		return larder.ErrClosed
	}
	r.loads.ForgetPrefix("")
	return r.done(ctx, r.client.FlushAllContext(ctx))
}

// isRemoteKey returns true if the protocol can transmit a key. The protocol encodes some keys, in 4
// bytes for each 3.
func isRemoteKey(key string) bool {
	return len(key) > 0 && len(key) <= engine.KeyBytesMax &&
		(len(key) <= engine.KeyBytesMax/4*3 || !wire.NeedsBase64(key))
}

// usable returns the error that a write returns without sending a request: an error for a closed
// cache or an invalid key, otherwise nil.
func (r *Cache) usable(key string) error {
	switch {
	case r.isClosed():
		return larder.ErrClosed
	case !isRemoteKey(key):
		return fmt.Errorf("%w: %w", larder.ErrKey, client.ErrMalformedKey)
	}
	return nil
}

// store calls one of the client's store methods, and reports whether its condition holds.
func (r *Cache) store(
	ctx context.Context, op func(context.Context, *client.Item) error, key string, value []byte, item larder.Item,
) (bool, error) {
	if r.isClosed() {
		return false, larder.ErrClosed
	}
	r.loads.Forget(key)
	return r.storeLoaded(ctx, op, key, value, item)
}

// storeLoaded is like store, for the result of a load.
func (r *Cache) storeLoaded(
	ctx context.Context, op func(context.Context, *client.Item) error, key string, value []byte, item larder.Item,
) (bool, error) {
	return r.condition(ctx, op(ctx, &client.Item{
		Key: key, Value: value, Flags: item.Flags, Expiration: expiration(item.TTL),
	}))
}

// condition converts the error of a conditional change. It returns false if the condition does not
// hold.
func (r *Cache) condition(ctx context.Context, err error) (bool, error) {
	if errors.Is(err, client.ErrCacheMiss) || errors.Is(err, client.ErrNotStored) {
		return false, r.done(ctx, nil)
	}
	return err == nil, r.done(ctx, err)
}

// done ends a call. It converts an error of package client to an error of this package.
func (r *Cache) done(ctx context.Context, err error) error {
	if r.isClosed() {
		// If Close ran during the call, the call may have opened a connection afterwards. Close it.
		_ = r.client.Close()
	}
	var reply *client.ReplyError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrCacheMiss):
		return larder.ErrNotFound
	case errors.Is(err, client.ErrCASConflict):
		return larder.ErrChanged
	case errors.Is(err, client.ErrMalformedKey):
		return fmt.Errorf("%w: %w", larder.ErrKey, err)
	case errors.As(err, &reply):
		return fmt.Errorf("%w: %w", refusal(reply.Line), err)
	case ctx.Err() != nil:
		return fmt.Errorf("larder: no response from the server: %w", ctx.Err())
	case errors.Is(err, client.ErrProtocol):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// refusal returns the error of this package that matches an error line of memcached.
func refusal(line string) error {
	for words, meaning := range map[string]error{
		"too large": larder.ErrTooLarge, "out of memory": larder.ErrNoMemory, "non-numeric": larder.ErrNotANumber,
	} {
		if strings.Contains(line, words) {
			return meaning
		}
	}
	return ErrRefused
}

// expiration converts a time to live to the protocol's seconds: beyond 30 days they are a Unix
// time. The client's field ends in the year 2038.
func expiration(ttl time.Duration) int32 {
	const relativeMax = 30 * 24 * time.Hour
	switch {
	case ttl == larder.Forever:
		return 0
	case ttl <= relativeMax:
		return int32(whole(ttl) / time.Second)
	}
	return int32(min(time.Now().Add(ttl).Unix()+1, math.MaxInt32))
}

// whole rounds a duration up to whole seconds. It returns at most a quarter of the longest
// duration, so that sums do not overflow.
func whole(d time.Duration) time.Duration {
	d = min(d, larder.Forever/4)
	if rest := d % time.Second; rest > 0 {
		return d - rest + time.Second
	}
	return d
}
