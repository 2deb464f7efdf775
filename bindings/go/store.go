package larder

import (
	"context"
	"time"
)

// Store is what the caches of this module have in common: that of [Cache.Store], and of the caches
// of larder/remote and larder/shared. These also have a method GetOrLoad, with the parameters of
// [Cache.GetOrLoad], which package larder/typed uses.
type Store interface {
	// Get returns a copy of the value of a key, or an error that matches [ErrNotFound].
	Get(ctx context.Context, key string) ([]byte, error)
	// Set stores a value, which lives for ttl: 0 means the default of the cache, and a negative ttl
	// deletes the item.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Delete removes the item of a key, if there is one.
	Delete(ctx context.Context, key string) error
}

// Store returns the cache as a [Store]. Its calls do not wait, and look at the context only in
// GetOrLoad.
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

func (s localStore) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	return s.cache.GetOrLoad(ctx, key, loader)
}
