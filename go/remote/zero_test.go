package remote

import (
	"context"
	"testing"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

func TestTheZeroCacheIsClosed(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Cache) error{
		"Get":     func(ctx context.Context, c *Cache) error { _, err := c.Get(ctx, "k"); return err },
		"GetMany": func(ctx context.Context, c *Cache) error { return c.GetMany(ctx, []string{"k"}, nil) },
		"Set":     func(ctx context.Context, c *Cache) error { return c.Set(ctx, "k", nil, 0) },
		"Add":     func(ctx context.Context, c *Cache) error { _, err := c.Add(ctx, "k", nil, 0); return err },
		"Replace": func(ctx context.Context, c *Cache) error { _, err := c.Replace(ctx, "k", nil, 0); return err },
		"Append":  func(ctx context.Context, c *Cache) error { _, err := c.Append(ctx, "k", nil); return err },
		"Prepend": func(ctx context.Context, c *Cache) error { _, err := c.Prepend(ctx, "k", nil); return err },
		"Swap":    func(ctx context.Context, c *Cache) error { _, err := c.CompareAndSwap(ctx, "k", nil, 0, 1); return err },
		"Delete":  func(ctx context.Context, c *Cache) error { _, err := c.Delete(ctx, "k"); return err },
		"Touch":   func(ctx context.Context, c *Cache) error { _, err := c.Touch(ctx, "k", 1); return err },
		"Incr":    func(ctx context.Context, c *Cache) error { _, err := c.Incr(ctx, "k", 1); return err },
		"Decr":    func(ctx context.Context, c *Cache) error { _, err := c.Decr(ctx, "k", 1); return err },
		"Clear":   func(ctx context.Context, c *Cache) error { return c.Clear(ctx) },
		"GetOrLoad": func(ctx context.Context, c *Cache) error {
			_, err := c.GetOrLoad(ctx, "k", loaderOf("v", 0))
			return err
		},
		"Store": func(ctx context.Context, c *Cache) error { return c.Store().Delete(ctx, "k") },
	} {
		cache := new(Cache)
		for range 2 {
			check.ErrorIs(t, name, call(t.Context(), cache), larder.ErrClosed)
			check.NoError(t, cache.Close())
		}
	}
}
