package bigcache

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnIteratorShowsAllEntries(t *testing.T) {
	cache := newCache(t, smallConfig())
	for at := range 1000 {
		set(t, cache, fmt.Sprint(at), fmt.Sprint("entry ", at))
	}
	seen := map[string]bool{}
	for it := cache.Iterator(); it.SetNext(); {
		entry, err := it.Value()
		if err != nil || string(entry.Value()) != "entry "+entry.Key() {
			t.Errorf("%q is %q, %v", entry.Key(), entry.Value(), err)
		}
		seen[entry.Key()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d of 1000 were shown", len(seen))
	}
}

func TestWhatAnIteratorSaysOfAnEntry(t *testing.T) {
	config := smallConfig()
	config.LifeWindow = 90*time.Second + time.Millisecond
	cache := newCache(t, config)
	set(t, cache, "key", "entry")
	it := cache.Iterator()
	if !it.SetNext() {
		t.Fatal("there is an entry")
	}
	entry, err := it.Value()
	if err != nil || entry.Key() != "key" || string(entry.Value()) != "entry" {
		t.Errorf("%+v, %v", entry, err)
	}
	// FNV-1a in 64 bits.
	if entry.Hash() != 0x3dc94a19365b10ec {
		t.Errorf("%x", entry.Hash())
	}
	if now := time.Now().Unix(); int64(entry.Timestamp()) < now-2 || int64(entry.Timestamp()) > now+1 {
		t.Errorf("stored at %d, now it is %d", entry.Timestamp(), now)
	}
	hashed := smallConfig()
	hashed.Hasher = sameHash{}
	other := newCache(t, hashed)
	set(t, other, "key", "entry")
	it = other.Iterator()
	it.SetNext()
	// Nothing is known of when an entry was stored that lasts for ever.
	if entry, _ := it.Value(); entry.Hash() != 5 || entry.Timestamp() != 0 {
		t.Errorf("%+v", entry)
	}
}

func TestAnIteratorThatIsNowhere(t *testing.T) {
	cache := newCache(t, smallConfig())
	it := cache.Iterator()
	if _, err := it.Value(); err != ErrInvalidIteratorState {
		t.Error(err)
	}
	if it.SetNext() {
		t.Error("there is nothing")
	}
	set(t, cache, "key", "entry")
	it = cache.Iterator()
	for it.SetNext() {
	}
	if entry, err := it.Value(); err != ErrInvalidIteratorState || entry.Key() != "" {
		t.Errorf("%+v, %v", entry, err)
	}
	if it.SetNext() {
		t.Error("the end stays the end")
	}
}

func TestAnIteratorKeepsTheEntryThatItHasComeTo(t *testing.T) {
	cache := newCache(t, smallConfig())
	set(t, cache, "key", "entry")
	it := cache.Iterator()
	if !it.SetNext() {
		t.Fatal("there is an entry")
	}
	_ = cache.Delete("key")
	if entry, err := it.Value(); err != nil || string(entry.Value()) != "entry" {
		t.Errorf("%+v, %v", entry, err)
	}
	if it.SetNext() {
		t.Error("there is nothing more")
	}
}

func TestIteratorsUnderChanges(t *testing.T) {
	cache := newCache(t, Config{Shards: 1, HardMaxCacheSize: 1})
	for at := range 10 {
		set(t, cache, fmt.Sprint("stays ", at), "entry")
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
				key := fmt.Sprint("changes ", at%50)
				if worker == 0 {
					set(t, cache, key, strings.Repeat("e", 3000))
				} else {
					_ = cache.Delete(key)
				}
			}
		}()
	}
	for range 200 {
		stays := map[string]bool{}
		for it := cache.Iterator(); it.SetNext(); {
			entry, err := it.Value()
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(entry.Key(), "stays") {
				stays[entry.Key()] = true
			} else if len(entry.Value()) != 3000 {
				t.Errorf("%q has %d bytes", entry.Key(), len(entry.Value()))
			}
		}
		if len(stays) != 10 {
			t.Fatalf("%d of 10 entries that nobody changed were shown", len(stays))
		}
	}
	close(stop)
	all.Wait()
}

// Deletions in a row are no depth of calls.
func TestAnIteratorPassesOverWhatHasGone(t *testing.T) {
	cache := newCache(t, DefaultConfig(time.Minute))
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), "entry")
	}
	it := cache.Iterator()
	if !it.SetNext() {
		t.Fatal("there are entries")
	}
	for at := range 20_000 {
		_ = cache.Delete(fmt.Sprint(at))
	}
	if it.SetNext() {
		t.Error("there is nothing more")
	}
}

func TestGoroutinesShareAnIterator(t *testing.T) {
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
				// Whoever finds the end closes the walk, while the others go on.
				for it.SetNext() {
					if entry, err := it.Value(); err == nil && string(entry.Value()) != "entry" {
						t.Errorf("%q", entry.Value())
					}
					shown.Add(1)
				}
			}()
		}
		all.Wait()
		if shown.Load() < entries {
			t.Errorf("%d of %d entries were shown", shown.Load(), entries)
		}
	}
}
