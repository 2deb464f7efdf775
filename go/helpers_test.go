package larder

import (
	"context"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// openCache opens a cache. Its size is 8 MiB unless the options set another size.
func openCache(t testing.TB, options Options) *Cache {
	t.Helper()
	if options.Memory == 0 {
		options.Memory = 8 << 20
	}
	cache, err := Open(options)
	check.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// clock is a clock that tests move.
type clock struct {
	lock sync.Mutex
	now  time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.now
}

func (c *clock) advance(by time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.now = c.now.Add(by)
}

// must fails the test on an error, and returns the value otherwise.
func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		check.NoError(t, err)
		return value
	}
}

// set stores an item with the default time to live.
func set(t testing.TB, cache *Cache, key, value string) {
	t.Helper()
	if err := cache.Set(key, []byte(value), 0); err != nil {
		t.Fatalf("Set(%q): %v", key, err)
	}
}

// wantValue fails the test if the value of a key is not want.
func wantValue(t testing.TB, cache *Cache, key, want string) {
	t.Helper()
	if got, ok := cache.Get(key); !ok || string(got) != want {
		t.Fatalf("Get(%q) = %.40q, %v, want %.40q, true", key, got, ok, want)
	}
}

// wantNone fails the test if a key has an item.
func wantNone(t testing.TB, cache *Cache, key string) {
	t.Helper()
	if got, ok := cache.Get(key); ok || got != nil {
		t.Fatalf("Get(%q) = %.40q, %v, want nil, false", key, got, ok)
	}
}

// loaderOf returns a loader that succeeds with a value.
func loaderOf(value string, ttl time.Duration) Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte(value), ttl, nil
	}
}

// loaderFailing returns a loader that fails with an error.
func loaderFailing(err error) Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) { return nil, 0, err }
}
