package larder

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/own"
)

func TestGetReturnsStoredValue(t *testing.T) {
	cache := openCache(t, Options{})
	// Test lengths around the boundaries: copies without the lock, and values in one and in several
	// pieces.
	for _, size := range []int{0, 1, 5, 1023, 1024, 1025, 20_000, 700_000} {
		key, value := fmt.Sprint(size), strings.Repeat("larder ", size/7+1)[:size]
		set(t, cache, key, value)
		wantValue(t, cache, key, value)
		for _, capacity := range []int{0, 3, size + 3} {
			dst := append(make([]byte, 0, capacity), "abc"...)
			if got, ok := cache.GetInto(dst, key); !ok || string(got) != "abc"+value {
				t.Fatalf("GetInto of %d bytes into a capacity of %d = %.40q, %v, want abc and the value",
					size, capacity, got, ok)
			}
		}
	}
	value, ok := cache.Get("0")
	check.Equal(t, "Get of an empty value found", ok, true)
	check.Equal(t, "Get of an empty value is nil", value == nil, false)
	dst, ok := cache.GetInto([]byte("abc"), "none")
	check.Equal(t, "GetInto(none) found", ok, false)
	check.Equal(t, "GetInto(none)", string(dst), "abc")
}

func TestGetManyVisitsHitsInOrder(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "a", "1")
	set(t, cache, "b", "")
	var visits []string
	cache.GetMany([]string{"a", "none", "b", "a"}, func(at int, value []byte) {
		visits = append(visits, fmt.Sprint(at, "=", string(value)))
	})
	check.Equal(t, "visits", strings.Join(visits, " "), "0=1 2= 3=1")
	stats := cache.Stats()
	check.Equal(t, "Hits", stats.Hits, 3)
	check.Equal(t, "Misses", stats.Misses, 1)
}

func TestViewShowsTheValueAndMayUseTheCache(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "value")
	got := ""
	check.Equal(t, "View(k)", cache.View("k", func(value []byte) {
		// The bytes do not change, even if other callers change the cache.
		set(t, cache, "k", "other")
		_, _ = cache.Delete("k")
		got = string(value)
		check.Equal(t, "capacity beyond the value", cap(value)-len(value), 0)
	}), true)
	check.Equal(t, "value", got, "value")
	check.Equal(t, "View(none)", cache.View("none", func([]byte) { t.Error("View called back without an item") }), false)
}

func TestViewReleasesTheMemoryAfterAPanic(t *testing.T) {
	cache := openCache(t, Options{Memory: 1 << 20})
	for round := range 1000 {
		set(t, cache, "k", strings.Repeat("v", 1000))
		func() {
			defer func() {
				if reason := recover(); reason != round {
					t.Fatalf("recover = %v, want %d", reason, round)
				}
			}()
			cache.View("k", func([]byte) { panic(round) })
		}()
		// Store more than the memory of the cache. If segments were still pinned, this would fail.
		for at := range 20 {
			set(t, cache, fmt.Sprint(round, at), strings.Repeat("v", 1000))
		}
	}
}

func TestConditionalStores(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{CAS: true, Clock: clock.Now})
	is := must[bool](t)
	check.Equal(t, "Add(k)", is(cache.Add("k", []byte("one"), time.Minute)), true)
	check.Equal(t, "second Add(k)", is(cache.Add("k", []byte("two"), 0)), false)
	check.Equal(t, "Replace(none)", is(cache.Replace("none", []byte("x"), 0)), false)
	check.Equal(t, "Replace(k)", is(cache.Replace("k", []byte("three"), time.Minute)), true)
	check.Equal(t, "Append(k)", is(cache.Append("k", []byte("!"))), true)
	check.Equal(t, "Prepend(k)", is(cache.Prepend("k", []byte("<"))), true)
	check.Equal(t, "Append(none)", is(cache.Append("none", nil)), false)
	wantValue(t, cache, "k", "<three!")
	item, length, ok := cache.Peek("k")
	check.Equal(t, "Peek found", ok, true)
	check.Equal(t, "Peek: length", length, len("<three!"))
	check.Equal(t, "Peek: TTL, which Append and Prepend keep", item.TTL, time.Minute)
}

