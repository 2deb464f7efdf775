// Package bench compares larder with other caches for Go, with the same keys, values and memory.
package bench

import (
	"context"
	"time"
	"unsafe"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/allegro/bigcache/v3"
	"github.com/coocood/freecache"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/maypok86/otter/v2"

	"larder.example/larder"
)

// Cache is the common interface of the measured caches.
type Cache interface {
	// Get returns a value that does not change: a copy or, for otter and ristretto, the stored
	// value.
	Get(key string) ([]byte, bool)
	Set(key string, value []byte)
	Close()
}

// IntoGetter is a cache that can read into the caller's memory.
type IntoGetter interface {
	// GetInto overwrites dst with the value if the capacity suffices.
	GetInto(dst []byte, key string) ([]byte, bool)
}

// ManyGetter is a cache that can read several values in one call.
type ManyGetter interface {
	// GetMany returns the number of keys found.
	GetMany(keys []string) int
}

// Waiter is a cache whose Set is asynchronous.
type Waiter interface{ Wait() }

// Names are the names of the caches.
var Names = []string{"larder", "bigcache", "freecache", "fastcache", "otter", "ristretto"}

// Open opens a cache for this number of items with values of ValueBytes, limited to memory bytes.
// It returns nil for an unknown name. The cache "nothing" stores nothing.
func Open(name string, items int, memory int64) (Cache, error) {
	switch name {
	case "larder":
		cache, err := larder.Open(larder.Options{Memory: memory})
		return &larderCache{cache: cache}, err
	case "bigcache":
		config := bigcache.DefaultConfig(24 * time.Hour)
		config.CleanWindow, config.Verbose = 0, false
		config.MaxEntriesInWindow, config.MaxEntrySize = items, ValueBytes+KeyBytes+18
		config.HardMaxCacheSize = int(memory >> 20)
		cache, err := bigcache.New(context.Background(), config)
		return bigcacheCache{cache}, err
	case "freecache":
		return freecacheCache{freecache.NewCache(int(memory))}, nil
	case "fastcache":
		return fastcacheCache{fastcache.New(int(memory))}, nil
	case "otter":
		cache, err := otter.New(&otter.Options[string, []byte]{MaximumSize: items + items/8, InitialCapacity: items})
		return otterCache{cache}, err
	case "ristretto":
		cache, err := ristretto.NewCache(&ristretto.Config[string, []byte]{
			NumCounters: int64(items) * 10, MaxCost: memory, BufferItems: 64})
		return ristrettoCache{cache}, err
	case "nothing":
		return nothing{}, nil
	}
	return nil, nil
}

// nothing is the baseline of a program without a cache.
type nothing struct{}

func (nothing) Get(string) ([]byte, bool) { return nil, false }
func (nothing) Set(string, []byte)        {}
func (nothing) Close()                    {}

type larderCache struct{ cache *larder.Cache }

func (c *larderCache) Get(key string) ([]byte, bool) { return c.cache.Get(key) }

func (c *larderCache) GetInto(dst []byte, key string) ([]byte, bool) {
	return c.cache.GetInto(dst[:0], key)
}

func (c *larderCache) GetMany(keys []string) (hits int) {
	c.cache.GetMany(keys, func(int, []byte) { hits++ })
	return hits
}

func (c *larderCache) Set(key string, value []byte) { _ = c.cache.Set(key, value, 0) }
func (c *larderCache) Close()                       { _ = c.cache.Close() }

type bigcacheCache struct{ cache *bigcache.BigCache }

func (c bigcacheCache) Get(key string) ([]byte, bool) {
	value, err := c.cache.Get(key)
	return value, err == nil
}

func (c bigcacheCache) Set(key string, value []byte) { _ = c.cache.Set(key, value) }
func (c bigcacheCache) Close()                       { _ = c.cache.Close() }

type freecacheCache struct{ cache *freecache.Cache }

func (c freecacheCache) Get(key string) ([]byte, bool) {
	value, err := c.cache.Get(bytesOf(key))
	return value, err == nil
}

func (c freecacheCache) GetInto(dst []byte, key string) ([]byte, bool) {
	value, err := c.cache.GetWithBuf(bytesOf(key), dst[:cap(dst)])
	return value, err == nil
}

func (c freecacheCache) Set(key string, value []byte) { _ = c.cache.Set(bytesOf(key), value, 0) }
func (c freecacheCache) Close()                       { c.cache.Clear() }

type fastcacheCache struct{ cache *fastcache.Cache }

func (c fastcacheCache) Get(key string) ([]byte, bool) { return c.cache.HasGet(nil, bytesOf(key)) }

func (c fastcacheCache) GetInto(dst []byte, key string) ([]byte, bool) {
	return c.cache.HasGet(dst[:0], bytesOf(key))
}

func (c fastcacheCache) Set(key string, value []byte) { c.cache.Set(bytesOf(key), value) }
func (c fastcacheCache) Close()                       { c.cache.Reset() }

type otterCache struct {
	cache *otter.Cache[string, []byte]
}

func (c otterCache) Get(key string) ([]byte, bool) { return c.cache.GetIfPresent(key) }

// Set stores a copy, as the other caches do: the caller may reuse its memory.
func (c otterCache) Set(key string, value []byte) { c.cache.Set(key, append([]byte(nil), value...)) }
func (c otterCache) Wait()                        { c.cache.CleanUp() }
func (c otterCache) Close()                       { c.cache.InvalidateAll() }

type ristrettoCache struct {
	cache *ristretto.Cache[string, []byte]
}

func (c ristrettoCache) Get(key string) ([]byte, bool) { return c.cache.Get(key) }

// Set stores a copy, as the other caches do.
func (c ristrettoCache) Set(key string, value []byte) {
	c.cache.Set(key, append([]byte(nil), value...), int64(len(key)+len(value)))
}
func (c ristrettoCache) Wait()  { c.cache.Wait() }
func (c ristrettoCache) Close() { c.cache.Close() }

// bytesOf returns a key as bytes without a copy, for caches that do not retain them.
func bytesOf(key string) []byte { return unsafe.Slice(unsafe.StringData(key), len(key)) }
