//go:build shared

package bench

import (
	"os"
	"path/filepath"

	"larder.example/larder/shared"
)

// Package shared needs cgo and its library: go run -tags shared ./compare.
func init() { Kinds = append(Kinds, Kind{"larder/shared", false, openShared}) }

type sharedCache struct{ *shared.Cache }

func openShared(_, _ int, limit int64) (Cache, error) {
	folder, err := os.MkdirTemp("/dev/shm", "larder-bench")
	if err != nil {
		return nil, err
	}
	// The memory of a deleted file is released when the process ends.
	defer os.RemoveAll(folder)
	cache, err := shared.Open(filepath.Join(folder, "cache"), shared.Options{Memory: limit})
	return sharedCache{cache}, err
}

func (c sharedCache) GetInto(dst []byte, key string) ([]byte, bool) {
	value, _, err := c.Cache.GetInto(dst[:0], key)
	return value, err == nil
}

func (c sharedCache) Set(key string, value []byte) { _ = c.Cache.Set(key, value, 0) }
func (c sharedCache) Close()                       { _ = c.Cache.Close() }
