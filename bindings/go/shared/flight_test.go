package shared

import (
	"testing"
	"time"
)

// The scheduler may run a caller that has joined a load only after the load has ended.
func TestWaitAfterLoadEndedReturnsValue(t *testing.T) {
	cache := openCache(t, Options{})
	f := cache.flights.join(t.Context(), cache, "k", loaderOf("loaded", time.Minute), false)
	<-f.ctx.Done()
	// The select in wait chooses among its ready cases at random.
	for range 100 {
		if value, err := f.wait(t.Context()); err != nil || string(value) != "loaded" {
			t.Fatalf("wait = %q, %v, want %q", value, err, "loaded")
		}
	}
}
