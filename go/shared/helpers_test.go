package shared

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// wantValue fails the test if the value of a key is not want.
func wantValue(t testing.TB, cache *Cache, key, want string) {
	t.Helper()
	if got, ok := cache.Get(key); !ok || string(got) != want {
		t.Fatalf("Get(%q) = %.40q, %v, want %.40q, true", key, got, ok, want)
	}
}

// wantTTL reports an error if a time to live is not between the two bounds.
func wantTTL(t testing.TB, item Item, least, most time.Duration) {
	t.Helper()
	if item.TTL < least || item.TTL > most {
		t.Errorf("TTL = %v, want %v to %v", item.TTL, least, most)
	}
}

// must fails the test on an error, and returns the value otherwise.
func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		check.NoError(t, err)
		return value
	}
}

// openCache opens a new cache, with a disk tier or in a new file. Its size is 8 MiB unless the
// options set another size.
func openCache(t testing.TB, options Options) *Cache {
	t.Helper()
	if options.Memory == 0 {
		options.Memory = 8 << 20
	}
	path := ""
	if options.Tier == nil {
		path = filepath.Join(t.TempDir(), "cache")
	}
	cache, err := Open(path, options)
	check.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// openTwice opens the same cache in a file through two handles.
func openTwice(t *testing.T, options Options) (one, other *Cache) {
	path := filepath.Join(t.TempDir(), "cache")
	options.Memory = 4 << 20
	open := func() *Cache {
		cache := must[*Cache](t)(Open(path, options))
		t.Cleanup(func() { _ = cache.Close() })
		return cache
	}
	return open(), open()
}

// set stores an item that does not expire.
func set(t testing.TB, cache *Cache, key, value string) {
	t.Helper()
	if err := cache.Set(key, []byte(value), 0); err != nil {
		t.Fatalf("Set(%q): %v", key, err)
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

// loadDuring loads "k", calls a function inside the loader, and waits until the load has ended.
func loadDuring(t *testing.T, cache *Cache, meanwhile func()) {
	t.Helper()
	done := make(chan struct{})
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		defer close(done)
		meanwhile()
		return []byte("loaded"), time.Hour, nil
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", loader); err != nil {
		t.Fatalf("GetOrLoad: %v", err)
	}
	<-done
	// A refresh may outlive the call that started it.
	check.Eventually(t, "end of the load", func() bool { return cache.loads.Loads() == 0 })
}
