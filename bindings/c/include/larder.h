// Larder for C: a cache in the process, in memory that processes share, or a server's. Made from crates/capi: do not change it here.
//
// Every pointer may be null unless said otherwise, and is not followed then; one that is not null must be what it says until the
// call is over. Keys and values are pointers with lengths, and need no zero at their end. Any number of threads may call at the
// same time, and children of a fork; not a signal's handler. Nothing is allocated for the caller but what has a _close.

#ifndef LARDER_H
#define LARDER_H

#include <stddef.h>
#include <stdint.h>

// What a program was compiled with; `larder_abi_version` says what it runs with. Another number is another interface.
#define LARDER_ABI_VERSION 1

// Somebody has said that the value is out of date; it may be shown until a new one comes.
#define LARDER_STALE 1

// The right to bring the new value has been given to somebody.
#define LARDER_WON 2

// The item has been read before.
#define LARDER_FETCHED 4

// A connected cache has read it in the server's memory.
#define LARDER_LOCAL 8

// Items carry cas tokens, 8 bytes each.
#define LARDER_CAS 1

// Items are not evicted: where memory runs out, stores fail.
#define LARDER_NO_EVICTION 2

// A thread of the cache's own takes back what expired within seconds, and evicts ahead of the writers.
#define LARDER_MAINTAINER 4

// Children of a later `fork` use this cache too. Else each has a copy, and goes its own way.
#define LARDER_SHARED_WITH_CHILDREN 8

// A cache that is in the file must have the memory, cas tokens and eviction that are asked for.
#define LARDER_EXACTLY 16

// A cache in the file that cannot be used makes way for an empty one, if no process uses it.
#define LARDER_REPLACES_UNUSABLE 32

// It is an error that another process uses the cache that is in the file.
#define LARDER_ALONE 64

// The memory is of huge pages that the system has set aside.
#define LARDER_HUGE_PAGES 128

// The value of an item that was removed is not told where it was kept in pieces: it is then this long.
#define LARDER_NO_VALUE UINT64_MAX

// Somebody deleted it.
#define LARDER_DELETED 1

// Another one was stored in its place.
#define LARDER_REPLACED 2

// Its time was over.
#define LARDER_EXPIRED 3

// Its memory was needed for others.
#define LARDER_EVICTED 4

// It was there when the cache was cleared.
#define LARDER_CLEARED 5

// The longest key, in bytes.
#define LARDER_KEY_BYTES_MAX 250

// What a call came to. Those from 16 on are errors: something has to be done otherwise.
typedef enum larder_status {
    // It is done.
    LARDER_OK = 0,
    // There is no such item, or it has died.
    LARDER_MISSING = 1,
    // There is one already, and it stays.
    LARDER_EXISTS = 2,
    // The item is not the one with that cas token any more: read it again.
    LARDER_CHANGED = 3,
    // The value is longer than the memory given for it; the item says how long it is.
    LARDER_TOO_SMALL = 4,
    // There is no more, or not yet.
    LARDER_END = 5,
    // An argument cannot be: a null pointer where there must be none, a number out of its bounds.
    LARDER_INVALID = 16,
    // A key has 1 to 250 bytes.
    LARDER_KEY = 17,
    // The item is larger than the cache accepts.
    LARDER_TOO_LARGE = 18,
    // No memory could be had.
    LARDER_NO_MEMORY = 19,
    // The value is no counter.
    LARDER_NOT_A_NUMBER = 20,
    // The cache keeps no cas tokens.
    LARDER_NO_TOKENS = 21,
    // Another process that shares the cache has been stopped in the middle of a change.
    LARDER_STUCK = 22,
    // The cache could not be opened; `why` says more.
    LARDER_NOT_OPENED = 23,
    // A connected cache cannot do that.
    LARDER_UNSUPPORTED = 24,
    // The server is not there, or does not answer. A change may have been made all the same.
    LARDER_UNREACHABLE = 25,
    // The server refused.
    LARDER_REFUSED = 26,
    // What came from the server is not memcached's protocol.
    LARDER_PROTOCOL = 27,
    // A defect of the library. The call may have been carried out in part; the cache goes on.
    LARDER_DEFECT = 28,
} larder_status;

// A cache in the process or in memory that processes share, or one that a server keeps. Any number of threads may use it.
typedef struct larder larder;

