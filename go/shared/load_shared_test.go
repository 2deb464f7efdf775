package shared

import (
	"context"
	"fmt"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// concurrentChanges are changes of "k" through another handle during a load, and its value
// afterwards. The value is empty if the key has no item.
var concurrentChanges = []struct {
	name string
	do   func(t *testing.T, other *Cache)
	want string
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

func TestLoadDoesNotOverwriteOtherHandle(t *testing.T) {
	check.GoroutineLeaks(t)
	for _, tokens := range []bool{false, true} {
		for _, refresh := range []bool{false, true} {
			for _, change := range concurrentChanges {
				name := fmt.Sprintf("%s, tokens %v, refresh %v", change.name, tokens, refresh)
				t.Run(name, func(t *testing.T) {
					one, other := openTwice(t, Options{CAS: tokens, StaleFor: time.Hour})
					if refresh {
						// Less than StaleFor to live: the value is stale.
						check.ErrorIs(t, "Set", one.Set("k", []byte("old"), time.Minute), nil)
					}
					loadDuring(t, one, func() { change.do(t, other) })
					value, _ := other.Get("k")
					check.Equal(t, "Get(k)", string(value), change.want)
				})
			}
		}
	}
}

// The set has passed the check for a load in flight when the load begins.
func TestLoadDoesNotOverwriteSetThatBeganBefore(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		cache := openCache(t, Options{CAS: tokens, StaleFor: time.Hour})
		check.ErrorIs(t, "Set", cache.Set("k", []byte("old"), time.Minute), nil)
		cache.loads.Forget("k")
		loadDuring(t, cache, func() {
			check.ErrorIs(t, "set", cache.set("k", []byte("newer"), 0), nil)
		})
		wantValue(t, cache, "k", "newer")
	}
}

func TestLoadWithoutResultReleasesReservation(t *testing.T) {
	panics := func(context.Context, string) ([]byte, time.Duration, error) { panic("a defect") }
	loaders := map[string]Loader{
		"error":        loaderFailing(context.Canceled),
		"panic":        panics,
		"negative ttl": loaderOf("expired at once", -1),
	}
	for name, loader := range loaders {
		t.Run(name, func(t *testing.T) {
			cache := openCache(t, Options{})
			_, _ = cache.GetOrLoad(t.Context(), "k", loader)
			check.Eventually(t, "release of the key", func() bool { return cache.Len() == 0 })
		})
	}
}
