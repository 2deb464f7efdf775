//go:build linux && cgo

package shared

/*
#include <stdlib.h>
#include <larder.h>

extern void larderGoProgress(void *context, size_t done, size_t total);
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// TierMode selects the items that the directory of a disk tier stores.
type TierMode uint32

const (
	// TierStore means all items, which makes a durable store. Memory contains the items in use.
	TierStore TierMode = C.LARDER_MODE_STORE
	// TierCache means the items that memory evicts, which makes a larger cache. [Cache.Close] keeps
	// its contents; after a crash it is empty.
	TierCache TierMode = C.LARDER_MODE_CACHE
)

// Durability selects from when on a change survives a power loss, for a disk tier of mode
// [TierStore].
type Durability uint32

const (
	// DurabilityInterval means that the change is durable at most twice [Tier.Interval] after the call
	// has returned.
	DurabilityInterval Durability = C.LARDER_DURABILITY_INTERVAL
	// DurabilitySync means that the change is durable before the call returns. Changes of several
	// goroutines at the same time share one sync of the disk.
	DurabilitySync Durability = C.LARDER_DURABILITY_SYNC
	// DurabilityAsync means that the change becomes durable some time after the call, usually within
	// 100 ms.
	DurabilityAsync Durability = C.LARDER_DURABILITY_ASYNC
)

// Admission selects the evicted items that a disk tier of mode [TierCache] stores.
type Admission uint32

const (
	// AdmitAll means all items.
	AdmitAll Admission = C.LARDER_ADMIT_ALL
	// AdmitReused means items that were read since they were stored, and items that were stored again
	// soon after an eviction.
	AdmitReused Admission = C.LARDER_ADMIT_REUSED
)

// Tier is a directory on disk for the items of a cache. One process uses it at a time. The zero
// value of each field except Path and Size is its default.
//
// A call that needs an item from the disk waits for one read. With [DurabilitySync] a change waits
// for a sync. A waiting call occupies an OS thread.
type Tier struct {
	// Path is the directory. [Open] creates it if it is missing.
	Path string
	// Size is the size of the log, the file in which the directory stores its items, in bytes: 32 MiB
	// to 64 TiB. Live items can fill four fifths of it. Size can be raised when the cache is opened
	// again, but not lowered.
	Size int64
	// Mode selects the items that the directory stores; [TierStore] by default. The mode of an
	// existing directory cannot change.
	Mode TierMode
	// Durability is the time from which on a change of a store is durable.
	Durability Durability
	// Interval is the interval for [DurabilityInterval], in whole milliseconds; 100 ms by default.
	Interval time.Duration
	// Admission selects the evicted items that the directory stores, with [TierCache].
	Admission Admission
	// Wait is how long a change waits, if the disk does not keep up, before it fails with
	// [ErrDiskBusy]; a second by default.
	Wait time.Duration
	// Stop is how long [Cache.Close] waits for the disk, a minute by default.
	Stop time.Duration
	// DirtyMemory is the memory for changes that are not durable yet, in bytes, in addition to
	// [Options.Memory]. The default is an eighth of [Options.Memory], and at most 64 MiB.
	DirtyMemory int64
	// Progress is called while [Open] reads the log, with the number of segments that it has read and
	// the total number of segments.
	Progress func(done, total int)
}

// progress has the function Tier.Progress while C calls it, and the value of a panic in the
// function.
type progress struct {
	call     func(done, total int)
	panicked any
}

//export larderGoProgress
func larderGoProgress(context unsafe.Pointer, done, total C.size_t) {
	p := (*(*cgo.Handle)(context)).Value().(*progress)
	// A panic must not unwind the stack frames of C. openTier panics again with the value after C has
	// returned.
	defer func() {
		if reason := recover(); reason != nil {
			p.panicked = reason
		}
	}()
	if p.panicked == nil {
		p.call(int(done), int(total))
	}
}

// openTier opens a cache with a disk tier.
func openTier(request *C.larder_options, tier *Tier, open func() (*C.larder, error)) (*C.larder, error) {
	if tier.Size < 0 || tier.DirtyMemory < 0 {
		return nil, fmt.Errorf("%w: Tier.Size and Tier.DirtyMemory must not be negative", ErrNotOpened)
	}
	// Allocate the struct in C's memory: C may not keep pointers to Go memory, and request keeps one
	// to this struct, which contains pointers.
	asked := (*C.larder_tier)(C.calloc(1, C.sizeof_larder_tier))
	defer C.free(unsafe.Pointer(asked))
	asked.struct_bytes = C.sizeof_larder_tier
	asked.path = C.CString(tier.Path)
	defer C.free(unsafe.Pointer(asked.path))
	asked.bytes, asked.dirty_bytes = C.uint64_t(tier.Size), C.uint64_t(tier.DirtyMemory)
	asked.mode, asked.admission = C.uint32_t(tier.Mode), C.uint32_t(tier.Admission)
	asked.durability, asked.interval_ms = C.uint32_t(tier.Durability), millis(tier.Interval)
	asked.wait_ms, asked.stop_ms = millis(tier.Wait), millis(tier.Stop)
	p := progress{call: tier.Progress}
	if tier.Progress != nil {
		handle := cgo.NewHandle(&p)
		defer handle.Delete()
		asked.progress_context = C.malloc(C.size_t(unsafe.Sizeof(handle)))
		defer C.free(asked.progress_context)
		*(*cgo.Handle)(asked.progress_context) = handle
		asked.progress = C.larder_progress(C.larderGoProgress)
	}
	request.tier = asked
	cache, err := open()
	if p.panicked != nil {
		C.larder_close(cache)
		panic(p.panicked)
	}
	return cache, err
}

// millis rounds a duration up to whole milliseconds; 0 is the default.
func millis(d time.Duration) C.uint32_t {
	whole := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	return C.uint32_t(min(whole, 1<<32-1))
}

// Sync makes all changes so far durable. It does nothing without a disk tier.
func (c *Cache) Sync() error {
	calls, err := c.enter()
	if err != nil {
		return err
	}
	defer calls.Add(-1)
	return statusError(C.larder_sync(c.handle))
}

// TierTrouble returns the reason why the disk tier does not work: the reason for [ErrDiskFailed],
// or otherwise the reason for the last [ErrDiskUnreadable]. It returns an empty string if the disk
// tier works, and for a cache without a disk tier.
func (c *Cache) TierTrouble() string {
	calls, err := c.enter()
	if err != nil {
		return ""
	}
	defer calls.Add(-1)
	var why [1024]C.char
	C.larder_tier_trouble(c.handle, &why[0], C.size_t(len(why)))
	return C.GoString(&why[0])
}
