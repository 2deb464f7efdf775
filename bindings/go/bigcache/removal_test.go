package bigcache

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// heard is what callbacks were called with, a line each.
type callbackCalls struct {
	lock  sync.Mutex
	lines []string
}

func (h *callbackCalls) add(of ...any) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.lines = append(h.lines, strings.TrimSuffix(fmt.Sprintln(of...), "\n"))
}

// wants waits until as many lines have come, in any order.
func (h *callbackCalls) wantEntry(t testing.TB, lines ...string) {
	t.Helper()
	var found []string
	for end := time.Now().Add(5 * time.Second); len(found) < len(lines) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		h.lock.Lock()
		found = slices.Clone(h.lines)
		h.lock.Unlock()
	}
	slices.Sort(found)
	slices.Sort(lines)
	if !slices.Equal(found, lines) {
		t.Errorf("the callback was called with %.300q; expected %.300q", found, lines)
	}
}

// settled waits until a callback would have been called.
func waitForCallback() { time.Sleep(100 * time.Millisecond) }

func TestCallbacksHearOfWhatExpired(t *testing.T) {
	t.Parallel()
	var calls callbackCalls
	config := expiringConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) {
		calls.add(key, string(entry), reason)
	}
	cache := newCache(t, config)
	set(t, cache, "key", "entry")
	set(t, cache, strings.Repeat("long", 100), "entry")
	calls.want(t, "key entry 1", strings.Repeat("long", 100)+" entry 1")
	if err := cache.Delete("key"); err != ErrEntryNotFound {
		t.Error(err)
	}
	waitForCallback()
	calls.want(t, "key entry 1", strings.Repeat("long", 100)+" entry 1")
}

func TestCallbacksHearOfWhatIsEvicted(t *testing.T) {
	var lock sync.Mutex
	evicted := map[string]bool{}
	config := smallConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) {
		lock.Lock()
		defer lock.Unlock()
		evicted[key] = true
		if reason != NoSpace || string(entry) != strings.Repeat(key, 200) {
			t.Errorf("%q, %.20q, %d", key, entry, reason)
		}
	}
	cache := newCache(t, config)
	for at := range 6000 {
		set(t, cache, fmt.Sprint(1_000_000+at), strings.Repeat(fmt.Sprint(1_000_000+at), 200))
	}
	left := cache.Len()
	eventually(t, "each entry is there or was told of", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(evicted) == 6000-left
	})
	for key := range evicted {
		wantNoEntry(t, cache, key)
	}
}

func TestCallbacksHearOfWhatIsDeletedAndOfNothingElse(t *testing.T) {
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

func TestTheFirstCallbackOfThreeIsCalled(t *testing.T) {
	var calls callbackCalls
	config := smallConfig()
	config.OnRemoveWithReason = func(string, []byte, RemoveReason) { calls.add("with reason") }
	remove := func(key string) {
		t.Helper()
		cache := newCache(t, config)
		set(t, cache, key, "entry")
		_ = cache.Delete(key)
		waitForCallback()
	}
	remove("1")
	config.OnRemove = func(string, []byte) { calls.add("plain") }
	remove("2")
	config.OnRemoveWithMetadata = func(string, []byte, Metadata) { calls.add("with metadata") }
	remove("3")
	calls.want(t, "with reason", "plain", "with metadata")
}

func TestReasonsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	var calls callbackCalls
	config := expiringConfig()
	config.OnRemoveWithReason = func(key string, entry []byte, reason RemoveReason) { calls.add(key, reason) }
	cache := newCache(t, config.OnRemoveFilterSet(Deleted, NoSpace))
	set(t, cache, "expires", "entry")
	eventually(t, "it has expired", func() bool { return cache.Len() == 0 })
	set(t, cache, "deleted", "entry")
	_ = cache.Delete("deleted")
	calls.want(t, "deleted 3")
	// A filter of nothing leaves nothing out.
	if config = config.OnRemoveFilterSet(); !config.reports(Expired) || !config.reports(Deleted) {
		t.Error("without reasons all are told")
	}
}

func TestCallbacksHearHowOftenAKeyWasRequested(t *testing.T) {
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
	// The next entry of the key begins anew.
	set(t, cache, "key", "entry")
	if count := cache.KeyMetadata("key").RequestCount; count != 0 {
		t.Error(count)
	}
}

func TestCallbacksMayUseTheCache(t *testing.T) {
	var calls callbackCalls
	var cache *BigCache
	config := smallConfig()
	config.OnRemove = func(key string, entry []byte) {
		if key == "last" {
			calls.add(key, cache.Close())
			return
		}
		// It may be there for another moment.
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

func TestASlowCallbackHoldsNobodyUp(t *testing.T) {
	free := make(chan struct{})
	config := smallConfig()
	config.OnRemove = func(string, []byte) { <-free }
	cache := newCache(t, config)
	defer close(free)
	for at := range 20_000 {
		set(t, cache, fmt.Sprint(at), "entry")
		_ = cache.Delete(fmt.Sprint(at))
	}
	if err := cache.Close(); err != nil {
		t.Error(err)
	}
}

func TestCallbacksGetNoEntryThatIsLong(t *testing.T) {
	var calls callbackCalls
	config := Config{Shards: 1, HardMaxCacheSize: 64}
	config.OnRemove = func(key string, entry []byte) { calls.add(key, entry == nil, len(entry)) }
	cache := newCache(t, config)
	for _, bytes := range []int{0, 15_000, 17_000} {
		set(t, cache, fmt.Sprint(bytes), strings.Repeat("e", bytes))
		_ = cache.Delete(fmt.Sprint(bytes))
	}
	calls.want(t, "0 false 0", "15000 false 15000", "17000 true 0")
}