// A walk through the keys of a cache. Threads may share one, and each key is given to one of them.
typedef struct larder_key_walk larder_key_walk;

// A queue of items that have left a cache. Threads may share one, and each item is given to one of them.
typedef struct larder_removals larder_removals;

// What is known of an item.
typedef struct larder_item {
    // Bytes of the value.
    uint64_t value_bytes;
    // Where the value begins in the memory given for the values of several keys.
    uint64_t value_at;
    // The cas token; 0 where none are kept.
    uint64_t cas;
    // Bits that were stored with it.
    uint32_t flags;
    // Seconds it has to live, 1 at least; 0 is for ever.
    uint32_t ttl_secs;
    // `LARDER_STALE` and its kin.
    uint32_t marks;
    // What became of this one of several keys.
    enum larder_status status;
} larder_item;

// What a load is based on: the caller keeps it from `larder_begin_load` to the end of the load, and changes nothing in it.
typedef struct larder_load {
    // Which item was there, or which reservation.
    uint64_t words[4];
} larder_load;

// How a cache is to be opened. Zero is the default everywhere but in `struct_bytes`:
// `larder_options options = {.struct_bytes = sizeof options, .memory_bytes = 64 << 20};`
typedef struct larder_options {
    // `sizeof(larder_options)`, by which the library knows which fields the program knows.
    size_t struct_bytes;
    // All memory of the cache, everything included, in bytes: 1 MiB to 1 TiB; 0 is 64 MiB.
    uint64_t memory_bytes;
    // What `larder_set_memory` can raise it to later; 0 is `memory_bytes`.
    uint64_t memory_bytes_max;
    // The largest item in bytes: key, value, and 51 bytes, 59 with cas tokens; 0 is 1 MiB.
    uint64_t item_bytes_max;
    // `LARDER_CAS` and its kin.
    uint32_t flags;
    // Who may use the files that are made: bits as for `chmod`; 0 is 0600.
    uint32_t permissions;
    // The file that the cache is in, for all processes that open it, best on a tmpfs such as `/dev/shm`; null is memory
    // of this process. A cache that is there is used as it is, unless `LARDER_EXACTLY` asks for more.
    const char *path;
} larder_options;

// A statistic.
typedef struct larder_stat {
    // Its name, the same as in the answers of larderd; it stays where it is.
    const char *name;
    // What it means, with its unit; it stays where it is.
    const char *meaning;
    // Its value.
    uint64_t value;
} larder_stat;

// Where a cache's memory is, in bytes.
typedef struct larder_memory {
    // What it may take.
    uint64_t limit;
    // What it has taken: items, index, accounts, and what is free in its segments.
    uint64_t used;
    // What the items that can be read take.
    uint64_t items;
    // What the index takes.
    uint64_t index;
} larder_memory;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The interface of the library that is loaded: compare it with `LARDER_ABI_VERSION`.
uint32_t larder_abi_version(void);

// The version of the library that is loaded, such as `0.1.0`.
const char *larder_version(void);

// Adds to a counter, an item whose value is a decimal number; it wraps at 2^64 and keeps its time. `number` may be null;
// else it is told the new state. `LARDER_MISSING` where there is no item: `larder_add` makes one.
enum larder_status larder_increment(const struct larder *cache,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t delta,
                                    uint64_t *number);

// Takes from a counter, which stops at 0: see `larder_increment`.
enum larder_status larder_decrement(const struct larder *cache,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t delta,
                                    uint64_t *number);

// Gets the value of a key: as it was at one time, whatever others do meanwhile. It is written to `value` where
// `capacity` suffices; where it does not, nothing is, and the answer is `LARDER_TOO_SMALL`. `item` may be null; else it
// is told what is known, the value's length in either case. `key`, `value` and `item` do not overlap.
//
// Cost: two waits for the memory at most, and a copy of the value.
enum larder_status larder_get(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              void *value,
                              size_t capacity,
                              struct larder_item *item);

// What is known of an item, without its value: the first of two calls for who has to find memory for it. It does not
// count as a read. The second is `larder_get`, which may find another value there.
enum larder_status larder_peek(const struct larder *cache,
                               const void *key,
                               size_t key_bytes,
                               struct larder_item *item);

// `LARDER_OK` where there is an item, `LARDER_MISSING` where there is none. It does not count as a read.
enum larder_status larder_contains(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes);

