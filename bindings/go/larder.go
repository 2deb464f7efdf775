//go:build linux && cgo

// Package larder is a cache outside of Go's heap: the garbage collector neither sees nor scans what is in it, and its
// memory has a limit that holds to the byte, index and accounts included.
//
// A [Cache] is one of three, with the same methods:
//
//   - in the process: [Open],
//   - in a file that several processes map, in whatever language, and that outlives them: [OpenShared],
//   - kept by a larderd on the same machine, whose memory it reads without asking: [Connect].
//
// All methods may be called by any number of goroutines. Those of a connected cache call no C: see package larder/client. What
// the others cost beside the work of the cache is one call into C,
// some 50 ns; [Cache.GetMany] pays it once for all keys. [Cache.GetInto] and [Cache.Set] allocate nothing.
//
// Keys have 1 to 250 bytes of any kind, values any number up to [Options.ItemMax]. Time is counted in whole seconds: a part
// of one counts as a whole.
//
// The package needs cgo and lib/liblarder.a beside it, which `make` in this folder builds. The packages larder/client and
// larder/reader need neither.
package larder

/*
#cgo CFLAGS: -I${SRCDIR}/lib
#cgo LDFLAGS: ${SRCDIR}/lib/liblarder.a -lm -ldl -lpthread
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"time"
	"unsafe"
)

// Options say how a cache is opened. The zero value of each is its default.
type Options struct {
	// Memory is all that the cache may take, in bytes, everything included: 1 MiB to 1 TiB, 64 MiB by default. It is
	// taken from the system page by page as it is first used.
	Memory int64
	// MemoryMax is what [Cache.SetMemory] can raise it to; Memory by default. It takes addresses, not memory.
	MemoryMax int64
	// ItemMax is the largest item accepted, in bytes: key, value, and 51 bytes, 59 with CAS. 1 MiB by default, and at
	// most half of the memory.
	ItemMax int64
	// CAS has items carry tokens for [Cache.CompareAndSwap], 8 bytes each.
	CAS bool
	// NoEviction has stores fail with [ErrNoMemory] where memory runs out, in place of evicting.
	NoEviction bool
	// Maintainer has a thread of its own take back what expired within seconds, and evict ahead of the writers. Without
	// it writers do, and expired items keep their memory until it is needed.
	Maintainer bool
	// HugePages takes memory of huge pages that the system has set aside.
	HugePages bool

	// StaleFor is how long after its time a value that was loaded may still be given to callers of [Cache.GetOrLoad]
	// while one of them refreshes it.
	StaleFor time.Duration
	// RefreshBefore is how long before its time is over such a value is refreshed, while callers still get it.
	RefreshBefore time.Duration
	// LoadTimeout ends loads; 30 seconds by default.
	LoadTimeout time.Duration

	// OnRemoval is called for each item that leaves the cache, in a goroutine of the cache's own: it may take its time
	// and use the cache. What comes while RemovalQueue items wait for it is lost, and counted in
	// [Stats.RemovalsLost]. Items that are there when the cache is closed are not told.
	OnRemoval func(Removal)
	// RemovalQueue is how many items may wait for OnRemoval: 10,000 by default, a million at most.
	RemovalQueue int

	// Permissions are those of the files of a shared cache that are made, 0600 by default.
	Permissions fs.FileMode
	// Exactly wants of a cache that is in the file the memory, CAS and eviction that are asked for.
	Exactly bool
	// ReplaceUnusable has a cache in the file that cannot be used make way for an empty one, if no process uses it.
	ReplaceUnusable bool
	// Alone makes it an error that another process uses the cache that is in the file.
	Alone bool
}

// Cache is a cache. Close it when it is not needed any more; one that nobody refers to any more is closed by the garbage
// collector.
type Cache struct {
	// One of the two: a cache that this process has mapped, or a server's.
	handle  *C.larder
	remote  *remote
	gate    callGate
	flights flights
	options Options
	// What ends with the cache.
	ctx      context.Context
	end      context.CancelFunc
	removals *removals
	cleanup  runtime.Cleanup
}

// Open opens an empty cache in the memory of this process.
func Open(options Options) (*Cache, error) {
	return open("", options)
}

// OpenShared opens the cache in a file, for all processes that open it: what is there as it is, or an empty one. It is best
// on a tmpfs such as /dev/shm. Any process may be killed at any time without harm to the others.
func OpenShared(path string, options Options) (*Cache, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: the path of a shared cache is empty", ErrNotOpened)
	}
	return open(path, options)
}

func open(path string, options Options) (*Cache, error) {
	if options.Memory < 0 || options.MemoryMax < 0 || options.ItemMax < 0 {
		return nil, fmt.Errorf("%w: Memory, MemoryMax and ItemMax are bytes, and none is below 0", ErrNotOpened)
	}
	request := C.larder_options{
		struct_bytes:     C.sizeof_larder_options,
		memory_bytes:     C.uint64_t(options.Memory),
		memory_bytes_max: C.uint64_t(options.MemoryMax),
		item_bytes_max:   C.uint64_t(options.ItemMax),
		permissions:      C.uint32_t(options.Permissions.Perm()),
		flags:            options.flags(),
	}
	if path != "" {
		request.path = C.CString(path)
		defer C.free(unsafe.Pointer(request.path))
	}
	var handle *C.larder
	var why [1024]C.char
	if C.larder_open(&request, &handle, &why[0], C.size_t(len(why))) != C.LARDER_OK {
		return nil, fmt.Errorf("%w: %s", ErrNotOpened, C.GoString(&why[0]))
	}
	return newCache(handle, nil, options)
}

func (o *Options) flags() (flags C.uint32_t) {
	for flag, is := range map[C.uint32_t]bool{
		C.LARDER_CAS:               o.CAS,
		C.LARDER_NO_EVICTION:       o.NoEviction,
		C.LARDER_MAINTAINER:        o.Maintainer,
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

func newCache(handle *C.larder, server *remote, options Options) (*Cache, error) {
	if options.LoadTimeout <= 0 {
		options.LoadTimeout = 30 * time.Second
	}
	ctx, end := context.WithCancel(context.Background())
	cache := &Cache{handle: handle, remote: server, options: options, ctx: ctx, end: end}
	if options.OnRemoval != nil {
		removals, err := subscribe(handle, options)
		if err != nil {
			C.larder_close(handle)
			end()
			return nil, err
		}
		cache.removals = removals
	}
	// For a cache that was forgotten: nobody uses it then.
	cache.cleanup = runtime.AddCleanup(cache, func(r resources) { r.close() },
		resources{handle, server, end, cache.removals})
	return cache, nil
}

// What is to be given back of a cache.
type resources struct {
	handle   *C.larder
	remote   *remote
	end      context.CancelFunc
	removals *removals
}

func (r resources) close() {
	r.end()
	if r.removals != nil {
		r.removals.stop()
	}
	if r.remote != nil {
		_ = r.remote.client.Close()
	}
	C.larder_close(r.handle)
}

// Close gives the memory back; that of a shared cache stays for the others. It waits for calls that are under way, and ends
// loads: their callers get [ErrClosed], as do all later calls. Closing a closed cache does nothing.
func (c *Cache) Close() error {
	// Loads end first, for those who wait for them may be using the cache.
	c.end()
	if !c.gate.close() {
		return nil
	}
	c.cleanup.Stop()
	resources{c.handle, c.remote, c.end, c.removals}.close()
	return nil
}

// text is where the bytes of a key or a value begin; the pointer of an empty one is not looked at.
func stringData(s string) *C.uint8_t { return (*C.uint8_t)(unsafe.StringData(s)) }

func sliceData(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

// seconds is a time to live as the cache counts it, 0 for ever; false where it is over already.
func seconds(ttl time.Duration) (C.uint32_t, bool) {
	if ttl < 0 {
		return 0, false
	}
	whole := (ttl + time.Second - 1) / time.Second
	return C.uint32_t(min(max(whole, 0), 1<<32-1)), true
}
