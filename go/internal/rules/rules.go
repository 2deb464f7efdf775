// Package rules tests the behaviour that the caches on this machine have in common: limits,
// removals, sweeping and rounding. Package scenes tests their results.
package rules

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

// Options are the options that both caches have.
type Options struct {
	ItemMax  int
	CAS      bool
	TTL      time.Duration
	Sweep    time.Duration
	OnRemove func(key string, value []byte, reason larder.Reason)
}

// Kind is a kind of cache under test.
type Kind struct {
	// Open opens an empty cache of 8 MiB, which the test closes at its end.
	Open func(t *testing.T, options Options) larder.Local
	// Unit is the unit to which the cache rounds times to live up.
	Unit time.Duration
}

// Check plays all tests, each on new caches.
func (k *Kind) Check(t *testing.T) {
	for name, test := range map[string]func(*Kind, *testing.T){
		"limit": (*Kind).limit, "removals": (*Kind).removals, "evictions": (*Kind).evictions, "sweep": (*Kind).sweep,
		"rounding": (*Kind).rounding, "default TTL": (*Kind).defaultTTL, "negative TTL": (*Kind).negativeTTL,
		"invalid keys": (*Kind).invalidKeys, "many": (*Kind).many, "closed": (*Kind).closed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(k, t)
		})
	}
}

// ItemMax is the sum of the lengths of key and value, whatever else the cache stores with them.
func (k *Kind) limit(t *testing.T) {
	for _, hasTokens := range []bool{false, true} {
		cache := k.Open(t, Options{ItemMax: 1000, CAS: hasTokens})
		for _, key := range []string{"k", strings.Repeat("k", 250)} {
			longest := make([]byte, 1000-len(key))
			check.NoError(t, cache.Set(key, longest, 0))
			value, ok := cache.Get(key)
			check.Equal(t, "Get of the longest item", ok && len(value) == len(longest), true)
			err := cache.Set(key, append(longest, 0), 0)
			check.ErrorIs(t, fmt.Sprintf("Set of a byte more, with a key of %d bytes, CAS %v", len(key), hasTokens),
				err, larder.ErrTooLarge)
			check.Equal(t, "Contains, after a Set that fails", cache.Contains(key), false)
		}
	}
}

// recorder collects the removals that a cache reports.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) add(key string, value []byte, reason larder.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, fmt.Sprintf("%s=%s %v", key, value, reason))
}

func (r *recorder) list() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.seen, ", ")
}

func (k *Kind) removals(t *testing.T) {
	var seen recorder
	cache := k.Open(t, Options{OnRemove: seen.add})
	check.NoError(t, cache.Set("k", []byte("one"), 0))
	check.NoError(t, cache.Set("k", []byte("two"), 0))
	_, err := cache.Delete("k")
	check.NoError(t, err)
	check.NoError(t, cache.Set("k", []byte("three"), 0))
	check.NoError(t, cache.Set("k", nil, -1))
	_, err = cache.Delete("none")
	check.NoError(t, err)
	const want = "k=one replaced, k=two deleted, k=three deleted"
	check.Eventually(t, "the removals "+want, func() bool { return seen.list() == want })
}

func (k *Kind) evictions(t *testing.T) {
	var mu sync.Mutex
	removed := map[string]bool{}
	cache := k.Open(t, Options{OnRemove: func(key string, value []byte, reason larder.Reason) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case reason != larder.Evicted:
			t.Errorf("removal of %q: %v, want evicted", key, reason)
		case len(value) != 1000:
			t.Errorf("removal of %q with a value of %d bytes, want 1000", key, len(value))
		case removed[key]:
			t.Errorf("second removal of %q", key)
		}
		removed[key] = true
	}})
	const stored = 12_000
	for number := range stored {
		check.NoError(t, cache.Set(fmt.Sprint(number), make([]byte, 1000), 0))
		if number%1000 == 0 {
			// A shared cache has space for 10,000 removals that OnRemove has not received yet, and drops
			// further ones. Let it catch up.
			time.Sleep(time.Millisecond)
		}
	}
	check.Eventually(t, "one removal of each item that is not in the cache", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(removed)+cache.Len() == stored
	})
}

// If the cache sweeps, expired items that no caller reads are removed soon. A shared cache skips
// the segments that threads are writing to, so some items may stay.
func (k *Kind) sweep(t *testing.T) {
	var mu sync.Mutex
	reasons := map[larder.Reason]int{}
	cache := k.Open(t, Options{Sweep: time.Second, OnRemove: func(_ string, _ []byte, reason larder.Reason) {
		mu.Lock()
		defer mu.Unlock()
		reasons[reason]++
	}})
	check.NoError(t, cache.Set("long", []byte("v"), time.Hour))
	const short = 5000
	for number := range short {
		check.NoError(t, cache.Set(fmt.Sprint(number), make([]byte, 200), time.Second))
	}
	check.Eventually(t, "the removal of four fifths of the expired items", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return reasons[larder.Expired] >= short*4/5 && reasons[larder.Expired]+cache.Len() == short+1
	})
	check.Equal(t, "Contains of the item that lives for long", cache.Contains("long"), true)
	check.Equal(t, "reasons", len(reasons), 1)
}

