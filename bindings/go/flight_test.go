package larder

import (
	"testing"
	"time"
)

// Whoever boards a load gets what it brings, also where the scheduler lets him wait for it only when all is over.
func TestWhoComesLateToALoadThatIsOverGetsItsValue(t *testing.T) {
	cache := openCache(t, Options{})
	f := cache.flights.join(t.Context(), cache, "k", loaderOf("loaded", time.Minute), false)
	<-f.ctx.Done()
	for range 100 {
		if value, err := f.wait(t.Context()); err != nil || string(value) != "loaded" {
			t.Fatalf("%q, %v", value, err)
		}
	}
}