func TestCompareAndSwap(t *testing.T) {
	cache := openCache(t, Options{CAS: true})
	set(t, cache, "k", "v")
	_, item, _ := cache.GetItem("k")
	check.Equal(t, "token is 0", item.CAS == 0, false)
	next := must[uint64](t)(cache.CompareAndSwap("k", []byte("swapped"), 0, item.CAS))
	_, err := cache.CompareAndSwap("k", nil, 0, item.CAS)
	check.ErrorIs(t, "CompareAndSwap with an old token", err, ErrChanged)
	_, err = cache.CompareAndSwap("k", nil, -1, item.CAS)
	check.ErrorIs(t, "CompareAndSwap with an old token and a negative ttl", err, ErrChanged)
	_, err = cache.CompareAndSwap("k", nil, -1, 0)
	check.ErrorIs(t, "CompareAndSwap with token 0 and a negative ttl", err, ErrChanged)
	_, err = cache.CompareAndSwap("none", nil, 0, next)
	check.ErrorIs(t, "CompareAndSwap(none)", err, ErrNotFound)
	item, _, _ = cache.Peek("k")
	check.Equal(t, "Peek: token", item.CAS, next)
	wantValue(t, cache, "k", "swapped")
	_, err = cache.CompareAndSwap("k", nil, -1, next)
	check.ErrorIs(t, "CompareAndSwap with a negative ttl", err, nil)
	wantNone(t, cache, "k")
}

func TestSetItemStoresFlagsAndReturnsTheToken(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{CAS: true, Clock: clock.Now})
	token := must[uint64](t)(cache.SetItem("k", []byte("v"), Item{Flags: 7, TTL: time.Minute}))
	value, item, ok := cache.GetItem("k")
	check.Equal(t, "found", ok, true)
	check.Equal(t, "value", string(value), "v")
	check.Equal(t, "item", item, Item{CAS: token, TTL: time.Minute, Flags: 7})
	// With a token, SetItem is a compare-and-swap, which keeps the flags of the item that was read.
	next := must[uint64](t)(cache.SetItem("k", []byte("w"), item))
	_, err := cache.SetItem("k", []byte("x"), item)
	check.ErrorIs(t, "SetItem with an old token", err, ErrChanged)
	_, item, _ = cache.GetItem("k")
	check.Equal(t, "item after the swap", item, Item{CAS: next, TTL: time.Minute, Flags: 7})
	cache = openCache(t, Options{})
	check.Equal(t, "token without Options.CAS", must[uint64](t)(cache.SetItem("k", nil, Item{Flags: 1})), 0)
}

func TestUpdate(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{TTL: time.Hour, Clock: clock.Now})
	count := func(value []byte, item *Item, isFound bool) ([]byte, Decision) {
		check.Equal(t, "isFound", isFound, len(value) > 0)
		item.Flags++
		return append(value, 'x'), StoreItem
	}
	for range 3 {
		check.NoError(t, cache.Update("k", count))
	}
	value, item, _ := cache.GetItem("k")
	check.Equal(t, "value after three updates", string(value), "xxx")
	check.Equal(t, "item after three updates", item, Item{Flags: 3, TTL: time.Hour})
	check.NoError(t, cache.Set("forever", []byte("v"), Forever))
	check.NoError(t, cache.Update("forever", count))
	item, _, _ = cache.Peek("forever")
	check.Equal(t, "TTL of an item that does not expire", item.TTL, 0)

	decision := KeepItem
	decide := func(value []byte, _ *Item, _ bool) ([]byte, Decision) { return []byte("changed"), decision }
	check.NoError(t, cache.Update("k", decide))
	wantValue(t, cache, "k", "xxx")
	decision = RemoveItem
	check.NoError(t, cache.Update("k", decide))
	wantNone(t, cache, "k")
	check.ErrorIs(t, "Update that removes no item", cache.Update("k", decide), ErrNotFound)
	decision = 99
	check.ErrorIs(t, "Update with an unknown decision", cache.Update("k", decide), ErrInvalid)
	check.ErrorIs(t, "Update that stores too much", cache.Update("k", func([]byte, *Item, bool) ([]byte, Decision) {
		return make([]byte, 8<<20), StoreItem
	}), ErrTooLarge)
	func() {
		defer func() { _ = recover() }()
		_ = cache.Update("k", func([]byte, *Item, bool) ([]byte, Decision) { panic("a defect") })
	}()
	// If the panic left a lock locked, this would block.
	set(t, cache, "k", "v")
}

