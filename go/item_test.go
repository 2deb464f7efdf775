package larder

import (
	"fmt"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestSetItemKeepsTheTimeToLiveThatGetItemReturns(t *testing.T) {
	for _, fallback := range []time.Duration{0, time.Hour} {
		opened := time.Now()
		clock := func() time.Time { return opened }
		cache := openCache(t, Options{Memory: 4 << 20, TTL: fallback, CAS: true, Clock: clock})
		check.NoError(t, cache.Set("k", []byte("v"), Forever))
		for range 2 {
			value, item, _ := cache.GetItem("k")
			_, err := cache.SetItem("k", append(value, 'x'), item)
			check.NoError(t, err)
			item.CAS = 0
			_, err = cache.SetItem("k", append(value, 'y'), item)
			check.NoError(t, err)
		}
		item, _, _ := cache.Peek("k")
		check.Equal(t, fmt.Sprintf("TTL of Forever with a default of %v", fallback), item.TTL, 0)
		_, err := cache.SetItem("k", nil, Item{})
		check.NoError(t, err)
		item, _, _ = cache.Peek("k")
		check.Equal(t, "TTL after SetItem with the zero Item", item.TTL, fallback)
	}
}
