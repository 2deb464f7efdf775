package shared

import (
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/rules"
)

func TestRulesOfLocalCaches(t *testing.T) {
	kind := rules.Kind{
		Unit: time.Second,
		Open: func(t *testing.T, o rules.Options) larder.Local {
			return openCache(t, Options{
				Memory: 8 << 20, ItemMax: o.ItemMax, CAS: o.CAS, TTL: o.TTL, Sweep: o.Sweep, OnRemove: o.OnRemove,
			})
		},
	}
	kind.Check(t)
}
