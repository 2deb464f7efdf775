package engine

import (
	"testing"

	"larder.example/larder/internal/check"
)

// The first second of a cache is 0, and the seconds of accesses wrap after 48 days.
func TestSecondsSinceAnAccessAreNeverTooFew(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	for _, begin := range []int64{1, 999, 1000, 48*day + 999, 49 * day, 500 * day} {
		clock := newClock()
		clock.now.Store(begin)
		e := openTest(t, clock.config(Config{TrackAccess: true}))
		_, err := e.Set("k", []byte("v"), 0, 0)
		check.NoError(t, err)
		for _, passed := range []int64{0, 1000, 1001, 99_999, 40 * day} {
			clock.now.Store(begin + passed)
			item, ok := e.Look("k")
			check.Equal(t, "the item is there", ok, true)
			since, ok := e.SinceAccess(item)
			check.Equal(t, "accesses are recorded", ok, true)
			if since < passed/1000 || since > passed/1000+1 {
				t.Errorf("%d ms after a set at %d ms: %d s", passed, begin, since)
			}
		}
	}
}
