package bigcache

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestHardMaxCacheSize(t *testing.T) {
	cache := newCache(t, smallConfig())
	entry := strings.Repeat("e", 1000)
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), entry)
		wantEntry(t, cache, fmt.Sprint(at), entry)
	}
	check.Equal(t, "Capacity", cache.Capacity(), 4<<20)
	// At least half of the memory holds entries.
	if entries := cache.Len(); entries > 4<<20/1000 || entries < 2<<20/1000 {
		t.Errorf("Len = %d, want %d to %d", entries, 2<<20/1000, 4<<20/1000)
	}
}

func TestOverwriteAndDeleteReleaseMemory(t *testing.T) {
	cache := newCache(t, smallConfig())
	kept := strings.Repeat("k", 1000)
	set(t, cache, "kept", kept)
	for at := range 4 * (4 << 20) / 100_000 {
		set(t, cache, "overwritten", strings.Repeat("o", 100_000))
		set(t, cache, fmt.Sprint(at), strings.Repeat("d", 100_000))
		if err := cache.Delete(fmt.Sprint(at)); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	// An eviction would remove the entry that no call has read.
	check.Equal(t, "Len", cache.Len(), 2)
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
	// The old entry must not be found.
	wantNoEntry(t, cache, "key")
	for at := range 100 {
		wantEntry(t, cache, fmt.Sprint(at), "other")
	}
}

func TestLargeEntriesReplaceEachOther(t *testing.T) {
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 1})
	for at := range 20 {
		for _, bytes := range []int{120_000, 90_000, 200} {
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

// The memory is limited, also where BigCache's memory grows.
func TestMemoryLimit(t *testing.T) {
	for _, test := range []struct {
		config Config
		memory int64
	}{
		{Config{HardMaxCacheSize: 7, MaxEntriesInWindow: 1000, MaxEntrySize: 1 << 30}, 7 << 20},
		{Config{HardMaxCacheSize: math.MaxInt}, memoryCeiling},
		{Config{}, memoryFloor()},
		{DefaultConfig(time.Minute), max(300_000_000, memoryFloor())},
		{Config{MaxEntriesInWindow: 3000, MaxEntrySize: 1_000_000}, 3_000_000_000},
		{Config{MaxEntriesInWindow: math.MaxInt, MaxEntrySize: math.MaxInt}, memoryCeiling},
	} {
		check.Equal(t, fmt.Sprintf("memory of %+v", test.config), test.config.memory(), test.memory)
	}
}
