// Package bench measures larder beside other caches for Go, all with the same keys, values and memory.
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

	"larder"
)

// Cache is what is measured of each.
type Cache interface {
	// Get gives a value that stays as it is: a copy, or, of otter and ristretto, the one that was stored.
	Get(key string) ([]byte, bool)
	Set(key string, value []byte)
	Close()
}

// IntoGetter is a cache that can read into memory of the caller's.
type IntoGetter interface {
	// GetInto writes the value over dst, where that has room.
	GetInto(dst []byte, key string) ([]byte, bool)
}

// ManyGetter is a cache that can read several values with one call.
type ManyGetter interface {
	// GetMany says how many of the keys are there.
	GetMany(keys []string) int
}

// Waiter is a cache whose Set does its work later.
type Waiter interface{ Wait() }

// Names are those of the caches.
var Names = []string{"larder", "bigcache", "freecache", "fastcache", "otter", "ristretto"}

// Open opens a cache for so many items that take at most memory bytes, each with a value of ValueBytes; nil where there is
// none of that name; nothing is one that keeps nothing.
func Open(name string, items int, memory int64) (Cache, error) {
	switch name {
	case "larder":
		cache, err := larder.Open(larder.Options{Memory: memory})
		return &ofLarder{cache: cache}, err
	case "bigcache":
		config := bigcache.DefaultConfig(24 * time.Hour)
		config.CleanWindow, config.Verbose = 0, false
		config.MaxEntriesInWindow, config.MaxEntrySize = items, ValueBytes+KeyBytes+18
		config.HardMaxCacheSize = int(memory >> 20)
		cache, err := bigcache.New(context.Background(), config)
		return ofBigcache{cache}, err
	case "freecache":
		return ofFreecache{freecache.NewCache(int(memory))}, nil
	case "fastcache":
		return ofFastcache{fastcache.New(int(memory))}, nil
	case "otter":
		cache, err := otter.New(&otter.Options[string, []byte]{MaximumSize: items + items/8, InitialCapacity: items})
		return ofOtter{cache}, err
	case "ristretto":
		cache, err := ristretto.NewCache(&ristretto.Config[string, []byte]{
			NumCounters: int64(items) * 10, MaxCost: memory, BufferItems: 64})
		return ofRistretto{cache}, err
	case "nothing":
		return nothing{}, nil
	}
	return nil, nil
}

// It shows what a program without a cache has.
type nothing struct{}

func (nothing) Get(string) ([]byte, bool) { return nil, false }
func (nothing) Set(string, []byte)        {}
func (nothing) Close()                    {}

type ofLarder struct {
	cache *larder.Cache
	batch larder.Batch
}

func (c *ofLarder) Get(key string) ([]byte, bool) { return c.cache.Get(key) }

func (c *ofLarder) GetInto(dst []byte, key string) ([]byte, bool) {
	dst, _, err := c.cache.GetInto(dst[:0], key)
	return dst, err == nil
}

func (c *ofLarder) GetMany(keys []string) (hits int) {
	if c.cache.GetBatch(&c.batch, keys...) != nil {
		return 0
	}
	for at := range keys {
		if _, ok := c.batch.Value(at); ok {
			hits++
		}
	}
	return hits
}

func (c *ofLarder) Set(key string, value []byte) { _ = c.cache.Set(key, value, 0) }
func (c *ofLarder) Close()                       { _ = c.cache.Close() }

type ofBigcache struct{ cache *bigcache.BigCache }

func (c ofBigcache) Get(key string) ([]byte, bool) {
	value, err := c.cache.Get(key)
	return value, err == nil
}

func (c ofBigcache) Set(key string, value []byte) { _ = c.cache.Set(key, value) }
func (c ofBigcache) Close()                       { _ = c.cache.Close() }

type ofFreecache struct{ cache *freecache.Cache }

func (c ofFreecache) Get(key string) ([]byte, bool) {
	value, err := c.cache.Get(bytesOf(key))
	return value, err == nil
}

func (c ofFreecache) GetInto(dst []byte, key string) ([]byte, bool) {
	value, err := c.cache.GetWithBuf(bytesOf(key), dst[:cap(dst)])
	return value, err == nil
}

func (c ofFreecache) Set(key string, value []byte) { _ = c.cache.Set(bytesOf(key), value, 0) }
func (c ofFreecache) Close()                       { c.cache.Clear() }

type ofFastcache struct{ cache *fastcache.Cache }

func (c ofFastcache) Get(key string) ([]byte, bool) { return c.cache.HasGet(nil, bytesOf(key)) }

func (c ofFastcache) GetInto(dst []byte, key string) ([]byte, bool) {
	return c.cache.HasGet(dst[:0], bytesOf(key))
}

func (c ofFastcache) Set(key string, value []byte) { c.cache.Set(bytesOf(key), value) }
func (c ofFastcache) Close()                       { c.cache.Reset() }

type ofOtter struct {
	cache *otter.Cache[string, []byte]
}

func (c ofOtter) Get(key string) ([]byte, bool) { return c.cache.GetIfPresent(key) }

// Set stores a copy, as the others do: the caller may use its memory again.
func (c ofOtter) Set(key string, value []byte) { c.cache.Set(key, append([]byte(nil), value...)) }
func (c ofOtter) Wait()                        { c.cache.CleanUp() }
func (c ofOtter) Close()                       { c.cache.InvalidateAll() }

type ofRistretto struct {
	cache *ristretto.Cache[string, []byte]
}

func (c ofRistretto) Get(key string) ([]byte, bool) { return c.cache.Get(key) }

// Set stores a copy, as the others do.
func (c ofRistretto) Set(key string, value []byte) {
	c.cache.Set(key, append([]byte(nil), value...), int64(len(key)+len(value)))
}
func (c ofRistretto) Wait()  { c.cache.Wait() }
func (c ofRistretto) Close() { c.cache.Close() }

// bytesOf is a key without a copy, for caches that want bytes and do not keep them.
func bytesOf(key string) []byte { return unsafe.Slice(unsafe.StringData(key), len(key)) }