// As `larder_get`, and the item lives for `ttl_secs` from now, also where the value did not fit; 0 is for ever.
enum larder_status larder_get_and_touch(const struct larder *cache,
                                        const void *key,
                                        size_t key_bytes,
                                        uint32_t ttl_secs,
                                        void *value,
                                        size_t capacity,
                                        struct larder_item *item);

// Gets the values of several keys, which takes less than half of the time of as many `larder_get`s where the memory is
// what takes the time. `keys` are the keys one behind the other, `key_bytes` their lengths. The values are written to
// `values` one behind the other, as far as they fit; `items` tells of each key in turn, by its `status`, whether it is
// there (`LARDER_OK`), is not (`LARDER_MISSING`), or did not fit (`LARDER_TOO_SMALL`).
enum larder_status larder_get_many(const struct larder *cache,
                                   const void *keys,
                                   const uint32_t *key_bytes,
                                   size_t count,
                                   void *values,
                                   size_t capacity,
                                   struct larder_item *items);

// Closes a cache; a null pointer is left alone. Nobody may be using it, or use it later, but what `larder_keys` and
// `larder_subscribe` gave may still be used and closed. A shared cache stays for the others.
void larder_close(struct larder *cache);

// Begins a load of a key's value: to be called before the value is read wherever it comes from. A key without an item is
// reserved for `timeout_secs`; readers do not see that, and it takes the memory of a small item. `larder_end_load` or
// `larder_cancel_load` ends the load. `LARDER_UNSUPPORTED` where the cache is a server's.
enum larder_status larder_begin_load(const struct larder *cache,
                                     const void *key,
                                     size_t key_bytes,
                                     uint32_t timeout_secs,
                                     struct larder_load *load);

// Stores the value that a load has brought, as `larder_set` does, unless any process stored, deleted or otherwise changed
// the item since the load began: then the answer is `LARDER_CHANGED`, and what is there stays.
enum larder_status larder_end_load(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes,
                                   const struct larder_load *load,
                                   const void *value,
                                   size_t value_bytes,
                                   uint32_t ttl_secs,
                                   uint32_t flags);

// Ends a load that brought nothing.
enum larder_status larder_cancel_load(const struct larder *cache,
                                      const void *key,
                                      size_t key_bytes,
                                      const struct larder_load *load);

// Opens a cache. Null options are all defaults. Where it fails, and `why` is not null, the reason is written there in at
// most `why_bytes` bytes, the zero at its end included.
enum larder_status larder_open(const struct larder_options *options,
                               struct larder **cache,
                               char *why,
                               size_t why_bytes);

// Uses the cache of a larderd, or of any memcached, at a unix socket. Hits are read in the server's memory where it was
// started with `--local-readers`; all else is asked for, and an answer waited for `timeout_ms` at most; 0 is five seconds.
enum larder_status larder_connect(const char *socket,
                                  uint32_t timeout_ms,
                                  struct larder **cache,
                                  char *why,
                                  size_t why_bytes);

// Puts each item that leaves from now on, with its key and value, into a queue with room for `capacity` of them, a million
// at most; what comes while it is full is lost, and counted. `larder_removals_close` ends it.
enum larder_status larder_subscribe(const struct larder *cache,
                                    size_t capacity,
                                    struct larder_removals **removals);

// Takes the next item from the queue, for which it waits `wait_ms` at most; `LARDER_END` where none has come. The key is
// written to `key`, which has room for `LARDER_KEY_BYTES_MAX` bytes, the value to `value`; where that does not suffice the
// answer is `LARDER_TOO_SMALL`, and the item comes again. A `value_bytes` of `LARDER_NO_VALUE` says that it is not told.
enum larder_status larder_removals_next(const struct larder_removals *removals,
                                        uint32_t wait_ms,
                                        void *key,
                                        size_t *key_bytes,
                                        void *value,
                                        size_t capacity,
                                        uint64_t *value_bytes,
                                        uint32_t *reason);

// How many items were lost because the queue was full.
enum larder_status larder_removals_lost(const struct larder_removals *removals,
                                        uint64_t *lost);

// Ends a subscription; a null pointer is left alone.
void larder_removals_close(struct larder_removals *removals);

