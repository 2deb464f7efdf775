// Package reader reads the memory of a Larder cache (its region) in pure Go, without cgo. A hit
// takes no system call and no lock, and does not write to shared memory.
//
//   - [Attach] reads hits from the memory of a larderd on the same machine; all other requests go
//     through its unix socket. The attachment detects the end of that server, attaches to the next
//     server, and reports reads as hints for the eviction.
//   - [Open] and [Map] read the file of a cache that processes share through the library, or that a
//     larderd keeps with -e.
//
// A value that a read returns is a consistent copy. A key that a read does not find may still be in
// the cache. The item may be changing during the read, or the read may need a decision that only
// the owner of the cache can make, for example which client replaces a stale value. The owner is
// the larderd, or the processes that use the library. After a miss, a caller should therefore
// request the key from the owner.
//
// # Reading without a lock
//
// docs/region-format.md describes the bytes and, under "Reading", the order of the loads. Writers
// may write during a copy. The cache stores items in segments, which it empties and reuses as a
// unit. Each use of a segment has a different number, its sequence. The reader loads the sequence
// before and after the copy. If it has changed, the segment was reused during the copy, and the
// reader retries.
//
// In Go's memory model this means the following. All loads are atomic loads of aligned words, also
// within a copy. The reader therefore has no data race, no word is torn, and no load is reordered.
// The writers are other processes, which Go's memory model does not cover. The format requires them
// to store with at least release ordering. On the processors that Go supports, an atomic load
// observes such a store like an atomic store of Go. The race detector does not observe memory that
// the system has mapped, so it reports and proves nothing about it; it observes the package's own
// state (closing, reconnecting, hints).
//
// No data in the memory can make the reader access other memory. Every load is bounded by the
// mapping, a value is never longer than the region, and chains and retries are bounded. A damaged
// or malicious region causes misses and wrong values, but no fault and no endless loop.
//
// # Closing
//
// A read takes no reference and no lock, so Close cannot wait for readers. It replaces the file in
// the mapping with zeros, in one system call. This releases the file immediately. A concurrent
// reader loads a sequence of 0 after its copy, and therefore discards the copy. The addresses stay
// reserved until no goroutine refers to the mapping; then a cleanup of the garbage collector
// releases them.
//
// # Systems
//
// The package works on Linux with 64-bit little-endian processors. It compiles elsewhere, and all
// functions that open a cache return an error that matches [errors.ErrUnsupported].
package reader
