package shared

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"larder.example/larder/internal/check"
)

func TestKeysAndAllVisitEveryItem(t *testing.T) {
	cache := openCache(t, Options{})
	for n := range 1000 {
		set(t, cache, fmt.Sprintf("%d:%d", n%2, n), fmt.Sprint(n))
	}
	keys := slices.Compact(slices.Sorted(cache.Keys("1:")))
	check.Equal(t, "distinct keys with prefix 1:", len(keys), 500)
	check.Equal(t, "smallest key with prefix 1:", keys[0], "1:1")
	seen := 0
	for key, value := range cache.All("") {
		if !strings.HasSuffix(key, ":"+string(value)) {
			t.Errorf("All: value of %q = %q, want the part after the colon", key, value)
		}
		// The loop may use the cache, and stop early.
		_, _ = cache.Delete(key)
		if seen++; seen == 10 {
			break
		}
	}
	check.Equal(t, "Len", cache.Len(), 990)
}
