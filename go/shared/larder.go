//go:build linux && cgo

// Package shared is a cache in a file that several processes, in any language, map at the same
// time. The file outlives the processes. With [Options.Tier] it is instead a cache of one process
// with a disk tier: a directory on disk that also stores items.
//
// Its contents are outside of Go's heap, and its memory limit is exact and includes index and
// metadata. A cache that one process uses, in memory only, needs neither this package nor cgo:
// [larder.Open] returns such a cache. Both kinds have the methods of [larder.Local], which
// documents the differences.
//
// All methods are safe for concurrent use. Each adds the cost of one cgo call, about 50 ns;
// [Cache.GetMany] pays it once for all keys. [Cache.GetInto] and [Cache.Set] do not allocate.
//
// Keys have 1 to 250 arbitrary bytes. Values have any number of bytes up to [Options.ItemMax]. A
// time to live is a [time.Duration], rounded up to whole seconds: 0 means [Options.TTL],
// [larder.Forever] means that the item does not expire, and a negative duration removes the item.
//
// Reads do not fail: a read from a closed cache, with an invalid key, or of a value that the disk
// does not return is a miss. [Cache.Read] returns the error.
//
// The package requires Linux, cgo and an archive in lib, which `make` in the folder of the Go
// module builds.
package shared

/*
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"fmt"
	"io/fs"
	"runtime"
	"time"
	"unsafe"

	"larder.example/larder"
	"larder.example/larder/internal/flight"
)

// Options configure a cache. The zero value of each field is its default.
type Options struct {
	// Memory limits the memory of the cache, in bytes, everything included: 1 MiB to 1 TiB, 64 MiB
	// by default. The system provides each page on its first use.
	Memory int64
	// MemoryMax is the highest limit that [Cache.SetMemory] accepts; Memory by default. It reserves
	// addresses, not memory.
	MemoryMax int64
	// ItemMax is the largest sum of the lengths of key and value, in bytes: almost 1 MiB by default,
	// and at most almost half of the memory.
	ItemMax int
	// CAS adds a token of 8 bytes to each item for [Cache.CompareAndSwap].
	CAS bool
	// NoEviction makes stores fail with [ErrNoMemory] when memory is full, instead of evicting
	// items.
	NoEviction bool
	// TTL is the time to live of items that are stored with a time to live of 0. By default they do
	// not expire.
	TTL time.Duration
	// Sweep, if not 0, makes a thread of the cache remove expired items that no caller reads. It does
	// so every second; the length of the interval has no effect. By default such items stay until
	// their memory is needed. The thread skips segments (the ranges of memory that are reused as a
	// unit) to which other threads are writing. It also evicts items in advance, so that writers find
	// free memory.
	Sweep time.Duration
	// HugePages allocates the memory from the system's reserved huge pages.
	HugePages bool

	// StaleFor is how long [Cache.GetOrLoad] may return a loaded value after it has expired, while
	// one caller refreshes it.
	StaleFor time.Duration
	// RefreshBefore is how long before the expiry of a loaded value [Cache.GetOrLoad] refreshes it,
	// while callers still get the old value.
	RefreshBefore time.Duration
	// LoadTimeout limits the duration of a load; 30 seconds by default.
	LoadTimeout time.Duration

	// OnRemove is called once for each item that this process removes from the cache. One goroutine
	// calls it, without holding locks. It may block, use the cache, and keep the value. The value is
	// nil if the cache stored it in pieces, which it does for values above 16 KiB or an eighth of a
	// segment. While RemovalQueue items wait for OnRemove, the cache drops further removals and
	// counts them in [Stats.RemovalsLost]. Closing the cache does not report the items in it.
	OnRemove func(key string, value []byte, reason larder.Reason)
	// RemovalQueue is the number of items that may wait for OnRemove: 10,000 by default, a million
	// at most.
	RemovalQueue int

	// Permissions apply to the files that a shared cache creates, 0600 by default.
	Permissions fs.FileMode
	// Exactly makes [Open] fail if the cache in the file has other values of Memory, CAS or
	// NoEviction.
	Exactly bool
	// ReplaceUnusable replaces an unusable cache in the file with an empty cache, if no process uses
	// it.
	ReplaceUnusable bool
	// Alone makes [Open] fail if another process is using the cache in the file.
	Alone bool

	// Tier adds a directory on disk that also stores items; nil means no directory. A cache with a
	// Tier has no file: only one process uses it, and the path passed to [Open] is empty.
	Tier *Tier
}

// Cache is a cache. Close it after use; the garbage collector closes an unreachable cache.
type Cache struct {
	handle   *C.larder
	gate     callGate
	loads    *flight.Group
	options  Options
	removals *removals
	cleanup  runtime.Cleanup
}

var _ larder.Local = (*Cache)(nil)

// Open opens the cache in a file, shared by all processes that open it. It keeps the existing
// contents, and creates an empty cache if the file does not exist. A tmpfs such as /dev/shm is
// fastest. Killing a process at any time does not affect the others.
//
// With [Options.Tier], and only then, the path must be empty: Open opens a cache of this process
// with that directory.
func Open(path string, options Options) (*Cache, error) {
	switch {
	case path == "" && options.Tier == nil:
		return nil, fmt.Errorf("%w: the path is empty: pass the file of a shared cache, set Options.Tier, "+
			"or use larder.Open for a cache in the memory of one process", ErrNotOpened)
	case path != "" && options.Tier != nil:
		return nil, fmt.Errorf("%w: the path is %q, and a cache with Options.Tier is in the memory of one process: "+
			"pass an empty path", ErrNotOpened, path)
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	request := C.larder_options{
		struct_bytes:     C.sizeof_larder_options,
		memory_bytes:     C.uint64_t(options.Memory),
		memory_bytes_max: C.uint64_t(options.MemoryMax),
		item_bytes_max:   options.itemBytesMax(),
		permissions:      C.uint32_t(options.Permissions.Perm()),
		flags:            options.flags(),
	}
	if path != "" {
		request.path = C.CString(path)
		defer C.free(unsafe.Pointer(request.path))
	}
	open := func() (handle *C.larder, err error) {
		var why [1024]C.char
		if C.larder_open(&request, &handle, &why[0], C.size_t(len(why))) != C.LARDER_OK {
			err = fmt.Errorf("%w: %s", ErrNotOpened, C.GoString(&why[0]))
		}
		return handle, err
	}
	if options.Tier != nil {
		plain := open
		open = func() (*C.larder, error) { return openTier(&request, options.Tier, plain) }
	}
	handle, err := open()
	if err != nil {
		return nil, err
	}
	return newCache(handle, options)
}

func (o *Options) check() error {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Memory", o.Memory}, {"MemoryMax", o.MemoryMax}, {"ItemMax", int64(o.ItemMax)}, {"TTL", int64(o.TTL)},
		{"Sweep", int64(o.Sweep)}, {"StaleFor", int64(o.StaleFor)}, {"RefreshBefore", int64(o.RefreshBefore)},
		{"LoadTimeout", int64(o.LoadTimeout)},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: Options.%s is negative, expected a positive number, or 0 for the default",
				ErrNotOpened, field.name)
		}
	}
	return nil
}

// itemBytesMax converts ItemMax to the limit of the C library, which counts an item like memcached:
// with its header, its token, and a few bytes after the key and the value. 0 means the default of
// the C library.
func (o *Options) itemBytesMax() C.uint64_t {
	const headerBytes, tokenBytes, endBytes = 48, 8, 3
	switch {
	case o.ItemMax == 0:
		return 0
	case o.CAS:
		return C.uint64_t(o.ItemMax) + headerBytes + tokenBytes + endBytes
	}
	return C.uint64_t(o.ItemMax) + headerBytes + endBytes
}

func (o *Options) flags() (flags C.uint32_t) {
	for flag, is := range map[C.uint32_t]bool{
		C.LARDER_CAS:               o.CAS,
		C.LARDER_NO_EVICTION:       o.NoEviction,
		C.LARDER_MAINTAINER:        o.Sweep > 0,
		C.LARDER_HUGE_PAGES:        o.HugePages,
		C.LARDER_EXACTLY:           o.Exactly,
		C.LARDER_REPLACES_UNUSABLE: o.ReplaceUnusable,
		C.LARDER_ALONE:             o.Alone,
	} {
		if is {
			flags |= flag
		}
	}
	return flags
}

func newCache(handle *C.larder, options Options) (*Cache, error) {
	if options.LoadTimeout <= 0 {
		options.LoadTimeout = 30 * time.Second
	}
	cache := &Cache{handle: handle, options: options}
	cache.loads = newLoads(cache, options.LoadTimeout)
	if options.OnRemove != nil {
		removals, err := subscribe(handle, options)
		if err != nil {
			C.larder_close(handle)
			return nil, err
		}
		cache.removals = removals
	}
	// The cleanup runs when the cache is unreachable, so no call is in progress. It closes the cache
	// in a separate goroutine: stopping a disk tier waits for the disk, and must not delay other
	// cleanups.
	cache.cleanup = runtime.AddCleanup(cache, func(r resources) { go func() { _ = r.close() }() },
		resources{handle, cache.removals})
	return cache, nil
}

// resources are the parts of a cache that must be released when it closes.
type resources struct {
	handle   *C.larder
	removals *removals
}

func (r resources) close() error {
	if r.removals != nil {
		r.removals.stop()
	}
	var left C.uint64_t
	outcome := C.larder_stop(r.handle, &left)
	C.larder_close(r.handle)
	if outcome != C.LARDER_OK {
		return fmt.Errorf("%w: %d bytes are not durable", statusError(outcome), uint64(left))
	}
	return nil
}

// Close releases the memory of this process; the contents of a shared cache remain in its file for
// other processes. Close ends the loads in progress and waits for all other calls in progress. The
// callers of these loads, and all later calls, receive [ErrClosed]. Closing a closed cache has no
// effect.
//
// With a disk tier it makes all changes durable, and with [TierCache] also the items in memory. The
// error is [ErrDiskFailed] if the disk does not store them within [Tier.Stop].
func (c *Cache) Close() error {
	// End loads first: their callers may be in the middle of a call.
	c.loads.Close()
	if !c.gate.close() {
		return nil
	}
	c.cleanup.Stop()
	return resources{c.handle, c.removals}.close()
}

// stringData returns a pointer to the bytes of a key or a value. C does not dereference the pointer
// if the string is empty.
func stringData(s string) *C.uint8_t { return (*C.uint8_t)(unsafe.StringData(s)) }

func sliceData(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

// seconds converts a time to live to the whole seconds that the C library expects, rounded up. ttl
// may be larder.Forever, and 0, which means Options.TTL. It returns false if ttl is negative.
func (c *Cache) seconds(ttl time.Duration) (C.uint32_t, bool) {
	if ttl == 0 {
		ttl = c.options.TTL
	}
	switch {
	case ttl < 0:
		return 0, false
	case ttl == larder.Forever:
		return 0, true
	}
	secs := ttl / time.Second
	if ttl%time.Second != 0 {
		secs++
	}
	return C.uint32_t(min(secs, 1<<32-1)), true
}
