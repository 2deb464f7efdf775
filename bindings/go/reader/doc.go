// Package reader reads the memory of a Larder cache from Go alone, without cgo: a hit costs no system call, takes no lock
// and writes nothing that others see.
//
//   - [Attach] reads in the memory of a larderd on the same machine, through whose unix socket everything else goes. It
//     notices when that server is gone, finds the next one, and tells what was read, so that eviction knows.
//   - [Open] and [Map] read the file of a cache: one that processes share by the library, or that a larderd keeps with -e.
//
// What is found is a copy that was whole at one time. What is not found may still be there: it may be changing, or be one
// of those that only the cache's owner can speak of, so a miss is for the owner to answer.
//
// # How it reads
//
// docs/region-format.md describes the bytes, and under "Reading" the order in which a reader without a lock has to look at
// them. Others write while it copies: before and after the copy it looks at a number that tells whether the copied bytes
// were put to another use meanwhile, and begins anew where they were.
//
// In Go's memory model that stands as follows. All loads are those of sync/atomic, of aligned words, also within a copy:
// so there is no data race on the reader's side, no word is torn, and no load is moved past another. The writers are
// other processes, of which Go's memory model says nothing; that they store with at least release ordering is the
// format's promise, and on the processors that Go runs on an atomic load sees such a store as one of Go's would be seen.
// The race detector does not watch memory that the system mapped, so it neither reports nor proves anything there; what
// is Go's own (who closes, who attaches anew, hints) it sees.
//
// Nothing that stands in the memory leads out of it. Each offset is held to the mapping when it is loaded from, a value is
// never longer than the region, and chains and retries have an end: a region that is damaged, or made by an enemy, gives
// misses and wrong values, no fault and no endless loop.
//
// # Closing
//
// A read takes no reference and no lock, so Close does not know who reads. It puts zeros in the file's place in the
// mapping, in one system call: the file is let go of at once, and whoever is reading finds the number changed. The
// addresses are given back by a cleanup of the garbage collector, when no goroutine holds the mapping any more.
//
// # Where it works
//
// On Linux with 64-bit little-endian processors. Elsewhere it compiles, and every way to open something fails with an
// error that is [errors.ErrUnsupported]: then ask the server for everything.
package reader
