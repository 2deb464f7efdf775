// Package typed stores Go values in any cache of this module. A [Cache] has keys of one type and
// values of one type, and a [Codec] that converts values to bytes.
//
//	users := typed.New(cache.Store(), typed.Options[int, User]{Prefix: "user:"})
//	user, err := users.GetOrLoad(ctx, 7, loadUser)
//
// The store may belong to a cache in the process, to a cache that processes share, or to a server.
// To move from one to another, a program changes only the line that opens the cache.
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
	// KeyText returns the text that follows Prefix in the key of an item in the store. Different keys
	// must have different texts. By default the text of a string or a number is the string or the
	// number itself, a type with a method MarshalText uses that method, and the text of a struct or
	// an array consists of the texts of its parts: {"acme" 7}. The text of a value of an interface
	// begins with its type. A type with pointers has no text; [New] panics for it.
	KeyText func(K) string
	// Codec encodes the values; [JSON] by default.
	Codec Codec[V]
	// SkipUndecodable makes bytes that the codec cannot decode count as a miss. After a change of
	// type V, its items in the store are then loaded again. By default reading such bytes is a
	// [*CodecError].
	SkipUndecodable bool
	// TTL is the time to live of the items of [Cache.Set]; 0 is the default of the store.
	TTL time.Duration
	// LoadTimeout limits the duration of a load in a store without a method GetOrLoad; 30 seconds by
	// default. The stores of this module have that method, and their own limits.
	LoadTimeout time.Duration
}

// Cache is a view of a store with typed keys and values. All methods are safe for concurrent use if
// the methods of the codec are. A Cache need not be closed.
type Cache[K comparable, V any] struct {
	store   larder.Store
	options Options[K, V]
	keyText func(K) (string, error)
	// loads shares the loads of a store without a method GetOrLoad. It is nil for other stores.
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

// New returns a typed view of a store. It panics if keys of type K need an [Options.KeyText] and it
// is nil.
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
// [*CodecError] if the codec cannot decode the stored bytes.
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

// skips returns true for an error that counts as a miss because of [Options.SkipUndecodable].
func (c *Cache[K, V]) skips(err error) bool {
	var undecodable *CodecError
	return c.options.SkipUndecodable && errors.As(err, &undecodable) && undecodable.IsDecode
}

// GetMany returns the values of the keys that have one. It sends one request if the store has a
// method GetMany, as the stores of this module do. If some keys fail, it returns the error of the
// first of them, and the values of the other keys.
func (c *Cache[K, V]) GetMany(ctx context.Context, keys []K) (map[K]V, error) {
	found := make(map[K]V, len(keys))
	texts := make([]string, 0, len(keys))
	// The keys that have a text, in the same order as the texts.
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
		// The codec may keep the bytes, but they are valid only during the call.
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

// Touch sets the time to live of the item of a key, counted from now, and reports whether the item
// exists. A ttl of 0 means the default of the store, and a negative ttl deletes the item. The error
// matches [errors.ErrUnsupported] if the store has no method Touch. The stores of this module have
// it.
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

// SetFor is like [Cache.Set], with a time to live: 0 means the default of the store, and a negative
// ttl deletes the item.
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

// Delete removes the item of a key, if it exists.
func (c *Cache[K, V]) Delete(ctx context.Context, key K) error {
	text, err := c.key(key)
	if err != nil {
		return err
	}
	c.forget(text)
	return c.store.Delete(ctx, text)
}

// GetOrLoad returns the value of a key. If the key has no value, it calls load and stores the
// result. All goroutines that request a key at the same time share one load; each receives its own
// value, which it may change. See the method GetOrLoad of the underlying cache for the details; it
// may also refresh stale values. If the codec cannot decode the bytes in the store, the error is a
// [*CodecError], as in [Cache.Get]; with [Options.SkipUndecodable] GetOrLoad loads the value again.
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
	// The item has bytes that the codec cannot decode. Delete it, so that the next load stores its
	// result. If another caller has already replaced the item by a good one, that item is deleted,
	// which costs one unnecessary load.
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

// forget is called before a change of a key. It prevents a load of the key in flight from storing
// its result.
func (c *Cache[K, V]) forget(key string) {
	if c.loads != nil {
		c.loads.Forget(key)
	}
}
