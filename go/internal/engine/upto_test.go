package engine

import (
	"bytes"
	"testing"
)

func TestViewUpToDoesNotCopyLongValues(t *testing.T) {
	cache, err := New(Config{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	large := bytes.Repeat([]byte("v"), 100000)
	for key, value := range map[string][]byte{"small": []byte("v"), "large": large} {
		if _, err := cache.Set(key, value, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	view := func(t *testing.T) {
		for _, c := range []struct {
			key         string
			limit, want int
		}{{"small", 10, 1}, {"large", 100000, 100000}, {"large", 99999, 0}} {
			got, size := -1, 0
			found := cache.ViewUpTo(c.key, c.limit, func(value []byte, item Item) {
				got, size = len(value), item.Bytes
			})
			if !found || got != c.want || c.key == "large" && size != len(large) {
				t.Errorf("ViewUpTo(%s, %d) shows %d bytes of %d, want %d", c.key, c.limit, got, size, c.want)
			}
		}
		if cache.ViewUpTo("none", 10, func([]byte, Item) { t.Error("a missing item is shown") }) {
			t.Error("ViewUpTo finds a missing item")
		}
		var seen []int
		cache.GetWhile([]string{"none", "small", "large", "small"}, 10, func(at int, value []byte, _ Item) bool {
			seen = append(seen, at)
			return value != nil
		})
		if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
			t.Errorf("GetWhile visits %v, want 1 and 2", seen)
		}
	}
	view(t)
	// Nested views claim all cells.
	var nest func(depth int)
	nest = func(depth int) {
		if depth == 0 {
			view(t)
			return
		}
		cache.View("small", func([]byte) { nest(depth - 1) })
	}
	nest(1000)
}
