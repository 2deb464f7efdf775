package flight

import (
	"context"
	"testing"
	"time"
)

// emptyCache stores nothing.
type emptyCache struct{}

func (emptyCache) BeginLoad(string) (Attempt, []byte, error) { return emptyCache{}, nil, nil }
func (emptyCache) Keep([]byte, time.Duration, func() bool)   {}
func (emptyCache) Cancel()                                   {}

// The scheduler may run a caller that has joined a load only after the load has ended.
func TestWaitAfterLoadEndedReturnsValue(t *testing.T) {
	group := NewGroup(emptyCache{}, Config{Timeout: time.Minute})
	defer group.Close()
	loader := func(context.Context, string) ([]byte, time.Duration, error) {
		return []byte("loaded"), 0, nil
	}
	f := group.join(t.Context(), "k", loader, false)
	<-f.ctx.Done()
	// The select in wait chooses among its ready cases at random.
	for range 100 {
		if value, err := f.wait(t.Context()); err != nil || string(value) != "loaded" {
			t.Fatalf("wait = %q, %v, want %q", value, err, "loaded")
		}
	}
}