func TestUpdateKeepsTheTimeOfExpiry(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{Clock: clock.Now})
	check.NoError(t, cache.Set("k", []byte("v"), time.Second))
	for range 5 {
		check.NoError(t, cache.Update("k", func(value []byte, _ *Item, _ bool) ([]byte, Decision) {
			clock.advance(100 * time.Millisecond)
			return value, StoreItem
		}))
	}
	item, _, _ := cache.Peek("k")
	check.Equal(t, "TTL after five updates of 100 ms", item.TTL, 500*time.Millisecond)
}

func TestUpdatesAreAtomic(t *testing.T) {
	cache := openCache(t, Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 100 {
				_ = cache.Update("k", func(value []byte, _ *Item, _ bool) ([]byte, Decision) {
					return append(value, 'x'), StoreItem
				})
			}
		}()
	}
	all.Wait()
	wantValue(t, cache, "k", strings.Repeat("x", 800))
}

func TestCounters(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "n", "41")
	set(t, cache, "k", "word")
	check.Equal(t, "Incr(n, 1)", must[uint64](t)(cache.Incr("n", 1)), 42)
	check.Equal(t, "Decr(n, 50)", must[uint64](t)(cache.Decr("n", 50)), 0)
	_, err := cache.Incr("none", 1)
	check.ErrorIs(t, "Incr(none)", err, ErrNotFound)
	_, err = cache.Incr("k", 1)
	check.ErrorIs(t, "Incr(k)", err, ErrNotANumber)
}

func TestTimesToLive(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, test := range []struct {
		name    string
		options Options
		ttl     time.Duration
		want    time.Duration // the remaining time of the item
	}{
		{"0 without a default", Options{}, 0, 0},
		{"0 with a default", Options{TTL: time.Minute}, 0, time.Minute},
		{"Forever with a default", Options{TTL: time.Minute}, Forever, 0},
		{"a millisecond", Options{}, time.Millisecond, time.Millisecond},
		{"less than a millisecond", Options{}, time.Nanosecond, time.Millisecond},
		{"292 years", Options{}, Forever - 1, Forever.Truncate(time.Millisecond)},
	} {
		clock := newClock()
		test.options.Clock = clock.Now
		cache := openCache(t, test.options)
		check.NoError(t, cache.Set("k", []byte("v"), test.ttl))
		item, _, ok := cache.Peek("k")
		check.Equal(t, test.name+": found", ok, true)
		check.Equal(t, test.name+": TTL", item.TTL, test.want)
		if test.want == 0 || test.want > century {
			clock.advance(century)
			wantValue(t, cache, "k", "v")
			continue
		}
		clock.advance(test.want - 1)
		wantValue(t, cache, "k", "v")
		clock.advance(1)
		wantNone(t, cache, "k")
	}
}

func TestNegativeTTLRemoves(t *testing.T) {
	is := must[bool](t)
	for name, remove := range map[string]func(cache *Cache){
		"Set":     func(cache *Cache) { check.NoError(t, cache.Set("k", []byte("w"), -time.Second)) },
		"SetItem": func(cache *Cache) { must[uint64](t)(cache.SetItem("k", []byte("w"), Item{TTL: -1})) },
		"Replace": func(cache *Cache) { check.Equal(t, "Replace", is(cache.Replace("k", []byte("w"), -1)), true) },
		"Touch":   func(cache *Cache) { check.Equal(t, "Touch", is(cache.Touch("k", -1)), true) },
		"Update": func(cache *Cache) {
			check.NoError(t, cache.Update("k", func(value []byte, item *Item, _ bool) ([]byte, Decision) {
				item.TTL = -1
				return value, StoreItem
			}))
		},
		"GetAndTouch": func(cache *Cache) {
			value, ok := cache.GetAndTouch("k", -1)
			check.Equal(t, "GetAndTouch", fmt.Sprint(string(value), " ", ok), "v true")
		},
	} {
		cache := openCache(t, Options{TTL: time.Hour})
		set(t, cache, "k", "v")
		remove(cache)
		check.Equal(t, name+": Contains(k)", cache.Contains("k"), false)
		check.Equal(t, name+": Add with a negative ttl", is(cache.Add("k", []byte("w"), -1)), false)
		check.Equal(t, name+": Contains(k) after Add", cache.Contains("k"), false)
	}
}

