package shared

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"larder.example/larder/internal/scenes"
)

func TestScenesOfAllInterfaces(t *testing.T) {
	player := scenes.Player{
		HasTier: true,
		Errors: map[string]error{
			"missing": ErrNotFound, "changed": ErrChanged, "key": ErrKey, "too_large": ErrTooLarge,
			"not_a_number": ErrNotANumber, "no_tokens": ErrNoTokens, "disk_full": ErrDiskFull,
			"unsupported": ErrUnsupported, "not_opened": ErrNotOpened,
		},
		Open: func(_ *testing.T, settings scenes.Settings, folder string) (scenes.Cache, error) {
			options := Options{Memory: 8 << 20, CAS: settings.CAS}
			path := filepath.Join(folder, "cache")
			if settings.Tier != "" {
				path, options.Tier = "", tierOf(settings, folder)
			}
			cache, err := Open(path, options)
			return scene{cache}, err
		},
	}
	player.Play(t)
}

// tierOf returns the disk tier that a scene requires.
func tierOf(settings scenes.Settings, folder string) *Tier {
	tier := &Tier{Path: filepath.Join(folder, "tier"), Size: settings.TierBytes, DirtyMemory: 64 << 20}
	if tier.Size == 0 {
		tier.Size = 64 << 20
	}
	if settings.Tier == "cache" {
		tier.Mode = TierCache
	}
	return tier
}

// scene adapts a cache to the interface of the scenes.
type scene struct{ *Cache }

func (s scene) Get(key string) ([]byte, time.Duration, error) {
	value, item, err := s.Read([]byte{}, key)
	return value, item.TTL, err
}

func (s scene) GetMany(keys []string) ([][]byte, error) {
	var batch Batch
	if err := s.GetBatch(&batch, keys...); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for at := range keys {
		if value, ok := batch.Value(at); ok {
			values[at] = value
		}
	}
	return values, nil
}

func (s scene) Keys(prefix string) []string { return slices.Sorted(s.Cache.Keys(prefix)) }

func (s scene) Token(key string) uint64 {
	item, _, _ := s.Peek(key)
	return item.CAS
}
