// Package bigcache has the exported API of BigCache v3 on a Larder cache, for programs that change
// only an import. It is pure Go and builds on all systems. It omits BigCache's packages queue and
// server; larderd is a server.
//
// # Improvements
//
//   - The memory limit includes everything, and is exact. Overwritten and deleted entries release
//     their memory.
//   - Eviction removes the least wanted entries. An entry with its key may take almost an eighth
//     of the memory, up to almost 1 MiB; a larger one does not evict others.
//   - An expired entry is never returned. Two keys never share an entry, whatever the Hasher. Keys
//     may have any length.
//   - Callbacks may use the cache. Close may be called several times, by several goroutines, and
//     by a callback.
//   - An iterator returns each entry as it was at SetNext, and no expired entries.
//
// # Differences
//
//   - The memory is bounded from the start: without HardMaxCacheSize the limit is 1 GiB, or
//     MaxEntriesInWindow times MaxEntrySize if that is more; on 32-bit systems, whose processes
//     have addresses for a few caches of that size, 128 MiB. Beyond it entries are evicted, where
//     BigCache grows. [BigCache.Capacity] returns this limit.
//   - Callbacks run without locks, before the call that removes the entry returns; those for
//     entries that CleanWindow removes run on a goroutine of the cache. A callback that panics
//     ends that call, or the program.
//   - Reasons: [Expired] when a call or CleanWindow finds the entry after its LifeWindow,
//     [NoSpace] for an evicted one, [Deleted] for Delete, and for the previous entry of a key
//     whose new one is too large. Overwritten entries, and those of Reset and Close, are not
//     reported, as in BigCache.
//   - With a LifeWindow of 0 entries do not expire; in BigCache they live for a second. Fractions
//     of a second count in LifeWindow and CleanWindow; BigCache truncates them. A negative
//     LifeWindow is an error.
//   - Entries expire without another Set: [BigCache.GetWithInfo] never returns Expired, because an
//     expired entry does not exist, and [BigCache.Delete] does not find it. [BigCache.Len] counts
//     it until it is removed.
//   - An entry that is too large removes the previous entry of its key, so that no reader gets the
//     entry that was to be replaced. An Append that would make an entry too large does not change
//     it.
//   - After Close the memory is released, and all methods with an error result return
//     [larder.ErrClosed]. BigCache continues without cleaning up, as both do after the end of the
//     context of [New].
//   - [Stats] has no collisions, and the Logger is not used, because there are neither collisions
//     nor allocations to log.
//   - The request count of a key restarts after the callback for its removal.
//
// # BigCache 3.2
//
// The exported API of 3.2.0 is that of 3.1.0. What 3.2.0 does differently, and what this package
// does:
//
//   - An entry expires when its LifeWindow is over, not up to a second later: so it does here, to
//     the millisecond.
//   - New refuses a CleanWindow with a LifeWindow below a second, because that removed each entry
//     at once. This package accepts it: entries live for such a LifeWindow, and forever with 0.
//   - The end of the context of New prints nothing: nor does it here.
//   - A shard may have more than 4 GiB: this package has no limit per shard.
//   - A damaged index of a shard is an error, where 3.1.0 panics: an entry here is found by its
//     key, and overwriting and deleting entries cannot damage others.
//   - Without StatsEnabled no memory is reserved for the counts: nor is it here.
//   - OnRemoveWithMetadata is given a key that is read once: here key and count are those of the
//     removed entry, too.
//   - Its server has a path that clears the cache: larderd has it, too.
package bigcache
