package bench

import (
	"runtime"
	"strings"

	"github.com/Yiling-J/theine-go"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/maypok86/otter/v2"
	"github.com/mevdschee/tqmemory/pkg/tqmemory"
)

// The caches on Go's heap keep the slices and strings that they receive, so each Set copies the
// value, and also the key if the cache keeps it.

func weightOf(key string, value []byte) int64 { return int64(len(key) + len(value)) }

func copyOf(value []byte) []byte { return append([]byte(nil), value...) }

type otterCache struct {
	cache *otter.Cache[string, []byte]
}

func openOtter(_, _ int, limit int64) (Cache, error) {
	cache, err := otter.New(&otter.Options[string, []byte]{
		MaximumWeight: uint64(limit),
		Weigher:       func(key string, value []byte) uint32 { return uint32(weightOf(key, value)) },
	})
	return otterCache{cache}, err
}

func (c otterCache) Get(key string) ([]byte, bool) { return c.cache.GetIfPresent(key) }
func (c otterCache) Set(key string, value []byte)  { c.cache.Set(strings.Clone(key), copyOf(value)) }
func (c otterCache) Wait()                         { c.cache.CleanUp() }
func (c otterCache) Close()                        { c.cache.InvalidateAll() }

type ristrettoCache struct {
	cache *ristretto.Cache[string, []byte]
}

func openRistretto(items, _ int, limit int64) (Cache, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[string, []byte]{
		NumCounters: int64(items) * 10, MaxCost: limit, BufferItems: 64})
	return ristrettoCache{cache}, err
}

func (c ristrettoCache) Get(key string) ([]byte, bool) { return c.cache.Get(key) }

// Set does not copy the key, because ristretto keeps only its hash.
func (c ristrettoCache) Set(key string, value []byte) {
	c.cache.Set(key, copyOf(value), weightOf(key, value))
}
func (c ristrettoCache) Wait()  { c.cache.Wait() }
func (c ristrettoCache) Close() { c.cache.Close() }

type theineCache struct {
	cache *theine.Cache[string, []byte]
}

func openTheine(_, _ int, limit int64) (Cache, error) {
	cache, err := theine.NewBuilder[string, []byte](limit).Build()
	return theineCache{cache}, err
}

func (c theineCache) Get(key string) ([]byte, bool) { return c.cache.Get(key) }
func (c theineCache) Set(key string, value []byte) {
	c.cache.Set(strings.Clone(key), copyOf(value), weightOf(key, value))
}
func (c theineCache) Wait()  { c.cache.Wait() }
func (c theineCache) Close() { c.cache.Close() }

type tqmemoryCache struct{ cache *tqmemory.ShardedCache }

func openTQMemory(_, _ int, limit int64) (Cache, error) {
	config := tqmemory.DefaultConfig()
	config.MaxMemory = limit
	// NewSharded lowers GOMAXPROCS to the number of its workers.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cache, err := tqmemory.NewSharded(config, max(tqmemory.DefaultThreadCount, runtime.NumCPU()))
	return tqmemoryCache{cache}, err
}

func (c tqmemoryCache) Get(key string) ([]byte, bool) {
	value, _, _, err := c.cache.Get(key)
	return value, err == nil
}

func (c tqmemoryCache) Set(key string, value []byte) {
	_, _ = c.cache.Set(strings.Clone(key), copyOf(value), 0)
}
func (c tqmemoryCache) Close() { _ = c.cache.Close() }
