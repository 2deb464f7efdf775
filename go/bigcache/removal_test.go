package bigcache

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestCallbackForExpiredEntry(t *testing.T) {
	var calls callbackCalls
	config := expiringConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) {
		calls.add(key, string(entry), reason)
	}
	cache, clock := newClockedCache(t, config)
	long := strings.Repeat("long", 100)
	for _, key := range []string{"read", "stored", "appended", "deleted", long} {
		set(t, cache, key, "entry")
	}
	clock.advance(time.Second)
	calls.want(t)
	// Each call that finds an expired entry reports it.
	wantNoEntry(t, cache, "read")
	set(t, cache, "stored", "new")
	check.NoError(t, cache.Append("appended", []byte("new")))
	check.Equal(t, "Delete after expiry", cache.Delete("deleted"), ErrEntryNotFound)
	wantNoEntry(t, cache, long)
	calls.want(t, "read entry 1", "stored entry 1", "appended entry 1", "deleted entry 1", long+" entry 1")
	wantEntry(t, cache, "appended", "new")
}

func TestCallbackForEvictedEntry(t *testing.T) {
	var lock sync.Mutex
	evicted := map[string]bool{}
	config := smallConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) {
		lock.Lock()
		defer lock.Unlock()
		evicted[key] = true
		check.Equal(t, "reason", reason, NoSpace)
		check.Equal(t, "entry", string(entry), strings.Repeat(key, 200))
	}
	cache := newCache(t, config)
	for at := range 6000 {
		set(t, cache, fmt.Sprint(1_000_000+at), strings.Repeat(fmt.Sprint(1_000_000+at), 200))
	}
	check.Equal(t, "callbacks and remaining entries", len(evicted)+cache.Len(), 6000)
	for key := range evicted {
		wantNoEntry(t, cache, key)
	}
}

func TestCallbackForDeletedEntryOnly(t *testing.T) {
	var calls callbackCalls
	config := smallConfig()
	config.OnRemove = func(key string, entry []byte) { calls.add(key, string(entry)) }
	cache := newCache(t, config)
	set(t, cache, "key", "overwritten")
	set(t, cache, "key", "entry")
	_ = cache.Append("key", []byte("!"))
	_ = cache.Delete("key")
	_ = cache.Delete("none")
	set(t, cache, "reset", "entry")
	_ = cache.Reset()
	set(t, cache, "last", "entry")
	_ = cache.Delete("last")
	calls.want(t, "key entry!", "last entry")
}

func TestCallbackPrecedence(t *testing.T) {
	var calls callbackCalls
	config := smallConfig()
	config.OnRemoveWithReason = func(string, []byte, RemoveReason) { calls.add("with reason") }
	remove := func(key string) {
		t.Helper()
		cache := newCache(t, config)
		set(t, cache, key, "entry")
		_ = cache.Delete(key)
	}
	remove("1")
	config.OnRemove = func(string, []byte) { calls.add("plain") }
	remove("2")
	config.OnRemoveWithMetadata = func(string, []byte, Metadata) { calls.add("with metadata") }
	remove("3")
	calls.want(t, "with reason", "plain", "with metadata")
}

func TestOnRemoveFilterSet(t *testing.T) {
	var calls callbackCalls
	config := expiringConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) { calls.add(key, reason) }
	cache, clock := newClockedCache(t, config.OnRemoveFilterSet(Deleted, NoSpace))
	set(t, cache, "expires", "entry")
	clock.advance(time.Second)
	wantNoEntry(t, cache, "expires")
	set(t, cache, "deleted", "entry")
	_ = cache.Delete("deleted")
	calls.want(t, "deleted 3")
	// An empty filter excludes nothing.
	config = config.OnRemoveFilterSet()
	check.Equal(t, "reports(Expired) with an empty filter", config.reports(Expired), true)
	check.Equal(t, "reports(Deleted) with an empty filter", config.reports(Deleted), true)
}

// An entry that is too large deletes the previous entry of its key, because no reader may receive
// the old entry.
func TestCallbackForTheEntryThatATooLargeOneRemoves(t *testing.T) {
	var calls callbackCalls
	config := smallConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) {
		calls.add(key, string(entry), reason)
	}
	cache := newCache(t, config)
	set(t, cache, "key", "old")
	check.Equal(t, "Set of half of the memory", cache.Set("key", make([]byte, 2<<20)), ErrEntryTooBig)
	calls.want(t, "key old 3")
}

func TestCallbackGetsRequestCount(t *testing.T) {
	var calls callbackCalls
	config := smallConfig()
	config.StatsEnabled = true
	config.OnRemoveWithMetadata = func(key string, _ []byte, metadata Metadata) { calls.add(key, metadata.RequestCount) }
	cache := newCache(t, config)
	for _, key := range []string{"key", strings.Repeat("long", 100)} {
		set(t, cache, key, "entry")
		for range 100 {
			wantEntry(t, cache, key, "entry")
		}
		_ = cache.Delete(key)
	}
	calls.want(t, "key 100", strings.Repeat("long", 100)+" 100")
	// The count of the next entry starts at 0.
	set(t, cache, "key", "entry")
	check.Equal(t, "RequestCount", cache.KeyMetadata("key").RequestCount, 0)
}

func TestCallbackMayUseCache(t *testing.T) {
	var calls callbackCalls
	var cache *BigCache
	config := smallConfig()
	config.OnRemove = func(key string, entry []byte) {
		if key == "last" {
			calls.add(key, cache.Close())
			return
		}
		// The entry may still be visible.
		_, _ = cache.Get(key)
		calls.add(key, string(entry), cache.Set("other", entry), cache.Delete("none"))
	}
	cache = newCache(t, config)
	set(t, cache, "key", "entry")
	_ = cache.Delete("key")
	calls.want(t, "key entry <nil> Entry not found")
	wantEntry(t, cache, "other", "entry")
	set(t, cache, "last", "entry")
	_ = cache.Delete("last")
	calls.want(t, "key entry <nil> Entry not found", "last <nil>")
	wantClosed(t, cache)
}

func TestCallbackRunsBeforeTheRemovalReturns(t *testing.T) {
	var removed []string
	config := Config{Shards: 1, HardMaxCacheSize: 64}
	config.OnRemove = func(key string, entry []byte) { removed = append(removed, fmt.Sprint(key, " ", len(entry))) }
	cache := newCache(t, config)
	for _, bytes := range []int{0, 15_000, 700_000} {
		set(t, cache, fmt.Sprint(bytes), strings.Repeat("e", bytes))
		_ = cache.Delete(fmt.Sprint(bytes))
	}
	check.Equal(t, "removals", fmt.Sprint(removed), "[0 0 15000 15000 700000 700000]")
}
