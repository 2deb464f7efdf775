package larder

import (
	"context"
	"slices"
	"testing"
	"time"

	"larder.example/larder/internal/scenes"
	"larder.example/larder/internal/testserver"
)

// sceneErrors are the errors of this package by the names of the scenes.
var sceneErrors = map[string]error{
	"missing": ErrNotFound, "changed": ErrChanged, "key": ErrKey, "too_large": ErrTooLarge,
	"not_a_number": ErrNotANumber, "no_tokens": ErrNoTokens, "not_opened": ErrNotOpened,
}

func TestScenesOfAllInterfaces(t *testing.T) {
	player := scenes.Player{
		Errors: sceneErrors,
		Open: func(t *testing.T, settings scenes.Settings, _ string) (scenes.Cache, error) {
			cache, err := Open(Options{Memory: 8 << 20, CAS: settings.CAS})
			return localScene{cache}, err
		},
	}
	player.Play(t)
}

// localScene is a cache as the scenes use it.
type localScene struct{ *Cache }

func (s localScene) Get(key string) ([]byte, time.Duration, error) {
	value, err := s.Store().Get(context.Background(), key)
	item, _, _ := s.Peek(key)
	return value, item.TTL, err
}

func (s localScene) GetMany(keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	s.Cache.GetMany(keys, func(at int, value []byte) { values[at] = append([]byte{}, value...) })
	return values, nil
}

func (s localScene) Keys(prefix string) []string { return slices.Sorted(s.Cache.Keys(prefix)) }

func (s localScene) Token(key string) uint64 {
	item, _, _ := s.Peek(key)
	return item.CAS
}

// A server without tokens says that an item has changed, and lists of keys are not in the protocol.
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
					remote, err := Connect(t.Context(), testserver.Start(t, "larderd", with...))
					return remoteScene{remote, t.Context()}, err
				},
			}
			player.Play(t)
		})
	}
}

// remoteScene is a remote cache as the scenes use it.
type remoteScene struct {
	remote *Remote
	ctx    context.Context
}

func (s remoteScene) Get(key string) ([]byte, time.Duration, error) {
	value, item, err := s.remote.GetItem(s.ctx, key)
	return value, item.TTL, err
}

func (s remoteScene) GetMany(keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := s.remote.GetMany(s.ctx, keys, func(at int, value []byte) { values[at] = append([]byte{}, value...) })
	return values, err
}

func (s remoteScene) Set(key string, value []byte, ttl time.Duration) error {
	return s.remote.Set(s.ctx, key, value, ttl)
}

func (s remoteScene) Add(key string, value []byte, ttl time.Duration) (bool, error) {
	return s.remote.Add(s.ctx, key, value, ttl)
}

func (s remoteScene) Replace(key string, value []byte, ttl time.Duration) (bool, error) {
	return s.remote.Replace(s.ctx, key, value, ttl)
}

func (s remoteScene) Append(key string, part []byte) (bool, error) {
	return s.remote.Append(s.ctx, key, part)
}

func (s remoteScene) Prepend(key string, part []byte) (bool, error) {
	return s.remote.Prepend(s.ctx, key, part)
}

func (s remoteScene) Token(key string) uint64 {
	_, item, _ := s.remote.GetItem(s.ctx, key)
	return item.CAS
}

func (s remoteScene) CompareAndSwap(key string, value []byte, ttl time.Duration, token uint64) (uint64, error) {
	return s.remote.CompareAndSwap(s.ctx, key, value, ttl, token)
}

func (s remoteScene) Delete(key string) (bool, error) { return s.remote.Delete(s.ctx, key) }

func (s remoteScene) Touch(key string, ttl time.Duration) (bool, error) {
	return s.remote.Touch(s.ctx, key, ttl)
}

func (s remoteScene) Incr(key string, delta uint64) (uint64, error) {
	return s.remote.Incr(s.ctx, key, delta)
}

func (s remoteScene) Decr(key string, delta uint64) (uint64, error) {
	return s.remote.Decr(s.ctx, key, delta)
}

func (s remoteScene) Clear() error { return s.remote.Clear(s.ctx) }
func (s remoteScene) Close() error { return s.remote.Close() }