// Stores a value, in place of the one that is there. The item lives for `ttl_secs`; 0 is for ever. `flags` are bits of the
// caller's, 0 where the cache is a server's.
//
// Where it fails, but for a wrong key, the item that was there is gone: nobody reads what was to be replaced.
enum larder_status larder_set(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              const void *value,
                              size_t value_bytes,
                              uint32_t ttl_secs,
                              uint32_t flags);

// As `larder_set`, where there is no item; `LARDER_EXISTS` where there is one, which stays.
enum larder_status larder_add(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              const void *value,
                              size_t value_bytes,
                              uint32_t ttl_secs,
                              uint32_t flags);

// As `larder_set`, where there is an item; `LARDER_MISSING` where there is none.
enum larder_status larder_replace(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes,
                                  uint32_t ttl_secs,
                                  uint32_t flags);

// Puts bytes behind the value of an item, which keeps its time and flags; `LARDER_MISSING` where there is none.
enum larder_status larder_append(const struct larder *cache,
                                 const void *key,
                                 size_t key_bytes,
                                 const void *value,
                                 size_t value_bytes);

// Puts bytes before the value of an item: see `larder_append`.
enum larder_status larder_prepend(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes);

// Stores a value over the item that has this cas token, and no other: of several that read a value and store what they
// made of it, one succeeds. `LARDER_CHANGED` says to read it again. `new_cas` may be null; else it is told the new token.
enum larder_status larder_compare_and_set(const struct larder *cache,
                                          const void *key,
                                          size_t key_bytes,
                                          const void *value,
                                          size_t value_bytes,
                                          uint32_t ttl_secs,
                                          uint32_t flags,
                                          uint64_t cas,
                                          uint64_t *new_cas);

// Removes an item; `LARDER_MISSING` where there is none.
enum larder_status larder_delete(const struct larder *cache,
                                 const void *key,
                                 size_t key_bytes);

// Gives an item another time to live, from now; 0 is for ever. `LARDER_MISSING` where there is none.
enum larder_status larder_touch(const struct larder *cache,
                                const void *key,
                                size_t key_bytes,
                                uint32_t ttl_secs);

// Removes every item whose key begins with a prefix, one by one; `removed` may be null, else it is told how many there
// were. An empty prefix removes everything, which `larder_clear` does at once.
enum larder_status larder_remove_prefix(const struct larder *cache,
                                        const void *prefix,
                                        size_t prefix_bytes,
                                        uint64_t *removed);

// Tells the statistics: `count` how many there are, and as many of them as `capacity` allows in `stats`.
enum larder_status larder_stats(const struct larder *cache,
                                struct larder_stat *stats,
                                size_t capacity,
                                size_t *count);

// Tells how many items there are; those that expired or were cleared count until they are come across.
enum larder_status larder_length(const struct larder *cache,
                                 uint64_t *items);

// Tells where the memory is.
enum larder_status larder_memory_of(const struct larder *cache,
                                    struct larder_memory *memory);

// Sets another memory limit, in bytes: up to `memory_bytes_max` of the options, and from 1 MiB. What is too much is
// evicted. `LARDER_INVALID` where it cannot be.
enum larder_status larder_set_memory(const struct larder *cache,
                                     uint64_t bytes);

// Makes everything that is stored so far invisible, at once.
enum larder_status larder_clear(const struct larder *cache);

// Takes back memory of items that expired or were cleared, in some milliseconds at most. Nothing depends on it being
// called.
enum larder_status larder_maintain(const struct larder *cache);

// What a status means, and what to do, for people: text that stays where it is.
const char *larder_status_text(uint32_t status);

// Begins a walk through all keys that begin with a prefix, in no particular order. An item that is there all the time is
// shown at least once; one that is stored or removed meanwhile may be shown or not. Nothing is held between two steps.
// `larder_keys_close` ends it.
enum larder_status larder_keys(const struct larder *cache,
                               const void *prefix,
                               size_t prefix_bytes,
                               struct larder_key_walk **keys);

// Gives the next key: writes it to `key`, which has room for `LARDER_KEY_BYTES_MAX` bytes, and its length to `key_bytes`.
// `LARDER_END` where all have been shown.
enum larder_status larder_keys_next(const struct larder_key_walk *keys,
                                    void *key,
                                    size_t *key_bytes);

// Ends a walk; a null pointer is left alone.
void larder_keys_close(struct larder_key_walk *keys);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LARDER_H */