func TestTouchAndDelete(t *testing.T) {
	clock := newClock()
	cache := openCache(t, Options{Clock: clock.Now})
	is := must[bool](t)
	set(t, cache, "k", "v")
	check.Equal(t, "Touch(k)", is(cache.Touch("k", time.Hour)), true)
	check.Equal(t, "Touch(none)", is(cache.Touch("none", time.Hour)), false)
	value, ok := cache.GetAndTouch("k", time.Minute)
	check.Equal(t, "GetAndTouch(k)", fmt.Sprint(string(value), " ", ok), "v true")
	_, ok = cache.GetAndTouch("none", time.Minute)
	check.Equal(t, "GetAndTouch(none) found", ok, false)
	item, _, _ := cache.Peek("k")
	check.Equal(t, "TTL after GetAndTouch", item.TTL, time.Minute)
	check.Equal(t, "Delete(k)", is(cache.Delete("k")), true)
	check.Equal(t, "second Delete(k)", is(cache.Delete("k")), false)
	check.Equal(t, "Contains(k)", cache.Contains("k"), false)
}

func TestKeysPrefixesAndClear(t *testing.T) {
	cache := openCache(t, Options{})
	for n := range 1000 {
		set(t, cache, fmt.Sprintf("%d:%d", n%2, n), fmt.Sprint(n))
	}
	keys := slices.Sorted(cache.Keys("1:"))
	check.Equal(t, "keys with prefix 1:", len(keys), 500)
	check.Equal(t, "distinct keys with prefix 1:", len(slices.Compact(keys)), 500)
	seen := 0
	for key, value := range cache.All("0:") {
		if key != "0:"+string(value) {
			t.Errorf("All: value of %q = %q, want the part after the colon", key, value)
		}
		// The loop may use the cache, and stop early.
		_, _ = cache.Delete(key)
		if seen++; seen == 10 {
			break
		}
	}
	check.Equal(t, "Len", cache.Len(), 990)
	check.Equal(t, "RemovePrefix(1:)", must[int](t)(cache.RemovePrefix("1:")), 500)
	check.Equal(t, "Len after RemovePrefix", cache.Len(), 490)
	check.NoError(t, cache.Clear())
	check.Equal(t, "Len after Clear", cache.Len(), 0)
}

func TestKeyOf(t *testing.T) {
	cache := openCache(t, Options{})
	key := []byte("key")
	check.NoError(t, cache.Set(KeyOf(key), []byte("v"), 0))
	// The cache has a copy of the key.
	copy(key, "abc")
	wantValue(t, cache, "key", "v")
	check.Equal(t, "KeyOf(nil)", KeyOf(nil), "")
}

func TestInvalidArguments(t *testing.T) {
	cache := openCache(t, Options{})
	for _, key := range []string{"", strings.Repeat("k", 251)} {
		what := fmt.Sprintf(" with a key of %d bytes", len(key))
		_, add := cache.Add(key, nil, -1)
		_, getOrLoad := cache.GetOrLoad(t.Context(), key, loaderOf("v", 0))
		_, incr := cache.Incr(key, 1)
		for name, err := range map[string]error{
			"Set": cache.Set(key, nil, 0), "Add": add, "GetOrLoad": getOrLoad, "Incr": incr,
		} {
			check.ErrorIs(t, name+what, err, ErrKey)
		}
		if _, ok := cache.Get(key); ok || cache.Contains(key) || cache.View(key, func([]byte) {}) {
			t.Errorf("a read%s has found an item", what)
		}
		check.Equal(t, "Delete"+what, must[bool](t)(cache.Delete(key)), false)
		check.Equal(t, "Touch"+what, must[bool](t)(cache.Touch(key, 0)), false)
	}
	err := cache.Set("k", make([]byte, 5<<20), 0)
	check.ErrorIs(t, "Set of 5 MiB", err, ErrTooLarge)
	if !strings.Contains(err.Error(), "5242881 bytes") || !strings.Contains(err.Error(), "Options.") {
		t.Errorf("Set of 5 MiB: error %q, want the size and the option to change", err)
	}
	check.ErrorIs(t, "Set of nil", cache.Set("k", nil, 0), nil)
	_, err = cache.CompareAndSwap("k", nil, 0, 1)
	check.ErrorIs(t, "CompareAndSwap without tokens", err, ErrNoTokens)
	_, err = cache.CompareAndSwap("k", nil, -1, 1)
	check.ErrorIs(t, "CompareAndSwap without tokens, with a negative ttl", err, ErrNoTokens)
}

