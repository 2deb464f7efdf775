package bigcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

// smallConfig returns a configuration of a few MB without expiry.
func smallConfig() Config { return Config{Shards: 1, HardMaxCacheSize: 4} }

// expiringConfig returns a configuration whose entries expire at most two seconds after a store.
func expiringConfig() Config {
	config := smallConfig()
	config.LifeWindow, config.CleanWindow = time.Second, time.Second
	return config
}

// untilGone is longer than an entry of expiringConfig lives.
const untilGone = 2200 * time.Millisecond

// sameHash is a hasher without distinct hashes.
type sameHash struct{}

func (sameHash) Sum64(string) uint64 { return 5 }

func newCache(t testing.TB, config Config) *BigCache {
	t.Helper()
	cache, err := New(context.Background(), config)
	check.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func set(t testing.TB, cache *BigCache, key, entry string) {
	t.Helper()
	if err := cache.Set(key, []byte(entry)); err != nil {
		t.Fatalf("Set(%.20q): %v", key, err)
	}
}

// wantEntry reports an error if a key has another entry than want.
func wantEntry(t testing.TB, cache *BigCache, key, want string) {
	t.Helper()
	if got, err := cache.Get(key); err != nil || string(got) != want {
		t.Errorf("Get(%.20q) = %.20q (%d bytes), %v, want %.20q (%d bytes)", key, got, len(got), err, want, len(want))
	}
}

// wantNoEntry reports an error if a key has an entry. Programs compare the error with ==.
func wantNoEntry(t testing.TB, cache *BigCache, key string) {
	t.Helper()
	if got, err := cache.Get(key); err != ErrEntryNotFound || got != nil {
		t.Errorf("Get(%.20q) = %.20q, %v, want nil, %v", key, got, err, ErrEntryNotFound)
	}
}

// wantClosed reports an error for each method that does not behave as in a closed cache.
func wantClosed(t testing.TB, cache *BigCache) {
	t.Helper()
	_, get := cache.Get("key")
	for name, err := range map[string]error{
		"Get": get, "Set": cache.Set("key", nil), "Append": cache.Append("key", nil),
		"Delete": cache.Delete("key"), "Reset": cache.Reset(), "ResetStats": cache.ResetStats(),
	} {
		if !errors.Is(err, larder.ErrClosed) {
			t.Errorf("%s of a closed cache: error %v, want %v", name, err, larder.ErrClosed)
		}
	}
	check.Equal(t, "Len of a closed cache", cache.Len(), 0)
	check.Equal(t, "Capacity of a closed cache", cache.Capacity(), 0)
	check.Equal(t, "Stats of a closed cache", cache.Stats(), Stats{})
	check.Equal(t, "KeyMetadata of a closed cache", cache.KeyMetadata("key"), Metadata{})
	check.Equal(t, "SetNext in a closed cache", cache.Iterator().SetNext(), false)
}

// callbackCalls are the arguments of callbacks, a line per call.
type callbackCalls struct {
	lock  sync.Mutex
	lines []string
}

func (c *callbackCalls) add(arguments ...any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.lines = append(c.lines, strings.TrimSuffix(fmt.Sprintln(arguments...), "\n"))
}

// want waits for this number of calls, and reports an error if they differ, in any order.
func (c *callbackCalls) want(t testing.TB, lines ...string) {
	t.Helper()
	var found []string
	for end := time.Now().Add(5 * time.Second); len(found) < len(lines) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		c.lock.Lock()
		found = slices.Clone(c.lines)
		c.lock.Unlock()
	}
	slices.Sort(found)
	slices.Sort(lines)
	if !slices.Equal(found, lines) {
		t.Errorf("callback calls = %.300q, want %.300q", found, lines)
	}
}

// waitForCallback waits long enough for an unexpected callback to arrive.
func waitForCallback() { time.Sleep(100 * time.Millisecond) }
