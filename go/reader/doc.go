// Package reader reads the memory of a Larder cache in pure Go, without cgo. A hit takes no system
// call and no lock, and does not write to shared memory.
//
//   - [Attach] reads in the memory of a larderd on the same machine; all other requests go through
//     its unix socket. It detects the end of that server, attaches to the next one, and reports
//     reads as hints for the eviction.
//   - [Open] and [Map] read the file of a cache that processes share through the library, or that a
//     larderd keeps with -e.
//
// A value that is found is a consistent copy. A key that is not found may still be in the cache: it
// may be changing, or be one that only the owner can decide about. A caller therefore requests a
// miss from the owner.
//
// # Reading without a lock
//
// docs/region-format.md describes the bytes and, under "Reading", the order of the loads. Writers
// may write during a copy: the reader compares a sequence number before and after it, which shows
// whether the copied bytes were reused meanwhile, and retries if they were.
//
// In Go's memory model this means the following. All loads are atomic loads of aligned words, also
// within a copy: there is no data race on the reader's side, no word is torn, and no load is
// reordered. The writers are other processes, which Go's memory model does not cover. The format
// requires them to store with at least release ordering, and on the processors that Go supports an
// atomic load observes such a store like one of Go's. The race detector does not observe memory
// that the system has mapped, so it reports and proves nothing there; it observes the package's own
// state (closing, reconnecting, hints).
//
// Data in the memory never makes the reader leave it. Every load is bounded by the mapping, a value
// is never longer than the region, and chains and retries are bounded: a damaged or malicious
// region causes misses and wrong values, but no fault and no endless loop.
//
// # Closing
//
// A read takes no reference and no lock, so Close does not know the readers. It replaces the file
// in the mapping by zeros, in one system call: the file is released at once, and a concurrent
// reader finds the sequence number changed. A cleanup of the garbage collector releases the
// addresses when no goroutine refers to the mapping.
//
// # Systems
//
// The package works on Linux with 64-bit little-endian processors. It compiles elsewhere, and all
// functions that open a cache return an error that matches [errors.ErrUnsupported].
package reader
