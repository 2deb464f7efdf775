// Package bigcache has the exported API of BigCache v3.1 on a Larder cache, for programs that want to change an import and
// nothing else. Its packages queue and server are not here; larderd is a server.
//
// # What is better
//
//   - The memory limit is one for all that the cache takes, and it holds. Entries that are overwritten or deleted give their
//     memory back.
//   - What is evicted is what is wanted least, one entry at a time. An entry, its key and 51 bytes may take up to half of
//     the memory; one that is larger evicts nobody.
//   - An expired entry is never got. Two keys never share an entry, whatever the Hasher. Keys have any length.
//   - Callbacks may use the cache. Close may be called twice, and by a callback.
//   - An iterator shows each entry as it was at SetNext, and none that expired.
//
// # What is other
//
//   - Callbacks are called at about the time of the removal, by one goroutine of the cache's own, which may find the entry
//     for another moment. What comes while 10,000 removals wait for a slow callback is not told, and neither is what waits
//     when the cache is closed. Entries longer than 16 KiB, and in caches of few MB already shorter ones, come as nil; with a
//     key longer than 250 bytes they do not come.
//   - A LifeWindow of 0 is for ever, where BigCache's entries then live for a second; parts of a second count as a whole,
//     where BigCache leaves them out; less than 0 is an error. A CleanWindow below a second counts as one.
//   - Expiry does not wait for another Set: [BigCache.GetWithInfo] never says Expired, for what has is not there any more,
//     and [BigCache.Delete] does not find it.
//   - An entry that is too large leaves none under its key, for nobody should read what was to be replaced.
//   - After Close, or when the context of [New] ends, the memory is given back, and all methods that return an error return
//     [larder.ErrClosed]. BigCache goes on without cleaning up.
//   - Without HardMaxCacheSize there is a limit too, half of the machine's memory: stores fail there with
//     [larder.ErrNoMemory].
//   - [BigCache.Capacity] is the memory that is in use, not what is set aside. [Stats] has no collisions, and nobody uses the
//     Logger, for there are neither collisions nor allocations to tell of.
//   - The request counts of a key begin anew once its removal has been told, shortly after it.
package bigcache
