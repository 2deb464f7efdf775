package remote

import (
	"context"
	"slices"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/scenes"
	"larder.example/larder/internal/testserver"
)

// sceneErrors are the errors of package larder by the names of the scenes.
var sceneErrors = map[string]error{
	"missing": larder.ErrNotFound, "changed": larder.ErrChanged, "key": larder.ErrKey,
	"too_large": larder.ErrTooLarge, "not_a_number": larder.ErrNotANumber,
	"no_tokens": larder.ErrNoTokens, "not_opened": larder.ErrNotOpened,
}

// A server without tokens reports that an item has changed, and the protocol has no lists of keys.
func TestScenesOfAllInterfacesOnAServer(t *testing.T) {
	for name, arguments := range map[string][]string{"socket": nil, "local readers": {"--local-readers", "same-uid"}} {
		t.Run(name, func(t *testing.T) {
			player := scenes.Player{
				Errors: sceneErrors,
				Except: []string{"without tokens there are no swaps"},
				Open: func(t *testing.T, settings scenes.Settings, _ string) (scenes.Cache, error) {
					with := arguments
					if !settings.CAS {
						with = append(slices.Clone(arguments), "-C")
					}
					cache, err := Connect(t.Context(), testserver.Start(t, "larderd", with...))
					return remoteScene{cache, t.Context()}, err
				},
			}
			player.Play(t)
		})
	}
}

// remoteScene adapts a remote cache to the interface of the scenes.
type remoteScene struct {
	cache *Cache
	ctx   context.Context
}

func (s remoteScene) Get(key string) ([]byte, time.Duration, error) {
	value, item, err := s.cache.GetItem(s.ctx, key)
	return value, item.TTL, err
}

func (s remoteScene) GetMany(keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := s.cache.GetMany(s.ctx, keys, func(at int, value []byte) { values[at] = append([]byte{}, value...) })
	return values, err
}

func (s remoteScene) Set(key string, value []byte, ttl time.Duration) error {
	return s.cache.Set(s.ctx, key, value, ttl)
}

func (s remoteScene) Add(key string, value []byte, ttl time.Duration) (bool, error) {
	return s.cache.Add(s.ctx, key, value, ttl)
}

func (s remoteScene) Replace(key string, value []byte, ttl time.Duration) (bool, error) {
	return s.cache.Replace(s.ctx, key, value, ttl)
}

func (s remoteScene) Append(key string, part []byte) (bool, error) {
	return s.cache.Append(s.ctx, key, part)
}

func (s remoteScene) Prepend(key string, part []byte) (bool, error) {
	return s.cache.Prepend(s.ctx, key, part)
}

func (s remoteScene) Token(key string) uint64 {
	_, item, _ := s.cache.GetItem(s.ctx, key)
	return item.CAS
}

func (s remoteScene) CompareAndSwap(key string, value []byte, ttl time.Duration, token uint64) (uint64, error) {
	return s.cache.CompareAndSwap(s.ctx, key, value, ttl, token)
}

func (s remoteScene) Delete(key string) (bool, error) { return s.cache.Delete(s.ctx, key) }

func (s remoteScene) Touch(key string, ttl time.Duration) (bool, error) {
	return s.cache.Touch(s.ctx, key, ttl)
}

func (s remoteScene) Incr(key string, delta uint64) (uint64, error) {
	return s.cache.Incr(s.ctx, key, delta)
}

func (s remoteScene) Decr(key string, delta uint64) (uint64, error) {
	return s.cache.Decr(s.ctx, key, delta)
}

func (s remoteScene) Clear() error { return s.cache.Clear(s.ctx) }
func (s remoteScene) Close() error { return s.cache.Close() }
