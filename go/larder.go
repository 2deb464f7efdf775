// Package larder implements a cache outside of Go's heap, in pure Go. The garbage collector does
// not scan its contents, and its memory limit is exact and includes index and metadata.
//
//	cache, err := larder.Open(larder.Options{Memory: 256 << 20})
//	err = cache.Set("greeting", []byte("hello"), time.Minute)
//	value, ok := cache.Get("greeting")
//
// [Open] opens a cache in the memory of the process, on every system and without cgo. Package
// larder/shared opens a cache that processes in several languages share; it needs Linux and cgo.
// Package larder/remote connects to the cache of a larderd or a memcached. A program that works on
// a [Store] moves from one kind of cache to another by changing the line that opens the cache.
// Package larder/typed stores Go values.
//
// # Keys, values, times
//
// Keys have 1 to 250 arbitrary bytes. Values have any number of bytes up to [Options.ItemMax]. A
// time to live is a [time.Duration], rounded up to milliseconds: 0 means [Options.TTL], [Forever]
// means that the item does not expire, and a negative duration removes the item. When the memory of
// a cache in the process is full, the cache evicts items, starting with the items that no caller
// has read again (S3-FIFO).
//
// # Reading
//
// [Cache.Get] allocates a copy, [Cache.GetInto] appends to the caller's memory, and [Cache.View]
// shows the value in place, without a copy. All methods are safe for concurrent use. Reads do not
// fail: reading from a closed cache or with an invalid key is a miss. Writes return an error; test
// it with [errors.Is].
//
// # Memory
//
// The system provides each page on its first use. Go's runtime does not manage the memory, so it
// does not count against GOMEMLIMIT: if you set GOMEMLIMIT, subtract the memory of the cache.
// Builds with the tag larder_heap and builds for WebAssembly allocate all of the memory from Go's
// heap in [Open]; if the system does not have enough memory, Go's runtime ends the program.
//
// # Debugging
//
// With the build tag larder_debug, [Cache.View] and [Cache.GetMany] pass copies and overwrite them
// after the callback. Tests of code that keeps such a slice then fail.
package larder

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"larder.example/larder/internal/engine"
	"larder.example/larder/internal/flight"
	"larder.example/larder/internal/own"
)

// Options configure a cache that [Open] opens. The zero value of each field is its default.
type Options struct {
	// Memory limits the memory of the cache, in bytes, everything included: 1 MiB to 1 TiB, 64 MiB by
	// default. The system provides each page on its first use. Only Close and [Cache.SetMemory]
	// return pages to the system: after a Clear, and when items expire, the cache keeps the memory
	// for other items. A full cache of 256 MiB still uses 256 MiB after a Clear, and 32 MiB after
	// SetMemory(32 << 20).
	Memory int64
	// MemoryMax is the highest limit that [Cache.SetMemory] accepts; Memory by default. It reserves
	// addresses, and tables of about a thousandth of its size, but no other memory. MemoryMax also
	// determines the number of shards. If Memory is less, each shard is smaller, and so is the
	// largest item, which is at most an eighth of a shard.
	MemoryMax int64
	// ItemMax is the largest sum of the lengths of key and value, in bytes. The default depends only
	// on Memory: almost 1 MiB for 64 MiB, 2 MiB for 256 MiB, 4 MiB for 1 GiB and so on; for less than
	// 8 MiB, an eighth of Memory. ItemMax can be almost an eighth of any Memory: the cache then has
	// fewer shards, and writers wait for each other more often.
	ItemMax int
	// CAS adds a token of 8 bytes to each item for [Cache.CompareAndSwap].
	CAS bool
	// TTL is the time to live of items that are stored with a time to live of 0. By default they do
	// not expire.
	TTL time.Duration
	// Sweep is the interval at which the cache removes expired items that no caller reads. By default
	// such items stay until their memory is needed.
	Sweep time.Duration
	// OnRemove is called once for each item that leaves the cache. The goroutine that removes the
	// item calls it, without holding locks, and waits for it: the goroutine of a caller, of a load or
	// of the sweep. OnRemove may use the cache, and may keep and change the value. Closing the cache
	// does not report the items in it.
	OnRemove func(key string, value []byte, reason Reason)

	// StaleFor is how long [Cache.GetOrLoad] may return a loaded value after it has expired, while
	// one caller refreshes it.
	StaleFor time.Duration
	// RefreshBefore is how long before the expiry of a loaded value [Cache.GetOrLoad] refreshes it,
	// while callers still get the old value.
	RefreshBefore time.Duration
	// LoadTimeout limits the duration of a load; 30 seconds by default.
	LoadTimeout time.Duration

	// Clock returns the time by which items expire; [time.Now] by default. Tests replace it.
	Clock func() time.Time
}