func TestTooLargeSetRemovesThePreviousItem(t *testing.T) {
	cache := openCache(t, Options{ItemMax: 100})
	set(t, cache, "k", strings.Repeat("v", 99))
	check.ErrorIs(t, "Set of 101 bytes", cache.Set("k", make([]byte, 100), 0), ErrTooLarge)
	wantNone(t, cache, "k")
}

func TestInvalidOptions(t *testing.T) {
	for part, options := range map[string]Options{
		"Options.Memory is -1 bytes":  {Memory: -1},
		"Options.Memory is 1 bytes":   {Memory: 1},
		"Options.ItemMax is -1":       {ItemMax: -1},
		"Options.ItemMax is 1048576,": {Memory: 2 << 20, ItemMax: 1 << 20},
		"Options.TTL is -1s":          {TTL: -time.Second},
		"Options.Sweep is -1s":        {Sweep: -time.Second},
		"Options.LoadTimeout is -1s":  {LoadTimeout: -time.Second},
	} {
		_, err := Open(options)
		if !errors.Is(err, ErrNotOpened) || !strings.Contains(err.Error(), part) {
			t.Errorf("Open(%+v): error %v, want %v with %q", options, err, ErrNotOpened, part)
		}
	}
}

func TestDefaultsHoldAMebibyteAlmost(t *testing.T) {
	cache := must[*Cache](t)(Open(Options{}))
	defer cache.Close()
	check.Equal(t, "MemoryLimit", cache.Stats().MemoryLimit, 64<<20)
	check.NoError(t, cache.Set("k", make([]byte, 1_000_000), 0))
}

func TestClosedCache(t *testing.T) {
	cache := must[*Cache](t)(Open(Options{Memory: 2 << 20, CAS: true}))
	set(t, cache, "k", "v")
	for range 2 {
		check.ErrorIs(t, "Close", cache.Close(), nil)
	}
	wantNone(t, cache, "k")
	check.Equal(t, "View", cache.View("k", func([]byte) {}), false)
	check.Equal(t, "Contains", cache.Contains("k"), false)
	_, del := cache.Delete("k")
	_, add := cache.Add("k", nil, -1)
	_, incr := cache.Incr("k", 1)
	_, touch := cache.Touch("k", 0)
	_, removePrefix := cache.RemovePrefix("")
	_, swap := cache.CompareAndSwap("k", nil, 0, 1)
	_, getOrLoad := cache.GetOrLoad(t.Context(), "k", loaderOf("v", 0))
	for name, err := range map[string]error{
		"Delete": del, "Add": add, "Incr": incr, "Touch": touch, "RemovePrefix": removePrefix,
		"CompareAndSwap": swap, "GetOrLoad": getOrLoad, "Set": cache.Set("k", nil, 0),
		"Clear": cache.Clear(), "Maintain": cache.Maintain(), "Update": cache.Update("k", nil),
		"Save": cache.Save(new(strings.Builder)),
	} {
		check.ErrorIs(t, name, err, ErrClosed)
	}
	for key := range cache.Keys("") {
		t.Errorf("Keys returned %q, want no keys", key)
	}
	check.Equal(t, "Len", cache.Len(), 0)
	check.Equal(t, "Stats", cache.Stats(), Stats{})
}

func TestCloseInsideOfCallbacks(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "v")
	cache.View("k", func(value []byte) {
		check.NoError(t, cache.Close())
		check.Equal(t, "value during View after Close", string(value), "v")
	})
	check.ErrorIs(t, "Set after View", cache.Set("k", nil, 0), ErrClosed)
}

func TestGarbageCollectorClosesUnreachableCache(t *testing.T) {
	var e *engine.Engine
	func() {
		cache := must[*Cache](t)(Open(Options{Memory: 2 << 20, Sweep: time.Hour}))
		e = own.EngineOf(cache)
	}()
	check.Eventually(t, "close of the unreachable cache", func() bool {
		runtime.GC()
		_, err := e.Set("k", nil, 0, 0)
		return errors.Is(err, engine.ErrClosed)
	})
}

