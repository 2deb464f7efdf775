package remote

import (
	"context"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

// must returns a function that returns a result without its error, which it checks.
func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(result T, err error) T {
		t.Helper()
		check.NoError(t, err)
		return result
	}
}

// loaderOf returns a loader of one value.
func loaderOf(value string, ttl time.Duration) larder.Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) { return []byte(value), ttl, nil }
}

// loaderFailing returns a loader that fails.
func loaderFailing(err error) larder.Loader {
	return func(context.Context, string) ([]byte, time.Duration, error) { return nil, 0, err }
}
