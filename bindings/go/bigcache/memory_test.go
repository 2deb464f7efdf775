package bigcache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"larder/internal/check"
)

func TestHardMaxCacheSize(t *testing.T) {
	cache := newCache(t, smallConfig())
	entry := strings.Repeat("e", 1000)
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), entry)
		wantEntry(t, cache, fmt.Sprint(at), entry)
	}
	// At least half of the memory holds entries.
	if used := cache.Capacity(); used > 4<<20 || used < 2<<20 {
		t.Errorf("Capacity = %d, want %d to %d", used, 2<<20, 4<<20)
	}
	if entries := cache.Len(); entries > 4<<20/1000 || entries < 2<<20/1000 {
		t.Errorf("Len = %d, want %d to %d", entries, 2<<20/1000, 4<<20/1000)
	}
}

func TestOverwriteAndDeleteReleaseMemory(t *testing.T) {
	// Without expiry and eviction nothing else releases memory.
	cache := newCache(t, Config{Shards: 1})
	kept := strings.Repeat("k", 1000)
	set(t, cache, "kept", kept)
	limit := cache.memory.limit.Load()
	for at := range 4 * int(limit) / 100_000 {
		set(t, cache, "overwritten", strings.Repeat("o", 100_000))
		set(t, cache, fmt.Sprint(at), strings.Repeat("d", 100_000))
		if err := cache.Delete(fmt.Sprint(at)); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	check.Equal(t, "Len", cache.Len(), 2)
	check.Equal(t, "limit", cache.memory.limit.Load(), limit)
	wantEntry(t, cache, "kept", kept)
}

func TestTooBigEntryDoesNotEvictOthers(t *testing.T) {
	cache := newCache(t, smallConfig())
	set(t, cache, "key", "old")
	for at := range 100 {
		set(t, cache, fmt.Sprint(at), "other")
	}
	err := cache.Set("key", make([]byte, 2<<20))
	if err != ErrEntryTooBig {
		t.Fatalf("Set of half of the memory: error %v, want %v", err, ErrEntryTooBig)
	}
	// BigCache's text.
	check.Equal(t, "text of the error", err.Error(), "entry is bigger than max shard size")
	// No reader gets the entry that was to be replaced.
	wantNoEntry(t, cache, "key")
	for at := range 100 {
		wantEntry(t, cache, fmt.Sprint(at), "other")
	}
}

func TestLargeEntriesReplaceEachOther(t *testing.T) {
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 1})
	for at := range 20 {
		for _, bytes := range []int{400_000, 300_000, 200} {
			entry := strings.Repeat("e", bytes)
			set(t, cache, fmt.Sprint("key", at%4), entry)
			wantEntry(t, cache, fmt.Sprint("key", at%4), entry)
		}
	}
}

// In BigCache each shard has a fixed part of the memory.
func TestShardsShareMemory(t *testing.T) {
	config := DefaultConfig(time.Second)
	config.Shards, config.HardMaxCacheSize = 2<<10, 1
	cache := newCache(t, config)
	for _, bytes := range []int{200, 100, 450, 300, 100_000} {
		set(t, cache, "key", strings.Repeat("e", bytes))
		wantEntry(t, cache, "key", strings.Repeat("e", bytes))
	}
}

func TestMemoryGrowsWithoutLimit(t *testing.T) {
	cache := newCache(t, Config{Shards: 1})
	first := cache.memory.limit.Load()
	entry := strings.Repeat("e", 100_000)
	entries := 2 * int(first) / len(entry)
	for at := range entries {
		set(t, cache, fmt.Sprint(at), entry)
	}
	check.Equal(t, "Len", cache.Len(), entries)
	if used, least := cache.Capacity(), 2*int(first); used < least {
		t.Errorf("Capacity = %d, want at least %d", used, least)
	}
	for at := range entries {
		wantEntry(t, cache, fmt.Sprint(at), entry)
	}
}

func TestInitialMemory(t *testing.T) {
	for _, test := range []struct {
		config Config
		memory int64
	}{
		{Config{HardMaxCacheSize: 7, MaxEntriesInWindow: 1, MaxEntrySize: 1}, 7 << 20},
		{Config{HardMaxCacheSize: 1 << 60}, memoryCeiling},
		{Config{}, 16 << 20},
		{Config{MaxEntriesInWindow: 1000, MaxEntrySize: 20_000}, 20_000_000},
		{Config{MaxEntriesInWindow: 1 << 62, MaxEntrySize: 1 << 62}, min(machineBytes()/2, memoryCeiling) / 2},
	} {
		options := memoryOptions(&test.config)
		check.Equal(t, "Memory", options.Memory, test.memory)
		check.Equal(t, "NoEviction", options.NoEviction, test.config.HardMaxCacheSize == 0)
		if options.MemoryMax < test.memory {
			t.Errorf("MemoryMax = %d, want at least %d", options.MemoryMax, test.memory)
		}
	}
}
