// Package bigcache has the exported API of BigCache v3.1 on a Larder cache, for programs that
// change only an import. It omits BigCache's packages queue and server; larderd is a server.
//
// # Improvements
//
//   - The memory limit includes everything, and is exact. Overwritten and deleted entries release
//     their memory.
//   - Eviction removes the least wanted entries. An entry with its key may take almost an eighth of
//     the memory, up to almost 1 MiB; a larger one does not evict others.
//   - An expired entry is never returned. Two keys never share an entry, whatever the Hasher. Keys
//     may have any length.
//   - Callbacks may use the cache. Close may be called twice, and by a callback.
//   - An iterator returns each entry as it was at SetNext, and no expired entries.
//
// # Differences
//
//   - The goroutine whose call removes an entry calls the callbacks, without locks.
//   - With a LifeWindow of 0 entries do not expire; in BigCache they live for a second. Fractions
//     of a second count; BigCache truncates them. A negative value is an error. A CleanWindow below
//     a second counts as one second.
//   - Entries expire without another Set: [BigCache.GetWithInfo] never returns Expired, because an
//     expired entry does not exist, and [BigCache.Delete] does not find it.
//   - An entry that is too large removes the previous entry of its key, so that no reader gets the
//     entry that was to be replaced.
//   - After Close, or after the end of the context of [New], the memory is released, and all
//     methods with an error result return [larder.ErrClosed]. BigCache continues without cleaning
//     up.
//   - Without HardMaxCacheSize the limit is half of the machine's memory: beyond it entries are
//     evicted.
//   - [BigCache.Capacity] returns the memory in use, not the memory reserved. [Stats] has no
//     collisions, and the Logger is not used, because there are neither collisions nor allocations
//     to log.
//   - The request count of a key restarts after the callback for its removal.
package bigcache
