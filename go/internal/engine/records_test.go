package engine

import (
	"bytes"
	"hash/maphash"
	"testing"
)

// The header has few bits for the length of a value. A value with more bits in its length is stored
// in pieces, whatever the lower bits of the length are.
func TestValuesLongerThanAHeaderCounts(t *testing.T) {
	cache, err := open(Config{CAS: true}, geometry{shards: 1, segments: 256, segmentBytes: 1 << 20}, maphash.MakeSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	for _, size := range []int{4<<20 + 10, 8<<20 + 10, 16<<20 + 10, 24<<20 + 10} {
		value := bytes.Repeat([]byte("0123456789abcdef-"), size/17+1)[:size]
		if _, err := cache.Set("key", value, 0, 0); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got, ok := cache.Get("key"); !ok || !bytes.Equal(got, value) {
			t.Errorf("%d bytes: %t, %d bytes", size, ok, len(got))
		}
	}
}

// mark sets marks of an item, and returns its token.
func mark(t *testing.T, cache *Engine, key string, change Change) uint64 {
	t.Helper()
	token, err := cache.Update(key, func(Item, []byte, bool) Change { return change })
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestMarksStayUntilAStore(t *testing.T) {
	cache := openTest(t, Config{CAS: true})
	checkMarks := func(key, what string, want uint64) {
		t.Helper()
		if item, _ := cache.Look(key); uint64(item.Marks()) != want {
			t.Errorf("%s, after %s: marks %x, want %x", key, what, item.Marks(), want)
		}
	}
	for key, size := range map[string]int{"short": 10, "long": 2000, "large": 100000} {
		value := bytes.Repeat([]byte("v"), size)
		for _, ttl := range []int64{0, 1 << 40} {
			first, err := cache.Set(key, value, 0, ttl)
			if err != nil {
				t.Fatal(err)
			}
			checkMarks(key, "a set", 0)
			mark(t, cache, key, Change{Marks: Stale})
			checkMarks(key, "a mark", uint64(Stale))
			if token := mark(t, cache, key, Change{Action: Read, Marks: Claimed}); token != first {
				t.Errorf("a read changes the token from %d to %d", first, token)
			}
			checkMarks(key, "two marks", uint64(Stale|Claimed))
			mark(t, cache, key, Change{Action: TouchItem, Deadline: 1 << 50})
			checkMarks(key, "a touch", uint64(Stale|Claimed))
			if got, ok := cache.Get(key); !ok || !bytes.Equal(got, value) {
				t.Errorf("%s: %d bytes after marks", key, len(got))
			}
			change := Change{Action: Write, Value: value, Marks: Stale, Token: 1 << 63, HasToken: true}
			if token := mark(t, cache, key, change); token != 1<<63 {
				t.Errorf("a write with a token returns %d", token)
			}
			checkMarks(key, "a write with a mark", uint64(Stale))
			if item, _ := cache.Look(key); item.Token != 1<<63 {
				t.Errorf("the token is %d", item.Token)
			}
			mark(t, cache, key, Change{Action: Write, Value: value})
			checkMarks(key, "a write", 0)
		}
	}
	if _, err := cache.Update("none", func(Item, []byte, bool) Change {
		return Change{Action: Read, Marks: Stale}
	}); err != ErrNotFound {
		t.Errorf("a read of no item: %v", err)
	}
}

// Eviction and compaction move records that are read often to other segments.
func TestMarksStayWhereRecordsMove(t *testing.T) {
	cache := openTest(t, Config{MemoryBytes: 2 << 20})
	for _, key := range []string{"a", "b"} {
		if _, err := cache.Set(key, make([]byte, 500), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	mark(t, cache, "a", Change{Marks: Stale | Claimed})
	number := 0
	for moved := uint64(0); moved < 4<<20; moved = cache.Stats().RelocatedBytes {
		name := string(rune('A' + number%2000))
		if number++; number > 1<<20 {
			t.Fatal("records do not move")
		}
		if _, err := cache.Set(name+"key", make([]byte, 700+number%600), 0, 0); err != nil {
			t.Fatal(err)
		}
		cache.Get(name + "key")
		for range 4 {
			cache.Get("a")
			cache.Get("b")
		}
	}
	for key, want := range map[string]uint64{"a": uint64(Stale | Claimed), "b": 0} {
		if item, ok := cache.Look(key); !ok || uint64(item.Marks()) != want {
			t.Errorf("%s: %t, marks %x, want %x", key, ok, item.Marks(), want)
		}
	}
}

func TestStaleItemsAreNotSaved(t *testing.T) {
	cache := openTest(t, Config{})
	for _, key := range []string{"stale", "claimed", "fresh"} {
		if _, err := cache.Set(key, []byte("v"), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	mark(t, cache, "stale", Change{Marks: Stale})
	mark(t, cache, "claimed", Change{Marks: Claimed})
	var file bytes.Buffer
	if err := cache.Save(&file); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, Config{})
	if loaded, err := other.Load(&file); loaded.Stored != 2 || err != nil {
		t.Errorf("%d items, %v", loaded.Stored, err)
	}
	if item, ok := other.Look("claimed"); !ok || item.Marks() != 0 {
		t.Errorf("a claimed item: %t, marks %x", ok, item.Marks())
	}
}