// Forever is the time to live of an item that does not expire, whatever [Options.TTL] is.
const Forever time.Duration = 1<<63 - 1

const (
	memoryDefault      = 64 << 20
	loadTimeoutDefault = 30 * time.Second
)

// Cache is a cache in the memory of the process. Close it after use; the garbage collector closes
// an unreachable cache, unless [Options.OnRemove] refers to it. The zero Cache is a closed cache.
type Cache struct {
	engine  *engine.Engine
	loads   *flight.Group
	options Options
	now     func() int64
	cleanup runtime.Cleanup
}

func init() {
	own.EngineOf = func(cache any) *engine.Engine {
		if c, ok := cache.(*Cache); ok && c != nil {
			return c.core()
		}
		return nil
	}
	own.ChangesOf = func(cache any) func(key string) {
		loads := cache.(*Cache).flights()
		return func(key string) {
			if key == "" {
				loads.ForgetPrefix("")
				return
			}
			loads.Forget(key)
		}
	}
}

// Open opens an empty cache in the memory of this process.
func Open(options Options) (*Cache, error) {
	if options.Memory == 0 {
		options.Memory = memoryDefault
	}
	if options.LoadTimeout == 0 {
		options.LoadTimeout = loadTimeoutDefault
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	now, wall := clocks(options.Clock)
	config := engine.Config{
		MemoryBytes: options.Memory, MemoryBytesMax: options.MemoryMax, ItemMax: options.ItemMax, CAS: options.CAS, Sweep: options.Sweep,
		Now: now, Wall: wall,
	}
	if onRemove := options.OnRemove; onRemove != nil {
		config.OnRemove = func(key, value []byte, reason engine.Reason) {
			onRemove(string(key), value, reasonOf(reason))
		}
	}
	e, err := engine.New(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotOpened, err)
	}
	if most := e.ItemMax(); options.ItemMax > most {
		_ = e.Close()
		return nil, fmt.Errorf("%w: Options.ItemMax is %d, but a cache of %d bytes takes items of at most %d: "+
			"raise Options.Memory or lower Options.ItemMax", ErrNotOpened, options.ItemMax, options.Memory, most)
	}
	c := &Cache{engine: e, options: options, now: now}
	c.loads = newLoads(c, options.LoadTimeout)
	// The goroutine that sweeps refers to the engine, not to the cache. The cache can therefore become
	// unreachable, and this cleanup ends the goroutine.
	c.cleanup = runtime.AddCleanup(c, func(e *engine.Engine) { _ = e.Close() }, e)
	return c, nil
}

func (o *Options) check() error {
	if o.Memory < engine.MemoryMin || o.Memory > engine.MemoryMax {
		return fmt.Errorf("%w: Options.Memory is %d bytes, expected %d (1 MiB) to %d (1 TiB), or 0 for 64 MiB",
			ErrNotOpened, o.Memory, engine.MemoryMin, int64(engine.MemoryMax))
	}
	if o.MemoryMax != 0 && (o.MemoryMax < o.Memory || o.MemoryMax > engine.MemoryMax) {
		return fmt.Errorf("%w: Options.MemoryMax is %d bytes, expected Options.Memory, %d, to %d (1 TiB), or 0",
			ErrNotOpened, o.MemoryMax, o.Memory, int64(engine.MemoryMax))
	}
	if o.ItemMax < 0 {
		return fmt.Errorf("%w: Options.ItemMax is %d bytes, expected a positive number, or 0 for the largest possible",
			ErrNotOpened, o.ItemMax)
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"TTL", o.TTL}, {"Sweep", o.Sweep}, {"StaleFor", o.StaleFor}, {"RefreshBefore", o.RefreshBefore},
		{"LoadTimeout", o.LoadTimeout},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: Options.%s is %v, expected a positive duration, or 0 for the default",
				ErrNotOpened, field.name, field.value)
		}
	}
	return nil
}

