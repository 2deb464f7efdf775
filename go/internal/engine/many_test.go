package engine

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// many returns keys of several blocks, and stores items under the even keys.
func many(t *testing.T, cache *Engine) []string {
	t.Helper()
	keys := make([]string, 3*blockKeys+5)
	for number := range keys {
		keys[number] = key(number)
		if number%2 == 0 {
			if _, err := cache.Set(keys[number], value(number, 50+number), uint32(number), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return keys
}

func TestGetManyReadsEachKeyInOrder(t *testing.T) {
	clock := newClock()
	for _, isBusy := range []bool{false, true} {
		cache := openTest(t, clock.config(Config{}))
		// An item that expires, an item that is copied because of its length, and a key that occurs
		// twice.
		keys := append(many(t, cache), "short", "large", key(4))
		large := value(7, cache.ItemMax()/2)
		_, _ = cache.Set("short", []byte("v"), 0, 5)
		_, _ = cache.Set("large", large, 7, 0)
		clock.advance(10)
		if isBusy {
			defer claimAll(cache)()
		}
		var visits []int
		cache.GetMany(keys, func(at int, got []byte, item Item) {
			visits = append(visits, at)
			number := at
			if at == len(keys)-1 {
				number = 4
			}
			want := value(number, 50+number)
			if keys[at] == "large" {
				number, want = 7, large
			}
			if !bytes.Equal(got, want) || cap(got) != len(got) || item.Flags != uint32(number) {
				t.Errorf("item %d has %d bytes, capacity %d, flags %d", at, len(got), cap(got), item.Flags)
			}
		})
		var want []int
		for at := 0; at < len(keys)-3; at += 2 {
			want = append(want, at)
		}
		want = append(want, len(keys)-2, len(keys)-1)
		if !slices.Equal(visits, want) {
			t.Errorf("visits of %v, want %v", visits, want)
		}
		stats := cache.Stats()
		if hits := uint64(len(want)); stats.Hits != hits || stats.Misses != uint64(len(keys))-hits {
			t.Errorf("%d hits, %d misses of %d keys, want %d hits", stats.Hits, stats.Misses, len(keys), hits)
		}
	}
}

func TestGetWhileEndsWhereItsCallbackDoes(t *testing.T) {
	cache := openTest(t, Config{})
	keys := many(t, cache)
	for _, stop := range []int{0, 2, blockKeys - 2, blockKeys, 2*blockKeys + 2} {
		lastAt := -1
		cache.GetWhile(keys, 1000, func(at int, _ []byte, _ Item) bool {
			lastAt = at
			return at < stop
		})
		if lastAt != stop {
			t.Errorf("the last visit is of %d, want %d", lastAt, stop)
		}
	}
}

// TestGetManySeesWhatItsCallbackDoes changes later keys in the callback, after GetMany has
// prefetched their memory.
func TestGetManySeesWhatItsCallbackDoes(t *testing.T) {
	cache := openTest(t, Config{})
	keys := many(t, cache)
	var visits []string
	cache.GetMany(keys[:9], func(at int, got []byte, _ Item) {
		switch at {
		case 0:
			_, _ = cache.Set(keys[1], []byte("new"), 0, 0)
			_, _ = cache.Set(keys[2], []byte("other"), 0, 0)
			_ = cache.Delete(keys[4], 0)
		case 6:
			_ = cache.Close()
			if !bytes.Equal(got, value(6, 56)) {
				t.Error("the value has changed after Close")
			}
		default:
			visits = append(visits, fmt.Sprint(at, "=", string(got)))
		}
	})
	if want := []string{"1=new", "2=other"}; !slices.Equal(visits, want) {
		t.Errorf("visits %v, want %v", visits, want)
	}
	if !cache.freed.Load() {
		t.Error("the memory of the closed cache is not free")
	}
	cache.GetMany(keys, func(at int, _ []byte, _ Item) { t.Errorf("a closed cache has item %d", at) })
}

func TestGetManyReleasesItsPinAfterAPanicAndAfterGoexit(t *testing.T) {
	cache := openTest(t, Config{})
	keys := many(t, cache)
	func() {
		defer func() { _ = recover() }()
		cache.GetMany(keys, func(int, []byte, Item) { panic("callback") })
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		cache.GetMany(keys, func(int, []byte, Item) { runtime.Goexit() })
	}()
	<-done
	if !cache.pins.IsIdle() {
		t.Error("a cell is still claimed")
	}
	if hits := cache.Stats().Hits; hits != 2 {
		t.Errorf("%d hits, want 2", hits)
	}
}

func TestAValueOfGetManyStaysWhileMemoryIsUsedAnew(t *testing.T) {
	cache := openTiny(t, Config{}, 64, 4<<10)
	keys := many(t, cache)
	cache.GetMany(keys[:3], func(at int, got []byte, _ Item) {
		for number := range 5000 {
			_, _ = cache.Set(key(100+number), value(number, 300), 0, 0)
		}
		if !poisons && !bytes.Equal(got, value(at, 50+at)) {
			t.Errorf("value %d has changed", at)
		}
	})
	cache.check(t)
}
