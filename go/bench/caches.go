// Package bench compares larder with other caches for Go, with the same keys, values and memory. It
// runs on Linux. The programs below it print the tables of docs/benchmarks.md.
package bench

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/allegro/bigcache/v3"
	"github.com/coocood/freecache"

	"larder.example/larder"
)

// Cache is the common interface of the measured caches.
type Cache interface {
	// Get returns a copy of a value or, for caches on Go's heap, the stored value.
	Get(key string) ([]byte, bool)
	// Set stores a copy of key and value: the caller reuses the memory of both.
	Set(key string, value []byte)
	Close()
}

// IntoGetter is a cache that can read into the caller's memory.
type IntoGetter interface {
	// GetInto overwrites dst with the value if the capacity suffices.
	GetInto(dst []byte, key string) ([]byte, bool)
}

// Viewer is a cache that can show a value in place.
type Viewer interface {
	View(key string, read func(value []byte)) bool
}

// ManyGetter is a cache that can read several values in one call.
type ManyGetter interface {
	GetMany(keys []string, visit func(at int, value []byte))
}

// Waiter is a cache whose Set is asynchronous.
type Waiter interface{ Wait() }

// Kind is a cache that can be opened.
type Kind struct {
	Name string
	// OnHeap is true if the values are objects of Go's heap. Get then returns the stored value, and
	// the limit counts keys and values, not the memory that they need.
	OnHeap bool
	// Open opens a cache with a limit in bytes. items is the number of items that it may hold.
	Open func(items int, size int, limit int64) (Cache, error)
}

// Kinds are all caches: package larder, the caches that store bytes, and the caches on Go's heap.
var Kinds = []Kind{
	{"larder", false, openLarder},
	{"fastcache", false, openFastcache},
	{"freecache", false, openFreecache},
	{"BigCache", false, openBigcache},
	{"otter", true, openOtter},
	{"ristretto", true, openRistretto},
	{"theine", true, openTheine},
	{"TQMemory", true, openTQMemory},
}

// KindOf returns the cache with a name. The cache "nothing" stores nothing.
func KindOf(name string) (Kind, error) {
	if name == "nothing" {
		return Kind{name, false, func(int, int, int64) (Cache, error) { return nothing{}, nil }}, nil
	}
	for _, kind := range Kinds {
		if kind.Name == name {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("unknown cache %q", name)
}

// nothing is the baseline of a program without a cache.
type nothing struct{}

func (nothing) Get(string) ([]byte, bool) { return nil, false }
func (nothing) Set(string, []byte)        {}
func (nothing) Close()                    {}

// larderCache inherits View and GetMany.
type larderCache struct{ *larder.Cache }

func openLarder(_, _ int, limit int64) (Cache, error) {
	cache, err := larder.Open(larder.Options{Memory: limit})
	return larderCache{cache}, err
}

func (c larderCache) GetInto(dst []byte, key string) ([]byte, bool) {
	return c.Cache.GetInto(dst[:0], key)
}

func (c larderCache) Set(key string, value []byte) { _ = c.Cache.Set(key, value, 0) }
func (c larderCache) Close()                       { _ = c.Cache.Close() }

type fastcacheCache struct{ *fastcache.Cache }

func openFastcache(_, _ int, limit int64) (Cache, error) {
	return fastcacheCache{fastcache.New(int(limit))}, nil
}

func (c fastcacheCache) Get(key string) ([]byte, bool) { return c.HasGet(nil, bytesOf(key)) }

func (c fastcacheCache) GetInto(dst []byte, key string) ([]byte, bool) {
	return c.HasGet(dst[:0], bytesOf(key))
}

func (c fastcacheCache) Set(key string, value []byte) { c.Cache.Set(bytesOf(key), value) }
func (c fastcacheCache) Close()                       { c.Reset() }

type freecacheCache struct{ cache *freecache.Cache }

func openFreecache(_, _ int, limit int64) (Cache, error) {
	return freecacheCache{freecache.NewCache(int(limit))}, nil
}

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

type bigcacheCache struct{ cache *bigcache.BigCache }

func openBigcache(items, size int, limit int64) (Cache, error) {
	config := bigcache.DefaultConfig(24 * time.Hour)
	config.CleanWindow, config.Verbose = 0, false
	// The sizes are hints for the first allocation: 18 bytes are the header of an entry.
	config.MaxEntriesInWindow, config.MaxEntrySize = items, size+KeyBytes+18
	config.HardMaxCacheSize = int(limit >> 20)
	cache, err := bigcache.New(context.Background(), config)
	return bigcacheCache{cache}, err
}

func (c bigcacheCache) Get(key string) ([]byte, bool) {
	value, err := c.cache.Get(key)
	return value, err == nil
}

func (c bigcacheCache) Set(key string, value []byte) { _ = c.cache.Set(key, value) }
func (c bigcacheCache) Close()                       { _ = c.cache.Close() }

// bytesOf returns a key as bytes without a copy, for caches that do not retain them.
func bytesOf(key string) []byte { return unsafe.Slice(unsafe.StringData(key), len(key)) }
