package larder_test

import (
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
	"larder.example/larder/internal/rules"
)

func TestRulesOfLocalCaches(t *testing.T) {
	kind := rules.Kind{
		Unit: time.Millisecond,
		Open: func(t *testing.T, o rules.Options) larder.Local {
			cache, err := larder.Open(larder.Options{
				Memory: 8 << 20, ItemMax: o.ItemMax, CAS: o.CAS, TTL: o.TTL, Sweep: o.Sweep, OnRemove: o.OnRemove,
			})
			check.NoError(t, err)
			t.Cleanup(func() { _ = cache.Close() })
			return cache
		},
	}
	kind.Check(t)
}
