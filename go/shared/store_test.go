package shared

import (
	"context"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
	"larder.example/larder/typed"
)

// The package returns the errors of package larder, so that code for a larder.Store works on any
// cache.
func TestStore(t *testing.T) {
	cache := openCache(t, Options{})
	ctx, store := t.Context(), cache.Store()
	_, err := store.Get(ctx, "k")
	check.ErrorIs(t, "Get of an absent key", err, larder.ErrNotFound)
	check.NoError(t, store.Set(ctx, "k", []byte("v"), larder.Forever))
	value := must[[]byte](t)(store.Get(ctx, "k"))
	check.Equal(t, "Get", string(value), "v")
	check.NoError(t, store.Delete(ctx, "k"))
	check.NoError(t, store.Delete(ctx, "k"))
	check.ErrorIs(t, "Set of 5 MiB", store.Set(ctx, "k", make([]byte, 5<<20), 0), larder.ErrTooLarge)

	numbers := typed.New(store, typed.Options[string, int]{})
	number, err := numbers.GetOrLoad(ctx, "n", func(context.Context, string) (int, time.Duration, error) {
		return 7, larder.Forever, nil
	})
	check.NoError(t, err)
	check.Equal(t, "GetOrLoad", number, 7)
	check.Eventually(t, "store of the load", func() bool { return cache.Contains("n") })
	item, _, ok := cache.Peek("n")
	check.Equal(t, "Peek found", ok, true)
	check.Equal(t, "TTL of a value that was loaded forever", item.TTL, 0)

	check.NoError(t, cache.Close())
	_, err = store.Get(ctx, "k")
	check.ErrorIs(t, "Get of a closed cache", err, larder.ErrClosed)
}
