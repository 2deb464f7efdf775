package bigcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// expiringConfig returns a configuration whose entries live for a second.
func expiringConfig() Config {
	config := smallConfig()
	config.LifeWindow = time.Second
	return config
}

// clock is a clock that tests move.
type clock struct {
	lock sync.Mutex
	now  time.Time
}

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

// newClockedCache opens a cache with a clock that does not move by itself.
func newClockedCache(t testing.TB, config Config) (*BigCache, *clock) {
	t.Helper()
	clock := &clock{now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	cache, err := open(context.Background(), config, clock.Now)
	check.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return cache, clock
}

// sameHash is a hasher that returns the same hash for all keys.
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

// wantEntry reports an error if the entry of a key is not want.
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

func (c *callbackCalls) count() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return len(c.lines)
}

// want reports an error if the calls differ from these, in any order.
func (c *callbackCalls) want(t testing.TB, lines ...string) {
	t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	found := slices.Sorted(slices.Values(c.lines))
	slices.Sort(lines)
	if !slices.Equal(found, lines) {
		t.Errorf("callback calls = %.300q, want %.300q", found, lines)
	}
}

// capture returns what a function prints to the standard output.
func capture(t testing.TB, print func()) string {
	t.Helper()
	read, write, err := os.Pipe()
	check.NoError(t, err)
	output := os.Stdout
	os.Stdout = write
	print()
	os.Stdout = output
	check.NoError(t, write.Close())
	printed, err := io.ReadAll(read)
	check.NoError(t, err)
	return string(printed)
}