// An item expires at the end of its time to live, or up to a unit later.
func (k *Kind) rounding(t *testing.T) {
	cache := k.Open(t, Options{CAS: true})
	for _, ttl := range []time.Duration{
		time.Nanosecond, time.Millisecond, time.Second - 1, time.Second, time.Second + 1, time.Hour + time.Millisecond,
		100 * 365 * 24 * time.Hour, larder.Forever - 1,
	} {
		stored := time.Now()
		check.NoError(t, cache.Set("k", []byte("v"), ttl))
		item, _, ok := cache.Peek("k")
		if !ok {
			check.Equal(t, fmt.Sprintf("end of an item of %v", ttl), time.Since(stored) >= ttl, true)
			continue
		}
		longest := ttl.Truncate(k.Unit)
		if longest < ttl && longest < larder.Forever-k.Unit {
			longest += k.Unit
		}
		if item.TTL <= 0 || item.TTL > longest {
			t.Errorf("TTL of an item of %v = %v, want at most %v", ttl, item.TTL, longest)
		}
	}
	check.NoError(t, cache.Set("k", []byte("v"), 500*time.Millisecond))
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		check.Equal(t, "Contains before the end", cache.Contains("k") || time.Now().After(end), true)
	}
	check.Eventually(t, "the end of the item", func() bool { return !cache.Contains("k") })
}

func (k *Kind) defaultTTL(t *testing.T) {
	cache := k.Open(t, Options{TTL: time.Hour})
	for ttl, want := range map[time.Duration]time.Duration{
		0: time.Hour, time.Minute: time.Minute, larder.Forever: 0,
	} {
		check.NoError(t, cache.Set("k", []byte("v"), ttl))
		item, _, _ := cache.Peek("k")
		if item.TTL > want || item.TTL < want-10*time.Second {
			t.Errorf("TTL of an item with a ttl of %v = %v, want %v", ttl, item.TTL, want)
		}
	}
	_, err := cache.Touch("k", 0)
	check.NoError(t, err)
	item, _, _ := cache.Peek("k")
	check.Equal(t, "TTL after a Touch with the default", item.TTL > 59*time.Minute, true)
}

func (k *Kind) negativeTTL(t *testing.T) {
	cache := k.Open(t, Options{})
	stores := func() {
		t.Helper()
		check.NoError(t, cache.Set("k", []byte("v"), 0))
	}
	stores()
	added, err := cache.Add("new", []byte("v"), -1)
	check.Equal(t, "Add with a negative ttl", added || err != nil || cache.Contains("new"), false)
	for name, change := range map[string]func() (bool, error){
		"Set":     func() (bool, error) { return true, cache.Set("k", []byte("v"), -1) },
		"Replace": func() (bool, error) { return cache.Replace("k", []byte("v"), -1) },
		"Touch":   func() (bool, error) { return cache.Touch("k", -1) },
	} {
		stores()
		done, err := change()
		check.Equal(t, name+" with a negative ttl", done && err == nil, true)
		check.Equal(t, "Contains after "+name, cache.Contains("k"), false)
	}
}

// An invalid key has no item, and a store under it fails.
func (k *Kind) invalidKeys(t *testing.T) {
	cache := k.Open(t, Options{CAS: true})
	for _, key := range []string{"", strings.Repeat("k", 251)} {
		_, isFound := cache.Get(key)
		deleted, errDelete := cache.Delete(key)
		touched, errTouch := cache.Touch(key, time.Minute)
		check.Equal(t, "Get, Contains, Delete or Touch found", isFound || cache.Contains(key) || deleted || touched, false)
		check.NoError(t, errDelete)
		check.NoError(t, errTouch)
		_, errAdd := cache.Add(key, nil, 0)
		_, errIncr := cache.Incr(key, 1)
		_, errSwap := cache.CompareAndSwap(key, nil, 0, 1)
		for name, err := range map[string]error{
			"Set": cache.Set(key, nil, 0), "Add": errAdd, "Incr": errIncr, "CompareAndSwap": errSwap,
		} {
			check.ErrorIs(t, fmt.Sprintf("%s with a key of %d bytes", name, len(key)), err, larder.ErrKey)
		}
	}
}

func (k *Kind) many(t *testing.T) {
	cache := k.Open(t, Options{})
	check.NoError(t, cache.Set("a", []byte("1"), 0))
	check.NoError(t, cache.Set("empty", nil, 0))
	var got []string
	keys := []string{"none", "a", "", "empty", "a"}
	cache.GetMany(keys, func(at int, value []byte) { got = append(got, fmt.Sprintf("%d=%s", at, value)) })
	check.Equal(t, "GetMany", strings.Join(got, " "), "1=1 3= 4=1")
	value, item, ok := cache.GetItem("empty")
	check.Equal(t, "GetItem of an empty value", ok && value != nil && len(value) == 0 && item.TTL == 0, true)
	value, ok = cache.GetInto([]byte("<"), "a")
	check.Equal(t, "GetInto", fmt.Sprint(string(value), ok), "<1true")
	value, ok = cache.GetInto([]byte("<"), "none")
	check.Equal(t, "GetInto of a miss", fmt.Sprint(string(value), ok), "<false")
}

func (k *Kind) closed(t *testing.T) {
	cache := k.Open(t, Options{CAS: true})
	check.NoError(t, cache.Set("k", []byte("v"), 0))
	check.NoError(t, cache.Close())
	check.NoError(t, cache.Close())
	_, _, isFound := cache.GetItem("k")
	check.Equal(t, "GetItem or Contains found", isFound || cache.Contains("k"), false)
	check.Equal(t, "Len", cache.Len(), 0)
	_, errAdd := cache.Add("k", nil, 0)
	_, errDelete := cache.Delete("k")
	_, errPrefix := cache.RemovePrefix("")
	_, errGet := cache.Store().Get(t.Context(), "k")
	for name, err := range map[string]error{
		"Set": cache.Set("k", nil, 0), "Add": errAdd, "Delete": errDelete, "RemovePrefix": errPrefix,
		"Clear": cache.Clear(), "Maintain": cache.Maintain(), "Get of the store": errGet,
	} {
		check.ErrorIs(t, name, err, larder.ErrClosed)
	}
}
