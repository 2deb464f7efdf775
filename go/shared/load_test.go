package shared

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
	"larder.example/larder/internal/flight"
	"larder.example/larder/internal/loadtest"
)

func TestLoads(t *testing.T) {
	loadtest.Run(t, loadtest.Package{
		Open: func(t *testing.T, options loadtest.Options) loadtest.Cache {
			cache := openCache(t, Options{LoadTimeout: options.LoadTimeout, StaleFor: options.StaleFor})
			return loadtest.Cache{
				GetOrLoad: func(ctx context.Context, key string, loader flight.Loader) ([]byte, error) {
					return cache.GetOrLoad(ctx, key, loader)
				},
				Get: cache.Get, Close: cache.Close, Loads: cache.loads,
			}
		},
		ErrKey: ErrKey, ErrRecursive: ErrRecursive, ErrLoadTimeout: ErrLoadTimeout, ErrClosed: ErrClosed,
		IsPanic: func(err error) bool { return errors.As(err, new(*PanicError)) },
	})
}

func TestLoadDoesNotOverwriteChanges(t *testing.T) {
	check.GoroutineLeaks(t)
	tests := []struct {
		name   string
		change func(*Cache)
		want   string // empty if there is no item
	}{
		{"none", func(*Cache) {}, "old"},
		{"delete", func(cache *Cache) { _, _ = cache.Delete("k") }, ""},
		{"set", func(cache *Cache) { _ = cache.Set("k", []byte("set"), 0) }, "set"},
		{"add", func(cache *Cache) { _, _ = cache.Add("k", []byte("add"), 0) }, "add"},
		{"clear", func(cache *Cache) { _ = cache.Clear() }, ""},
		{"remove prefix", func(cache *Cache) { _, _ = cache.RemovePrefix("") }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cache := openCache(t, Options{})
			loader := func(context.Context, string) ([]byte, time.Duration, error) {
				test.change(cache)
				return []byte("old"), 0, nil
			}
			value, err := cache.GetOrLoad(t.Context(), "k", loader)
			check.ErrorIs(t, "GetOrLoad", err, nil)
			check.Equal(t, "GetOrLoad", string(value), "old")
			value, ok := cache.Get("k")
			check.Equal(t, "Get(k)", string(value), test.want)
			check.Equal(t, "Get(k) found", ok, test.want != "")
		})
	}
}

func TestCloseAfterALoadWithoutReservation(t *testing.T) {
	cache := openCache(t, Options{Memory: 1 << 20, NoEviction: true})
	for n := range 100_000 {
		if cache.Set(fmt.Sprint("k", n), make([]byte, 100), 0) != nil {
			break
		}
	}
	for n := range 50_000 {
		if cache.Set(fmt.Sprint("s", n), nil, 0) != nil {
			break
		}
	}
	value, err := cache.GetOrLoad(t.Context(), strings.Repeat("k", 250), loaderOf("v", 0))
	check.NoError(t, err)
	check.Equal(t, "value of a load that cannot be stored", string(value), "v")
	closed := make(chan error, 1)
	go func() { closed <- cache.Close() }()
	select {
	case err := <-closed:
		check.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for a load that has ended")
	}
}

func TestStaleForLong(t *testing.T) {
	for _, staleFor := range []time.Duration{100 * 365 * 24 * time.Hour, larder.Forever} {
		cache := openCache(t, Options{StaleFor: staleFor, RefreshBefore: time.Second})
		_, err := cache.GetOrLoad(t.Context(), "k", loaderOf("v", time.Minute))
		check.NoError(t, err)
		_, err = cache.GetOrLoad(t.Context(), "k", loaderFailing(errors.New("loaded too early")))
		check.NoError(t, err)
		check.Equal(t, "loads of a fresh value", cache.loads.Loads(), 0)
		item, _, ok := cache.Peek("k")
		if years := item.TTL / (365 * 24 * time.Hour); !ok || years < 70 {
			t.Errorf("StaleFor %v: Peek: %v to live, %v, want 70 years", staleFor, item.TTL, ok)
		}
	}
}
