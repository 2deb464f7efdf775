// Package typed keeps Go values in any cache of this module: a [Cache] has keys and values of one
// type each, and a [Codec] that turns values into bytes.
//
//	users := typed.New(cache.Store(), typed.Options[int, User]{Prefix: "user:"})
//	user, err := users.GetOrLoad(ctx, 7, loadUser)
//
// The store is that of a cache in the process, of one that processes share, or of a server: the
// program changes the line that opens it, and nothing else.
package typed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/flight"
)

// Options configure a cache. The zero value of each field is its default.
type Options[K comparable, V any] struct {
	// Prefix begins all keys of the cache in the store, so that several caches can share a store.
	Prefix string
	// KeyText returns the rest of the key of an item in the store. Two keys have different texts. By
	// default a string or a number is its own text, a type with a method MarshalText has the text
	// of that, and structs and arrays have those of their parts: {"acme" 7}. The text of a value of
	// an interface begins with its type. A type with pointers has no text: [New] panics.
	KeyText func(K) string
	// Codec encodes the values; [JSON] by default.
	Codec Codec[V]
	// SkipUndecodable takes bytes that the codec does not decode for no value: after a change of type
	// V, its items in the store are loaded anew. By default a read of them is a [*CodecError].
	SkipUndecodable bool
	// TTL is the time to live of the items of [Cache.Set]; 0 is the default of the store.
	TTL time.Duration
	// LoadTimeout limits the duration of a load in a store without a method GetOrLoad; 30 seconds by
	// default. The stores of this module have that method, and limits of their own.
	LoadTimeout time.Duration
}

// Cache is a view of a store with typed keys and values. All methods are safe for concurrent use if
// those of the codec are. It needs no close.
type Cache[K comparable, V any] struct {
	store   larder.Store
	options Options[K, V]
	keyText func(K) (string, error)
	// Loads for a store that has none of its own; otherwise nil.
	loads *flight.Group
}

// Loader returns the value of a key that is not in the cache, and its time to live, to which the
// rules of the store apply.
type Loader[K comparable, V any] func(ctx context.Context, key K) (value V, ttl time.Duration, err error)

// loader is a store that loads values.
type loader interface {
	GetOrLoad(ctx context.Context, key string, loader larder.Loader) ([]byte, error)
}

const loadTimeoutDefault = 30 * time.Second

// New returns a typed view of a store. It panics if keys of type K need an [Options.KeyText]
// and it is nil.
func New[K comparable, V any](store larder.Store, options Options[K, V]) *Cache[K, V] {
	text := func(key K) (string, error) { return options.KeyText(key), nil }
	if options.KeyText == nil {
		text = keyText[K]()
	}
	if options.Codec == nil {
		options.Codec = JSON[V]()
	}
	if options.LoadTimeout <= 0 {
		options.LoadTimeout = loadTimeoutDefault
	}
	c := &Cache[K, V]{store: store, options: options, keyText: text}
	if _, hasLoads := store.(loader); !hasLoads {
		c.loads = flight.NewGroup(loading{store}, flight.Config{
			Timeout: options.LoadTimeout, Waits: true, ErrTimeout: larder.ErrLoadTimeout,
			ErrClosed: larder.ErrClosed, ErrRecursive: larder.ErrRecursive,
			Panicked: func(value any, stack []byte) error { return &larder.PanicError{Value: value, Stack: stack} },
		})
	}
	return c
}

// key returns the key of an item in the store. The error matches [larder.ErrKey]: the value of an
// interface may have no text.
func (c *Cache[K, V]) key(key K) (string, error) {
	text, err := c.keyText(key)
	return c.options.Prefix + text, err
}

// Get returns the value of a key, or an error that matches [larder.ErrNotFound]. The error is a
// [*CodecError] if the stored bytes are not those of a value.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (value V, err error) {
	text, err := c.key(key)
	if err != nil {
		return value, err
	}
	encoded, err := c.store.Get(ctx, text)
	if err != nil {
		return value, err
	}
	if value, err = c.decode(text, encoded); c.skips(err) {
		err = larder.ErrNotFound
	}
	return value, err
}

// skips returns true for the error of bytes that count as a miss.
func (c *Cache[K, V]) skips(err error) bool {
	var undecodable *CodecError
	return c.options.SkipUndecodable && errors.As(err, &undecodable) && undecodable.IsDecode
}

