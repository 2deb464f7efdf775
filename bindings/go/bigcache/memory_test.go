package bigcache

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheLimitHolds(t *testing.T) {
	cache := newCache(t, smallConfig())
	entry := strings.Repeat("e", 1000)
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), entry)
		wantEntry(t, cache, fmt.Sprint(at), entry)
	}
	if used := cache.Capacity(); used > 4<<20 || used < 2<<20 {
		t.Errorf("%d bytes of 4 MiB are used", used)
	}
	if entries := cache.Len(); entries > 4<<20/1000 || entries < 2<<20/1000 {
		t.Errorf("%d entries of 1000 bytes are in 4 MiB", entries)
	}
}

func TestOverwrittenAndDeletedEntriesGiveTheirMemoryBack(t *testing.T) {
	// It lasts for ever, so nothing else gives memory back.
	cache := newCache(t, Config{Shards: 1})
	kept := strings.Repeat("k", 1000)
	set(t, cache, "kept", kept)
	limit := cache.memory.limit.Load()
	for at := range 4 * int(limit) / 100_000 {
		set(t, cache, "overwritten", strings.Repeat("o", 100_000))
		set(t, cache, fmt.Sprint(at), strings.Repeat("d", 100_000))
		if err := cache.Delete(fmt.Sprint(at)); err != nil {
			t.Fatal(err)
		}
	}
	if cache.Len() != 2 || cache.memory.limit.Load() != limit {
		t.Errorf("%d entries, and a limit of %d instead of %d bytes", cache.Len(), cache.memory.limit.Load(), limit)
	}
	wantEntry(t, cache, "kept", kept)
}

func TestAnEntryThatIsTooLargeEvictsNobody(t *testing.T) {
	cache := newCache(t, smallConfig())
	set(t, cache, "key", "old")
	for at := range 100 {
		set(t, cache, fmt.Sprint(at), "other")
	}
	err := cache.Set("key", make([]byte, 2<<20))
	if err != ErrEntryTooBig || err.Error() != "entry is bigger than max shard size" {
		t.Error(err)
	}
	// Nobody is to read what was to be replaced.
	wantNoEntry(t, cache, "key")
	for at := range 100 {
		wantEntry(t, cache, fmt.Sprint(at), "other")
	}
}

func TestLargeEntriesTakeTurns(t *testing.T) {
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 1})
	for at := range 20 {
		for _, bytes := range []int{400_000, 300_000, 200} {
			entry := strings.Repeat("e", bytes)
			set(t, cache, fmt.Sprint("key", at%4), entry)
			wantEntry(t, cache, fmt.Sprint("key", at%4), entry)
		}
	}
}

// BigCache gives each of its shards a part of the memory, of which they can use no other.
func TestShardsHaveNoMemoryOfTheirOwn(t *testing.T) {
	config := DefaultConfig(time.Second)
	config.Shards, config.HardMaxCacheSize = 2<<10, 1
	cache := newCache(t, config)
	for _, bytes := range []int{200, 100, 450, 300, 100_000} {
		set(t, cache, "key", strings.Repeat("e", bytes))
		wantEntry(t, cache, "key", strings.Repeat("e", bytes))
	}
}

func TestWithoutALimitMemoryGrows(t *testing.T) {
	cache := newCache(t, Config{Shards: 1})
	first := cache.memory.limit.Load()
	entry := strings.Repeat("e", 100_000)
	entries := 2 * int(first) / len(entry)
	for at := range entries {
		set(t, cache, fmt.Sprint(at), entry)
	}
	if cache.Len() != entries || cache.Capacity() < 2*int(first) {
		t.Errorf("%d of %d entries in %d bytes", cache.Len(), entries, cache.Capacity())
	}
	for at := range entries {
		wantEntry(t, cache, fmt.Sprint(at), entry)
	}
}

func TestMemoryBeginsWithWhatIsExpected(t *testing.T) {
	for _, at := range []struct {
		config Config
		memory int64
	}{
		{Config{HardMaxCacheSize: 7, MaxEntriesInWindow: 1, MaxEntrySize: 1}, 7 << 20},
		{Config{HardMaxCacheSize: 1 << 60}, memoryCeiling},
		{Config{}, 16 << 20},
		{Config{MaxEntriesInWindow: 1000, MaxEntrySize: 20_000}, 20_000_000},
		{Config{MaxEntriesInWindow: 1 << 62, MaxEntrySize: 1 << 62}, min(machineBytes()/2, memoryCeiling) / 2},
	} {
		options := memoryOptions(&at.config)
		if options.Memory != at.memory || options.MemoryMax < at.memory || options.NoEviction != (at.config.HardMaxCacheSize == 0) {
			t.Errorf("%+v", options)
		}
	}
}