// clocks returns two clocks in milliseconds: a monotonic clock that starts at 1, and the wall
// clock.
func clocks(clock func() time.Time) (now, wall func() int64) {
	if clock == nil {
		clock = time.Now
	}
	start := clock()
	return func() int64 { return max(int64(clock().Sub(start)/time.Millisecond), 0) + 1 },
		func() int64 { return clock().UnixMilli() }
}

// SetMemory changes the memory limit, in bytes, up to [Options.MemoryMax]. A lower limit evicts
// items as a full cache does, a segment at a time, and returns their memory to the system; on
// systems other than Linux only [Cache.Close] returns it. Memory in use by callbacks of
// [Cache.View] is returned when they end. The error is [ErrInvalid] for a limit above MemoryMax,
// and for a limit that is too low for the index.
func (c *Cache) SetMemory(limit int64) error {
	return c.failure(c.core().SetMemory(limit), "", 0)
}

// Close ends the use of the cache and frees its memory. It does not wait: calls in progress
// complete, and the last one frees the memory. Later reads are misses. Later writes, and the
// callers of loads in progress, get [ErrClosed]. Close may be called several times, and inside
// callbacks and loaders.
func (c *Cache) Close() error {
	c.cleanup.Stop()
	// Close the engine first, and then end the loads with ErrClosed: when a caller receives that
	// error, the cache is already closed.
	err := c.core().Close()
	c.flights().Close()
	return err
}

// core returns the engine of the cache. For the zero Cache it returns a closed engine.
func (c *Cache) core() *engine.Engine {
	if c.engine != nil {
		return c.engine
	}
	return closedEngine()
}

// flights returns the loads of the cache. For the zero Cache it returns a closed group.
func (c *Cache) flights() *flight.Group {
	if c.loads != nil {
		return c.loads
	}
	return closedLoads()
}

var closedEngine = sync.OnceValue(func() *engine.Engine {
	e, err := engine.New(engine.Config{MemoryBytes: engine.MemoryMin, CAS: true})
	if err != nil {
		panic(err)
	}
	_ = e.Close()
	return e
})

var closedLoads = sync.OnceValue(func() *flight.Group {
	loads := flight.NewGroup(nil, flightConfig(loadTimeoutDefault))
	loads.Close()
	return loads
})

// KeyOf returns the bytes of a slice as a key, without a copy. The slice must not change while a
// call with the key is in progress. It may change afterwards, because the cache stores a copy of
// the key.
func KeyOf(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// millis converts a time to live to the unit of the engine: milliseconds, 0 for forever, and -1 if
// it is negative.
func (c *Cache) millis(ttl time.Duration) int64 {
	if ttl == 0 {
		ttl = c.options.TTL
	}
	switch {
	case ttl < 0:
		return -1
	case ttl == Forever:
		return 0
	}
	return roundedUp(ttl)
}

// millisOf is like millis, for the time to live of an item that a read may have returned: see
// Item.isForever.
func (c *Cache) millisOf(item *Item) int64 {
	if item.TTL == 0 && item.isForever {
		return 0
	}
	return c.millis(item.TTL)
}

// roundedUp rounds a duration that is not negative up to milliseconds.
func roundedUp(d time.Duration) int64 {
	whole := int64(d / time.Millisecond)
	if d%time.Millisecond != 0 {
		whole++
	}
	return whole
}
