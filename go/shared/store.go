//go:build linux && cgo

package shared

import (
	"context"
	"time"

	"larder.example/larder"
)

// Store returns the cache as a [larder.Store]. Only GetOrLoad uses the context.
func (c *Cache) Store() larder.Store { return store{c} }

type store struct{ cache *Cache }

func (s store) Get(_ context.Context, key string) ([]byte, error) {
	value, _, err := s.cache.get(key)
	return value, err
}

func (s store) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	return s.cache.Set(key, value, ttl)
}

func (s store) Delete(_ context.Context, key string) error {
	_, err := s.cache.Delete(key)
	return err
}

func (s store) GetMany(_ context.Context, keys []string, visit func(at int, value []byte)) error {
	batch := batches.Get().(*Batch)
	defer batches.Put(batch)
	err := s.cache.GetBatch(batch, keys...)
	batch.visit(visit)
	return err
}

func (s store) Touch(_ context.Context, key string, ttl time.Duration) (bool, error) {
	return s.cache.Touch(key, ttl)
}

func (s store) GetOrLoad(ctx context.Context, key string, loader Loader) ([]byte, error) {
	return s.cache.GetOrLoad(ctx, key, loader)
}
