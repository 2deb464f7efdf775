package larder

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// twoHandles are of one cache in a file.
func twoHandles(t *testing.T, options Options) (one, other *Cache) {
	path := filepath.Join(t.TempDir(), "cache")
	options.Memory = 4 << 20
	open := func() *Cache {
		cache := must[*Cache](t)(OpenShared(path, options))
		t.Cleanup(func() { _ = cache.Close() })
		return cache
	}
	return open(), open()
}

// changes are what others do to "k" during a load, and what is there afterwards.
var changes = []struct {
	name  string
	do    func(t *testing.T, other *Cache)
	after string
}{
	{"set", func(t *testing.T, other *Cache) { set(t, other, "k", "newer") }, "newer"},
	{"delete", func(t *testing.T, other *Cache) { must[bool](t)(other.Delete("k")) }, ""},
	{"set and delete", func(t *testing.T, other *Cache) {
		set(t, other, "k", "newer")
		must[bool](t)(other.Delete("k"))
	}, ""},
	{"clear", func(t *testing.T, other *Cache) { _ = other.Clear() }, ""},
	{"remove prefix", func(t *testing.T, other *Cache) { must[int](t)(other.RemovePrefix("k")) }, ""},
	{"get", func(t *testing.T, other *Cache) { other.Get("k") }, "loaded"},
}

func TestWhatAnotherHandleDoesDuringALoadWins(t *testing.T) {
	checkGoroutineLeaks(t)
	for _, tokens := range []bool{false, true} {
		for _, held := range []bool{false, true} {
			for _, change := range changes {
				t.Run(fmt.Sprintf("%s, tokens %v, refresh %v", change.name, tokens, held), func(t *testing.T) {
					one, other := twoHandles(t, Options{CAS: tokens, StaleFor: time.Hour})
					if held {
						// As an old value is.
						if err := one.Set("k", []byte("old"), time.Minute); err != nil {
							t.Fatal(err)
						}
					}
					loadDuring(t, one, func() { change.do(t, other) })
					value, _ := other.Get("k")
					if string(value) != change.after {
						t.Errorf("it is %q; expected %q", value, change.after)
					}
				})
			}
		}
	}
}

// loadDuring loads "k" while something else happens, and waits until that is over.
func loadDuring(t *testing.T, cache *Cache, meanwhile func()) {
	t.Helper()
	done := make(chan struct{})
	_, err := cache.GetOrLoad(t.Context(), "k", func(context.Context, string) ([]byte, time.Duration, error) {
		defer close(done)
		meanwhile()
		return []byte("loaded"), time.Hour, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-done
	// The caller of a refresh does not wait for it.
	for end := time.Now().Add(5 * time.Second); cache.flights.count.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the load goes on")
		}
	}
}

// A set that has passed the board when a load begins is not overwritten by what that load brings.
func TestASetThatBeganBeforeARefreshWins(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		cache := openCache(t, Options{CAS: tokens, StaleFor: time.Hour})
		if err := cache.Set("k", []byte("old"), time.Minute); err != nil {
			t.Fatal(err)
		}
		cache.flights.forget("k")
		loadDuring(t, cache, func() {
			if err := cache.set("k", []byte("newer"), 0); err != nil {
				t.Error(err)
			}
		})
		wantValue(t, cache, "k", "newer")
	}
}

func TestALoadThatBringsNothingLeavesNothing(t *testing.T) {
	cache := openCache(t, Options{})
	fails := func(context.Context, string) ([]byte, time.Duration, error) { return nil, 0, context.Canceled }
	panics := func(context.Context, string) ([]byte, time.Duration, error) { panic("a defect") }
	for _, loader := range []Loader{fails, panics, loaderOf("over at once", -1)} {
		_, _ = cache.GetOrLoad(t.Context(), "k", loader)
		for end := time.Now().Add(5 * time.Second); cache.Len() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the key is still reserved")
			}
		}
	}
}