func TestOnRemoveReportsRemovals(t *testing.T) {
	clock := newClock()
	var cache *Cache
	var removals []string
	cache = openCache(t, Options{Clock: clock.Now, OnRemove: func(key string, value []byte, reason Reason) {
		// The callback may use the cache.
		_ = cache.Contains(key)
		removals = append(removals, fmt.Sprint(key, " ", string(value), " ", reason))
	}})
	set(t, cache, "a", "one")
	set(t, cache, "a", "two")
	_, _ = cache.Delete("a")
	check.NoError(t, cache.Set("b", []byte("three"), time.Second))
	clock.advance(time.Second)
	check.Equal(t, "removals before the cache finds the expired item", len(removals), 2)
	check.NoError(t, cache.Maintain())
	set(t, cache, "c", "four")
	check.NoError(t, cache.Clear())
	check.Equal(t, "removals", strings.Join(removals, ", "),
		"a one replaced, a two deleted, b three expired, c four cleared")
	evicted := 0
	small := openCache(t, Options{Memory: 1 << 20, OnRemove: func(_ string, _ []byte, reason Reason) {
		check.Equal(t, "reason", reason, Evicted)
		evicted++
	}})
	for n := range 2000 {
		set(t, small, fmt.Sprint(n), strings.Repeat("v", 1000))
	}
	check.Equal(t, "evicted and remaining items", evicted+small.Len(), 2000)
}

func TestSweepRemovesExpiredItems(t *testing.T) {
	check.GoroutineLeaks(t)
	cache := openCache(t, Options{Sweep: time.Millisecond})
	check.NoError(t, cache.Set("k", []byte("v"), time.Millisecond))
	check.Eventually(t, "removal of the expired item", func() bool { return cache.Len() == 0 })
}

func TestReasonString(t *testing.T) {
	for reason, want := range map[Reason]string{
		Deleted: "deleted", Replaced: "replaced", Expired: "expired", Evicted: "evicted",
		Cleared: "cleared", 99: "unknown",
	} {
		check.Equal(t, "String", reason.String(), want)
	}
}

func TestStats(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "v")
	cache.Get("k")
	cache.Get("none")
	// These do not count as reads.
	cache.Contains("k")
	cache.Peek("k")
	for range cache.All("") {
	}
	stats := cache.Stats()
	check.Equal(t, "Hits", stats.Hits, 1)
	check.Equal(t, "Misses", stats.Misses, 1)
	check.Equal(t, "Items", stats.Items, 1)
	check.Equal(t, "Stored", stats.Stored, 1)
	check.Equal(t, "HitRate", stats.HitRate(), 0.5)
	check.Equal(t, "MemoryLimit", stats.MemoryLimit, 8<<20)
	check.Equal(t, "MemoryUsed is 0", stats.MemoryUsed == 0, false)
}

func TestConcurrentGetSetDelete(t *testing.T) {
	cache := openCache(t, Options{Memory: 4 << 20})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			var dst []byte
			for round := range 5_000 {
				key := fmt.Sprint((round*7 + worker) % 300)
				switch round % 5 {
				case 0:
					check.ErrorIs(t, "Set", cache.Set(key, []byte(strings.Repeat(key+" ", round%100)), 0), nil)
				case 1:
					_, _ = cache.Delete(key)
				default:
					var ok bool
					dst, ok = cache.GetInto(dst[:0], key)
					if ok && strings.Repeat(key+" ", len(dst)/(len(key)+1)) != string(dst) {
						t.Errorf("GetInto(%q) = %q, want repetitions of the key", key, dst)
					}
				}
			}
		}()
	}
	group.Wait()
}

func TestAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled || isDebug {
		t.Skip("coverage, the race detector and larder_debug allocate")
	}
	cache := openCache(t, Options{})
	value, keys := make([]byte, 100), []string{"a", "b", "c", "d"}
	for _, key := range keys {
		set(t, cache, key, string(value))
	}
	var dst []byte
	sum := 0
	read := func(value []byte) { sum += len(value) }
	readMany := func(_ int, value []byte) { sum += len(value) }
	for _, test := range []struct {
		name string
		want float64
		do   func()
	}{
		{"Set", 0, func() { _ = cache.Set("a", value, time.Minute) }},
		{"GetInto", 0, func() { dst, _ = cache.GetInto(dst[:0], "a") }},
		{"View", 0, func() { cache.View("a", read) }},
		{"GetMany", 0, func() { cache.GetMany(keys, readMany) }},
		{"Contains", 0, func() { cache.Contains("a") }},
		{"Get", 1, func() { cache.Get("a") }},
	} {
		// This call grows the buffers that later calls reuse.
		test.do()
		check.Equal(t, test.name+": allocations", testing.AllocsPerRun(100, test.do), test.want)
	}
}
