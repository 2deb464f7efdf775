package typed

import (
	"context"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/flight"
)

// loading is the part of a store that package flight uses for its loads.
type loading struct{ store larder.Store }

func (l loading) BeginLoad(key string) (flight.Attempt, []byte, error) {
	if value, err := l.store.Get(context.Background(), key); !isNotFound(err) {
		// Another load has ended since the caller read the key, or the store has failed.
		return nil, value, err
	}
	return &attempt{l.store, key}, nil, nil
}

// attempt is a load for a store without a method GetOrLoad. Only changes through the typed cache
// take precedence over its result.
type attempt struct {
	store larder.Store
	key   string
}

func (a *attempt) Cancel() {}

func (a *attempt) Keep(value []byte, ttl time.Duration, _ func() bool) {
	// If the result is not stored, the next caller loads again.
	_ = a.store.Set(context.Background(), a.key, value, ttl)
}
