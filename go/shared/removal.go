//go:build linux && cgo

package shared

/*
#include <larder.h>
*/
import "C"

import (
	"sync/atomic"
	"unsafe"

	"larder.example/larder"
)

// reasonOf converts a reason of the C library.
func reasonOf(reason C.uint32_t) larder.Reason {
	switch reason {
	case C.LARDER_REPLACED:
		return larder.Replaced
	case C.LARDER_EXPIRED:
		return larder.Expired
	case C.LARDER_EVICTED:
		return larder.Evicted
	case C.LARDER_CLEARED:
		return larder.Cleared
	}
	return larder.Deleted
}

// removal is an item that has left the cache.
type removal struct {
	key    string
	value  []byte
	reason larder.Reason
}

// removals has the goroutine that calls OnRemove, and the queue of the C library from which it
// receives the removed items.
type removals struct {
	queue   *C.larder_removals
	call    func(key string, value []byte, reason larder.Reason)
	stopped atomic.Bool
	ended   chan struct{}
}

func subscribe(handle *C.larder, options Options) (*removals, error) {
	capacity := options.RemovalQueue
	if capacity <= 0 {
		capacity = 10_000
	}
	r := &removals{call: options.OnRemove, ended: make(chan struct{})}
	if outcome := C.larder_subscribe(handle, C.size_t(capacity), &r.queue); outcome != C.LARDER_OK {
		return nil, status(outcome)
	}
	go r.run()
	return r, nil
}

// waitMillis is the longest time for which the goroutine waits for an item in C, in milliseconds.
// Then it checks whether it should stop.
const waitMillis = 20

func (r *removals) run() {
	defer close(r.ended)
	// The goroutine must not refer to the cache, so that the garbage collector can close an
	// unreachable cache.
	for !r.stopped.Load() {
		if item, ok := r.next(); ok {
			r.call(item.key, item.value, item.reason)
		}
	}
}

func (r *removals) next() (removal, bool) {
	var key [C.LARDER_KEY_BYTES_MAX]byte
	var keyBytes C.size_t
	var valueBytes C.uint64_t
	var reason C.uint32_t
	var stack [stackBytes]byte
	value := stack[:]
	for {
		outcome := C.larder_removals_next(r.queue, waitMillis, unsafe.Pointer(&key), &keyBytes,
			unsafe.Pointer(sliceData(value)), C.size_t(len(value)), &valueBytes, &reason)
		switch outcome {
		case C.LARDER_OK:
			item := removal{key: string(key[:keyBytes]), reason: reasonOf(reason)}
			if valueBytes != C.LARDER_NO_VALUE {
				item.value = append([]byte{}, value[:valueBytes]...)
			}
			return item, true
		case C.LARDER_TOO_SMALL:
			value = make([]byte, valueBytes)
		default:
			return removal{}, false
		}
	}
}

func (r *removals) lost() uint64 {
	var lost C.uint64_t
	C.larder_removals_lost(r.queue, &lost)
	return uint64(lost)
}

// stop tells the goroutine to end. It does not wait for a callback in progress, because the
// callback itself may have called Close.
func (r *removals) stop() {
	r.stopped.Store(true)
	go func() {
		<-r.ended
		C.larder_removals_close(r.queue)
	}()
}
