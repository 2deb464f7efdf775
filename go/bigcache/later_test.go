package bigcache

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// The changes of BigCache 3.2.0, in the order of the package's documentation.
// conformance/bigcache.sh runs BigCache's own tests.

func TestEntryExpiresWhenItsLifeWindowIsOver(t *testing.T) {
	cache, clock := newClockedCache(t, expiringConfig())
	set(t, cache, "key", "entry")
	clock.advance(999 * time.Millisecond)
	wantEntry(t, cache, "key", "entry")
	// BigCache 3.1 returns the entry for another second.
	clock.advance(time.Millisecond)
	wantNoEntry(t, cache, "key")
}

func TestCleanWindowKeepsEntriesOfAShortLifeWindow(t *testing.T) {
	config := smallConfig()
	config.CleanWindow = time.Millisecond
	for _, life := range []time.Duration{0, 500 * time.Millisecond} {
		config.LifeWindow = life
		cache, clock := newClockedCache(t, config)
		set(t, cache, "key", "entry")
		clock.advance(499 * time.Millisecond)
		// Long enough for several cleanups.
		time.Sleep(20 * time.Millisecond)
		wantEntry(t, cache, "key", "entry")
	}
}

func TestEndOfContextPrintsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	config := expiringConfig()
	config.CleanWindow = time.Millisecond
	output := capture(t, func() {
		cache, err := New(ctx, config)
		check.NoError(t, err)
		cancel()
		defer cache.Close()
		check.Eventually(t, "end of the cleaning", func() bool { return runtime.NumGoroutine() <= before })
	})
	check.Equal(t, "standard output", output, "")
}

func TestNoLimitPerShard(t *testing.T) {
	// BigCache divides the limit among the shards; none of these shards could store an entry of 100
	// KB.
	cache := newCache(t, Config{Shards: 1 << 20, HardMaxCacheSize: 1})
	entry := strings.Repeat("e", 100_000)
	set(t, cache, "key", entry)
	wantEntry(t, cache, "key", entry)
}

// BigCache 3.1 panics because of a stale index, which results from entries of bytes with their
// highest bit set that overwrite each other.
func TestOverwritingAndDeletingDamagesNothing(t *testing.T) {
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 1})
	for at := range 20_000 {
		key, other := fmt.Sprint("key ", at%100), fmt.Sprint("key ", (at*7)%100)
		entry := strings.Repeat("\xFF", at*31%5000)
		set(t, cache, key, entry)
		if other != key {
			_ = cache.Delete(other)
		}
		wantEntry(t, cache, key, entry)
	}
}

func TestNoCountsWithoutStatsEnabled(t *testing.T) {
	var before, after runtime.MemStats
	config := Config{Shards: 1024, HardMaxCacheSize: 1, MaxEntriesInWindow: 10_000_000}
	runtime.ReadMemStats(&before)
	cache := newCache(t, config)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
		t.Errorf("New for ten million entries allocates %d bytes of Go's heap, want at most %d", bytes, 1<<20)
	}
	check.Equal(t, "counts", cache.requests == nil, true)
}

func TestMetadataIsThatOfTheRemovedKey(t *testing.T) {
	var calls callbackCalls
	config := smallConfig()
	config.StatsEnabled, config.Hasher = true, sameHash{}
	config.OnRemoveWithMetadata = func(key string, entry []byte, metadata Metadata) {
		calls.add(key, string(entry), metadata.RequestCount)
	}
	cache := newCache(t, config)
	for at, key := range []string{"a", "b", "c"} {
		set(t, cache, key, "entry of "+key)
		for range at {
			wantEntry(t, cache, key, "entry of "+key)
		}
	}
	for _, key := range []string{"b", "a", "c"} {
		check.NoError(t, cache.Delete(key))
	}
	calls.want(t, "a entry of a 0", "b entry of b 1", "c entry of c 2")
}
