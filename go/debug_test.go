//go:build larder_debug

package larder

import (
	"testing"

	"larder.example/larder/internal/check"
)

const isDebug = true

// Code that keeps a slice of View fails in a test with the tag larder_debug, not in production.
func TestDebugBuildOverwritesTheBytesOfViewAfterwards(t *testing.T) {
	cache := openCache(t, Options{})
	set(t, cache, "k", "value")
	var kept []byte
	cache.View("k", func(value []byte) {
		kept = value
		check.Equal(t, "value during View", string(value), "value")
	})
	check.Equal(t, "value after View", string(kept), "\xDB\xDB\xDB\xDB\xDB")
	cache.GetMany([]string{"k"}, func(_ int, value []byte) { kept = value })
	check.Equal(t, "value after GetMany", string(kept), "\xDB\xDB\xDB\xDB\xDB")
	wantValue(t, cache, "k", "value")
}
