package bigcache

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestIteratorReturnsAllEntries(t *testing.T) {
	cache := newCache(t, smallConfig())
	for at := range 1000 {
		set(t, cache, fmt.Sprint(at), fmt.Sprint("entry ", at))
	}
	seen := map[string]bool{}
	for it := cache.Iterator(); it.SetNext(); {
		entry, err := it.Value()
		if err != nil || string(entry.Value()) != "entry "+entry.Key() {
			t.Errorf("Value = %q with key %q, %v, want the entry of the key", entry.Value(), entry.Key(), err)
		}
		seen[entry.Key()] = true
	}
	check.Equal(t, "distinct keys", len(seen), 1000)
}

func TestEntryInfo(t *testing.T) {
	config := smallConfig()
	config.LifeWindow = 90*time.Second + time.Millisecond
	cache := newCache(t, config)
	set(t, cache, "key", "entry")
	it := cache.Iterator()
	if !it.SetNext() {
		t.Fatal("SetNext = false, want true")
	}
	entry, err := it.Value()
	check.Equal(t, "Value: error", err, nil)
	check.Equal(t, "Key", entry.Key(), "key")
	check.Equal(t, "Value", string(entry.Value()), "entry")
	// The 64-bit FNV-1a hash of the key.
	check.Equal(t, "Hash", entry.Hash(), 0x3dc94a19365b10ec)
	// The timestamp is exact within one second, and the test may take one.
	if now := time.Now().Unix(); int64(entry.Timestamp()) < now-2 || int64(entry.Timestamp()) > now+1 {
		t.Errorf("Timestamp = %d, want %d to %d", entry.Timestamp(), now-2, now+1)
	}
	hashed := smallConfig()
	hashed.Hasher = sameHash{}
	other := newCache(t, hashed)
	set(t, other, "key", "entry")
	it = other.Iterator()
	it.SetNext()
	entry, _ = it.Value()
	check.Equal(t, "Hash with another Hasher", entry.Hash(), 5)
	check.Equal(t, "Timestamp without expiry", entry.Timestamp(), 0)
}

func TestValueWithoutEntry(t *testing.T) {
	cache := newCache(t, smallConfig())
	it := cache.Iterator()
	_, err := it.Value()
	check.Equal(t, "Value before SetNext", err, ErrInvalidIteratorState)
	check.Equal(t, "SetNext in an empty cache", it.SetNext(), false)
	set(t, cache, "key", "entry")
	it = cache.Iterator()
	for it.SetNext() {
	}
	entry, err := it.Value()
	check.Equal(t, "Value after the end", err, ErrInvalidIteratorState)
	check.Equal(t, "Key after the end", entry.Key(), "")
	check.Equal(t, "SetNext after the end", it.SetNext(), false)
}

func TestIteratorKeepsEntryAfterDelete(t *testing.T) {
	cache := newCache(t, smallConfig())
	set(t, cache, "key", "entry")
	it := cache.Iterator()
	if !it.SetNext() {
		t.Fatal("SetNext = false, want true")
	}
	_ = cache.Delete("key")
	entry, err := it.Value()
	check.Equal(t, "Value after Delete: error", err, nil)
	check.Equal(t, "Value after Delete", string(entry.Value()), "entry")
	check.Equal(t, "SetNext at the end", it.SetNext(), false)
}

func TestIteratorDuringChanges(t *testing.T) {
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 1})
	for at := range 10 {
		set(t, cache, fmt.Sprint("unchanged ", at), "entry")
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 2 {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := 0; ; at++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprint("changed ", at%50)
				if worker == 0 {
					set(t, cache, key, strings.Repeat("e", 3000))
				} else {
					_ = cache.Delete(key)
				}
			}
		}()
	}
	for range 200 {
		unchanged := map[string]bool{}
		for it := cache.Iterator(); it.SetNext(); {
			entry, err := it.Value()
			if err != nil {
				t.Fatalf("Value: %v", err)
			}
			if strings.HasPrefix(entry.Key(), "unchanged") {
				unchanged[entry.Key()] = true
			} else if len(entry.Value()) != 3000 {
				t.Errorf("entry of %q has %d bytes, want 3000", entry.Key(), len(entry.Value()))
			}
		}
		if len(unchanged) != 10 {
			t.Fatalf("the iterator returned %d unchanged entries, want 10", len(unchanged))
		}
	}
	close(stop)
	all.Wait()
}

// Skipping many deleted entries must not recurse.
func TestIteratorSkipsDeletedEntries(t *testing.T) {
	cache := newCache(t, DefaultConfig(time.Minute))
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), "entry")
	}
	it := cache.Iterator()
	if !it.SetNext() {
		t.Fatal("SetNext = false, want true")
	}
	for at := range 20_000 {
		_ = cache.Delete(fmt.Sprint(at))
	}
	check.Equal(t, "SetNext after the deletes", it.SetNext(), false)
}

func TestSharedIterator(t *testing.T) {
	const entries = 2000
	cache := newCache(t, smallConfig())
	for at := range entries {
		set(t, cache, fmt.Sprint(at), "entry")
	}
	for range 20 {
		it := cache.Iterator()
		var shown atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				// The first goroutine at the end closes the walk while the others continue.
				for it.SetNext() {
					if entry, err := it.Value(); err == nil && string(entry.Value()) != "entry" {
						t.Errorf("Value = %q, want %q", entry.Value(), "entry")
					}
					shown.Add(1)
				}
			}()
		}
		all.Wait()
		if shown.Load() < entries {
			t.Errorf("the iterator returned %d entries, want at least %d", shown.Load(), entries)
		}
	}
}
