package larder

import (
	"context"
	"slices"
	"testing"
	"time"

	"larder.example/larder/internal/scenes"
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

// localScene adapts a cache to the interface of the scenes.
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