// GetMany returns the values of those keys that have one. It sends one request where the store has
// a method GetMany, as those of this module have. The error is that of the first key that failed;
// the other values are returned nevertheless.
func (c *Cache[K, V]) GetMany(ctx context.Context, keys []K) (map[K]V, error) {
	found := make(map[K]V, len(keys))
	texts := make([]string, 0, len(keys))
	// The keys that have a text, in its order.
	asked := make([]K, 0, len(keys))
	var first error
	for _, key := range keys {
		text, err := c.key(key)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		texts, asked = append(texts, text), append(asked, key)
	}
	err := c.getMany(ctx, texts, func(at int, encoded []byte) {
		value, err := c.decode(texts[at], encoded)
		switch {
		case err == nil:
			found[asked[at]] = value
		case !c.skips(err):
			first = cmp.Or(first, err)
		}
	})
	return found, cmp.Or(first, err)
}

func (c *Cache[K, V]) getMany(ctx context.Context, keys []string, visit func(at int, encoded []byte)) (first error) {
	if store, isMany := c.store.(larder.ManyStore); isMany {
		// A codec may keep the bytes, which a store lends only.
		return store.GetMany(ctx, keys, func(at int, encoded []byte) { visit(at, bytes.Clone(encoded)) })
	}
	for at, key := range keys {
		switch encoded, err := c.store.Get(ctx, key); {
		case err == nil:
			visit(at, encoded)
		case !isNotFound(err):
			first = cmp.Or(first, err)
		}
	}
	return first
}

// Touch sets the time to live of the item of a key, counted from now, and reports whether there is
// one: 0 means the default of the store, and a negative one deletes the item. The error matches
// [errors.ErrUnsupported] where the store has no method Touch, as those of this module have.
func (c *Cache[K, V]) Touch(ctx context.Context, key K, ttl time.Duration) (bool, error) {
	text, err := c.key(key)
	if err != nil {
		return false, err
	}
	store, isMany := c.store.(larder.ManyStore)
	if !isMany {
		return false, fmt.Errorf("typed: the store %T has no method Touch: %w", c.store, errors.ErrUnsupported)
	}
	return store.Touch(ctx, text, ttl)
}

// Set stores a value, which lives for [Options.TTL].
func (c *Cache[K, V]) Set(ctx context.Context, key K, value V) error {
	return c.SetFor(ctx, key, value, c.options.TTL)
}

// SetFor is [Cache.Set] with a time to live: 0 means the default of the store, and a negative one
// deletes the item.
func (c *Cache[K, V]) SetFor(ctx context.Context, key K, value V, ttl time.Duration) error {
	text, err := c.key(key)
	if err != nil {
		return err
	}
	encoded, err := c.encode(text, value)
	if err != nil {
		return err
	}
	c.forget(text)
	return c.store.Set(ctx, text, encoded, ttl)
}

// Delete removes the item of a key, if there is one.
func (c *Cache[K, V]) Delete(ctx context.Context, key K) error {
	text, err := c.key(key)
	if err != nil {
		return err
	}
	c.forget(text)
	return c.store.Delete(ctx, text)
}

// GetOrLoad returns the value of a key. If there is none, it calls load and stores the result. All
// goroutines that request a key at the same time share one load; each gets a value of its own,
// which it may change. See the method GetOrLoad of the cache behind the store, which adds refreshes
// of stale values. Bytes in the store that are not those of a value are a [*CodecError], as in
// [Cache.Get], unless [Options.SkipUndecodable] has them loaded anew.
func (c *Cache[K, V]) GetOrLoad(ctx context.Context, key K, load Loader[K, V]) (value V, err error) {
	text, err := c.key(key)
	if err != nil {
		return value, err
	}
	encodedLoad := func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		loaded, ttl, err := load(ctx, key)
		if err != nil {
			return nil, 0, err
		}
		encoded, err := c.encode(text, loaded)
		return encoded, ttl, err
	}
	value, err = c.loadAndDecode(ctx, text, encodedLoad)
	if !c.skips(err) {
		return value, err
	}
	// Without the item the next load stores its result. Another caller may have stored it already:
	// then one load too many takes place.
	if err := c.store.Delete(ctx, text); err != nil {
		return value, err
	}
	return c.loadAndDecode(ctx, text, encodedLoad)
}

func (c *Cache[K, V]) loadAndDecode(ctx context.Context, key string, load larder.Loader) (value V, err error) {
	encoded, err := c.load(ctx, key, load)
	if err != nil {
		return value, err
	}
	return c.decode(key, encoded)
}

func (c *Cache[K, V]) load(ctx context.Context, key string, load larder.Loader) ([]byte, error) {
	if store, hasLoads := c.store.(loader); hasLoads {
		return store.GetOrLoad(ctx, key, load)
	}
	if encoded, err := c.store.Get(ctx, key); !isNotFound(err) {
		return encoded, err
	}
	return c.loads.Load(ctx, key, flight.Loader(load))
}

// forget keeps the load in flight of a key that is about to change from storing its result.
func (c *Cache[K, V]) forget(key string) {
	if c.loads != nil {
		c.loads.Forget(key)
	}
}
