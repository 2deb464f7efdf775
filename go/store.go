package larder

import (
	"context"
	"time"
)

// Store is the interface that the caches of this module have in common. [Cache.Store] returns one,
// and so do the caches of larder/remote and larder/shared. All three also implement [ManyStore],
// and have a method GetOrLoad with the parameters of [Cache.GetOrLoad]; package larder/typed uses
// these methods.
type Store interface {
	// Get returns a copy of the value of a key, or an error that matches [ErrNotFound].
	Get(ctx context.Context, key string) ([]byte, error)
	// Set stores a value with a time to live: 0 means the default of the cache, and a negative ttl
	// deletes the item.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Delete removes the item of a key, if it exists.
	Delete(ctx context.Context, key string) error
}

// ManyStore is a [Store] that can read many keys in one call, and set times to live.
type ManyStore interface {
	Store
	// GetMany calls visit for each key that has an item, in the order of the keys. The argument at is
	// the position of the key. The slice is valid during the call of visit and must not be written.
	GetMany(ctx context.Context, keys []string, visit func(at int, value []byte)) error
	// Touch sets the time to live of an item, counted from now, and reports whether the item exists.
	Touch(ctx context.Context, key string, ttl time.Duration) (bool, error)
}

// Store returns the cache as a [Store]. Its calls do not wait, and only GetOrLoad uses the context.
func (c *Cache) Store() Store { return localStore{c} }

type localStore struct{ cache *Cache }

func (s localStore) Get(_ context.Context, key string) ([]byte, error) {
	value, ok := s.cache.Get(key)
	if ok {
		return value, nil
	}
	if err := s.cache.openError(); err != nil {
		return nil, err
	}
	return nil, ErrNotFound
}

func (s localStore) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	return s.cache.Set(key, value, ttl)
}

func (s localStore) Delete(_ context.Context, key string) error {
	_, err := s.cache.Delete(key)
	return err
}

func (s localStore) GetMany(_ context.Context, keys []string, visit func(at int, value []byte)) error {
	s.cache.GetMany(keys, visit)
	return s.cache.openError()
}

func (s localStore) Touch(_ context.Context, key string, ttl time.Duration) (bool, error) {
	return s.cache.Touch(key, ttl)
}

func (s localStore) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	return s.cache.GetOrLoad(ctx, key, loader)
}
