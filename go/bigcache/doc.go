// Package bigcache implements the exported API of BigCache v3 with a Larder cache. A program that
// uses BigCache changes only an import. It is pure Go and builds on all systems. It omits
// BigCache's packages queue and server; larderd is a server.
//
// # Improvements
//
//   - The memory limit includes everything, and is exact. Overwritten and deleted entries release
//     their memory.
//   - Eviction removes the entries that are least likely to be read again. An entry with its key
//     may have almost an eighth of the memory, up to almost 1 MiB; a larger entry does not evict
//     others.
//   - An expired entry is never returned. Two keys never share an entry, whatever the Hasher. Keys
//     may have any length.
//   - Callbacks may use the cache. Close may be called several times, by several goroutines, and
//     by a callback.
//   - An iterator returns each entry as it was at SetNext, and no expired entries.
//
// # Differences
//
//   - The memory is always limited. Without HardMaxCacheSize the limit is 1 GiB, or
//     MaxEntriesInWindow times MaxEntrySize if that is more. On 32-bit systems it is 128 MiB
//     instead of 1 GiB, because a process has addresses for only a few caches of that size. At the
//     limit this package evicts entries, where BigCache grows. [BigCache.Capacity] returns the
//     limit.
//   - Callbacks run without locks, before the call that removes the entry returns. Callbacks for
//     entries that CleanWindow removes run on a goroutine of the cache. A callback that panics ends
//     that call, or the program.
//   - The reason of a removal is [Expired] when a call or CleanWindow finds the entry after its
//     LifeWindow, [NoSpace] when the cache evicts it, and [Deleted] when Delete removes it or when
//     the new entry of its key is too large. The callbacks do not report entries that are
//     overwritten or that Reset or Close removes, as in BigCache.
//   - With a LifeWindow of 0 entries do not expire; in BigCache they live for a second. This
//     package uses fractions of a second in LifeWindow and CleanWindow; BigCache truncates them. A
//     negative LifeWindow is an error.
//   - Entries expire without another Set: [BigCache.GetWithInfo] never returns Expired, because an
//     expired entry does not exist, and [BigCache.Delete] does not find it. [BigCache.Len] counts
//     it until it is removed.
//   - A Set with an entry that is too large removes the previous entry of the key, so that no
//     reader receives the old entry. An Append that would make an entry too large does not change
//     it.
//   - Close releases the memory, and then all methods with an error result return
//     [larder.ErrClosed]. BigCache continues after Close, without removing expired entries, as both
//     do after the end of the context of [New].
//   - [Stats] has no collisions, and the Logger is not used, because there are no collisions and no
//     allocations to log.
//   - The request count of a key restarts after the callback for its removal.
//
// # BigCache 3.2
//
// BigCache 3.2.0 has the same exported API as 3.1.0. It behaves differently in some cases, and this
// package behaves as follows:
//
//   - An entry expires when its LifeWindow is over, not up to a second later. This package does the
//     same, to the millisecond.
//   - New refuses a CleanWindow with a LifeWindow below a second, because that removed each entry
//     immediately. This package accepts it: entries live for such a LifeWindow, and forever with 0.
//   - The end of the context of New prints nothing. The same is true of this package.
//   - A shard may have more than 4 GiB. This package has no limit per shard.
//   - A damaged index of a shard is an error, where 3.1.0 panics. This package finds an entry by
//     its key, and overwriting and deleting entries cannot damage others.
//   - Without StatsEnabled BigCache reserves no memory for the counts. The same is true of this
//     package.
//   - OnRemoveWithMetadata receives a key that is read only once. In this package key and count
//     also belong to the removed entry.
//   - Its server has a path that clears the cache. larderd also has such a path.
package bigcache
