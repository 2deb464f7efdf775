package remote

import (
	"context"
	"errors"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/flight"
)

// GetOrLoad returns the value of a key. If the key has no item, it calls loader and stores the
// result, as [larder.Cache.GetOrLoad] does: all goroutines of this process that request a key at
// the same time share one load.
//
// The result is stored only if the key has not changed since the load began. The protocol has no
// mark for an absent key. If the key has no item when the load begins, GetOrLoad therefore does not
// detect that another client deletes the absent key during the load, or stores an item and deletes
// it again.
func (r *Cache) GetOrLoad(ctx context.Context, key string, loader larder.Loader) ([]byte, error) {
	if err := r.usable(key); err != nil {
		return nil, err
	}
	value, item, err := r.GetItem(ctx, key)
	if err == nil {
		if !r.isFresh(item) {
			r.loads.Refresh(ctx, key, flight.Loader(loader))
		}
		return value, nil
	}
	if !errors.Is(err, larder.ErrNotFound) {
		return nil, err
	}
	return r.loads.Load(ctx, key, flight.Loader(loader))
}

func (r *Cache) isFresh(item larder.Item) bool {
	return item.TTL == 0 || item.TTL > whole(r.options.StaleFor)+whole(r.options.RefreshBefore)
}

// loading is the part of a remote cache that package flight uses for its loads.
type loading struct{ r *Cache }

func (l loading) BeginLoad(key string) (flight.Attempt, []byte, error) {
	value, item, err := l.r.GetItem(l.r.loads.Context(), key)
	switch {
	case err == nil && l.r.isFresh(item):
		// Another load has ended since the caller read the key.
		return nil, value, nil
	case err != nil && !errors.Is(err, larder.ErrNotFound):
		return nil, nil, err
	}
	return &attempt{l.r, key, item, err == nil}, nil, nil
}

// attempt is the state of a key when its load began: its item, or its absence.
type attempt struct {
	r       *Cache
	key     string
	item    larder.Item
	isFound bool
}

func (a *attempt) Cancel() {}

func (a *attempt) Keep(value []byte, ttl time.Duration, _ func() bool) {
	if ttl < 0 {
		return
	}
	if ttl > 0 && ttl != larder.Forever {
		ttl = whole(ttl) + whole(a.r.options.StaleFor)
	}
	ctx, item := a.r.loads.Context(), larder.Item{CAS: a.item.CAS, TTL: ttl}
	// If the result is not stored, the next caller loads again.
	switch {
	case a.isFound && item.CAS != 0:
		_, _ = a.r.swapLoaded(ctx, a.key, value, item)
	case a.isFound:
		// The server has no tokens, so it cannot compare. Store the result if the key still has an item.
		_, _ = a.r.storeLoaded(ctx, a.r.client.ReplaceContext, a.key, value, item)
	default:
		_, _ = a.r.storeLoaded(ctx, a.r.client.AddContext, a.key, value, item)
	}
}

// Store returns the remote cache as a [larder.Store].
func (r *Cache) Store() larder.Store { return store{r} }

type store struct{ *Cache }

func (s store) Delete(ctx context.Context, key string) error {
	_, err := s.Cache.Delete(ctx, key)
	return err
}
