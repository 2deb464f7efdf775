// Larder for C: a cache in this process, in memory that processes share, or on a server.
// `make header` generates this file from crates/capi: do not edit it.
//
// Pointers: the library uses a pointer only until the call returns, and never follows a null
// pointer. It skips an output that is null, and returns LARDER_INVALID for other null pointers,
// unless the length is 0 or the comment of the function allows null. Every other pointer must be
// aligned and valid for its type and length, and an output must not overlap another argument.
//
// Keys and values are bytes with a length, without a zero at the end. A key has 1 to 250 bytes.
//
// Any number of threads, and children of a fork, may call at the same time. Signal handlers must
// not call the library.
//
// A function that reads or changes items can also return errors that its comment does not list:
// LARDER_KEY and LARDER_DEFECT; LARDER_STUCK if it changes items in shared memory;
// LARDER_UNREACHABLE, LARDER_REFUSED and LARDER_PROTOCOL on a server; LARDER_DISK_FULL to
// LARDER_FORKED with a disk tier; and LARDER_DISK_FULL to LARDER_DISK_UNREADABLE on a server with a
// disk tier. On a server such a function costs a round trip, unless its comment gives another cost.
//
// The library allocates nothing for the caller, except objects that have a _close function.

#ifndef LARDER_H
#define LARDER_H

#include <stddef.h>
#include <stdint.h>

// The version of the interface that a program was compiled with. `larder_abi_version` returns the
// version of the loaded library; if the numbers differ, the interfaces are incompatible.
#define LARDER_ABI_VERSION 1

// The value is stale: a client marked it as out of date. A caller may use it until a new one
// arrives.
#define LARDER_STALE 1

// A client holds the recache token and will store the new value.
#define LARDER_RECACHE_TOKEN 2

// The item has been read before.
#define LARDER_FETCHED 4

// The item was read directly in the memory of the server.
#define LARDER_LOCAL 8

// The time of the store is approximate, because the item was read since.
#define LARDER_STORED_ABOUT 16

// The bits that contain the tag.
#define LARDER_TAG_MASK 15

// A string of bytes.
#define LARDER_TAG_STRING 0

// A signed integer of 64 bits, as decimal text.
#define LARDER_TAG_LONG 1

// A floating-point number, as decimal text.
#define LARDER_TAG_DOUBLE 2

// `1` for true; `0` or no bytes for false.
#define LARDER_TAG_BOOL 3

// PHP's serialization.
#define LARDER_TAG_PHP 4

// igbinary.
#define LARDER_TAG_IGBINARY 5

// JSON, as UTF-8.
#define LARDER_TAG_JSON 6

// MessagePack.
#define LARDER_TAG_MSGPACK 7

// No value; no bytes.
#define LARDER_TAG_NULL 8

// An array in the compact encoding of `php/`.
#define LARDER_TAG_ARRAY 9

// Text, as UTF-8. Languages whose strings are bytes read it as a string.
#define LARDER_TAG_TEXT 11

// Python's pickle.
#define LARDER_TAG_PICKLE 12

// Python's pickle after an HMAC-SHA256 of 32 bytes.
#define LARDER_TAG_SIGNED_PICKLE 13

// A value in the format of one program, such as a type of Rust, which the other 28 bits
// identify.
#define LARDER_TAG_PROGRAM 14

// Items carry cas tokens, which take 8 bytes each.
#define LARDER_CAS 1

// The cache does not evict items: a store fails if the cache is out of memory.
#define LARDER_NO_EVICTION 2

// The cache starts a thread that reclaims expired items within seconds and evicts items before
// stores need the memory.
#define LARDER_MAINTAINER 4

// Children of a later `fork` share this cache. Without the flag each child has its own copy.
#define LARDER_SHARED_WITH_CHILDREN 8

// A cache that already exists in the file must match the memory limit, the cas tokens and the
// eviction of the options.
#define LARDER_EXACTLY 16

// The call replaces an unusable cache in the file with an empty one, if no process uses it.
#define LARDER_REPLACES_UNUSABLE 32

// The call fails if another process uses the cache in the file.
#define LARDER_ALONE 64

// The memory consists of huge pages that the administrator has reserved.
#define LARDER_HUGE_PAGES 128

// In a forked child that cannot use the shared cache, functions return `LARDER_NOT_OPENED`. If
// the only reason is that too many processes use the cache, the child can still read it.
// Without the flag such a child uses an empty cache of 1 MiB. See `larder_usable`.
#define LARDER_NO_SUBSTITUTE 256

// Each handle can have a different time: see `larder_set_now`.
#define LARDER_HANDLE_TIME 512

// The `value_bytes` of a removed item whose value is not in the queue, because the cache had
// stored it in pieces.
#define LARDER_NO_VALUE UINT64_MAX

// A client deleted the item.
#define LARDER_DELETED 1

// A client stored another item under its key.
#define LARDER_REPLACED 2

// The item expired.
#define LARDER_EXPIRED 3

// The cache evicted the item to free memory.
#define LARDER_EVICTED 4

// A client cleared the cache.
#define LARDER_CLEARED 5

// The directory holds all items: a durable store. Memory keeps the items in use.
#define LARDER_MODE_STORE 0

// The directory holds the items that memory evicts: a larger cache. `larder_close` keeps its
// content; after a crash it is empty.
#define LARDER_MODE_CACHE 1

// At most `2 * interval_ms` after the call has returned.
#define LARDER_DURABILITY_INTERVAL 0

// Before the call returns. The changes of all threads share a sync of the disk.
#define LARDER_DURABILITY_SYNC 1

// Some time later: usually within 100 ms.
#define LARDER_DURABILITY_ASYNC 2

// All evicted items.
#define LARDER_ADMIT_ALL 0

// Items that were read since they were stored, and items that were stored again soon after an
// eviction.
#define LARDER_ADMIT_REUSED 1

// The longest key, in bytes.
#define LARDER_KEY_BYTES_MAX 250

// The outcome of a call. Values from 16 on are errors.
typedef enum larder_status {
    // Success.
    LARDER_OK = 0,
    // The key has no item, or its item has expired.
    LARDER_MISSING = 1,
    // The key already has an item, which is kept.
    LARDER_EXISTS = 2,
    // The item has changed since the caller read its cas token or began its load: read it again.
    LARDER_CHANGED = 3,
    // The value is longer than the buffer; the item contains its length.
    LARDER_TOO_SMALL = 4,
    // The walk has ended, or no item arrived in time.
    LARDER_END = 5,
    // Another thread or process holds the lease.
    LARDER_BUSY = 6,
    // Invalid argument: a required pointer is null, or a number is out of bounds.
    LARDER_INVALID = 16,
    // Invalid key: a key has 1 to 250 bytes.
    LARDER_KEY = 17,
    // The item exceeds the item size limit of the cache.
    LARDER_TOO_LARGE = 18,
    // The cache has no memory for the item.
    LARDER_NO_MEMORY = 19,
    // The value is not a decimal number from 0 to 2^64 - 1. For a signed counter: the value is not
    // a decimal number from -2^63 to 2^63 - 1, or the item has another tag.
    LARDER_NOT_A_NUMBER = 20,
    // The cache was opened without cas tokens.
    LARDER_NO_TOKENS = 21,
    // Another process that shares the cache was stopped in the middle of a change.
    LARDER_STUCK = 22,
    // The cache could not be opened, and `why` contains the reason. Or this forked process cannot
    // use the cache, and `larder_usable` returns the reason.
    LARDER_NOT_OPENED = 23,
    // The operation is not supported by a connected cache, or by a cache with a disk tier.
    LARDER_UNSUPPORTED = 24,
    // The server is unreachable, or did not respond in time. It may have performed the change.
    LARDER_UNREACHABLE = 25,
    // The server refused the request.
    LARDER_REFUSED = 26,
    // The response of the server does not follow the memcached protocol.
    LARDER_PROTOCOL = 27,
    // A defect of the library. The call may have performed a part of its change; the cache stays
    // usable.
    LARDER_DEFECT = 28,
    // The disk has no space for the item; the old item is kept.
    LARDER_DISK_FULL = 29,
    // The disk cannot keep up with the changes; the call has changed nothing.
    LARDER_DISK_BUSY = 30,
    // The disk has failed, or the disk tier is stopped. All changes fail until the cache is opened
    // again. A change that was waiting for the disk may or may not survive.
    LARDER_DISK_FAILED = 31,
    // The item is on the disk, but could not be read or is damaged.
    LARDER_DISK_UNREADABLE = 32,
    // The disk tier belongs to the process from which this one was forked.
    LARDER_FORKED = 33,
} larder_status;

// A cache: in this process, in memory that processes share, or on a server. Any number of threads
// may use a handle at the same time.
typedef struct larder larder;

// A walk over the keys of a cache. If threads share a walk, each key goes to one of the threads.
typedef struct larder_key_walk larder_key_walk;

// A queue of removed items. If threads share a queue, each item goes to one of the threads.
typedef struct larder_removals larder_removals;

// A position in a walk of `larder_walk`. A cursor of zeros begins a walk. It is plain data: it may
// be copied, and does not have to be closed.
typedef struct larder_cursor {
    // The position.
    uint64_t words[4];
} larder_cursor;

// The metadata of an item.
typedef struct larder_entry {
    // Offset of the key in `bytes_of_keys` of `larder_walk`; `larder_describe` writes 0.
    uint64_t key_at;
    // Length of the value, in bytes.
    uint64_t value_bytes;
    // The memory that the item uses, in bytes. The index uses about 13 more.
    uint64_t memory_bytes;
    // The Unix time at which the item was stored or last changed. If `LARDER_STORED_ABOUT` is in
    // `marks`, the time is approximate: it may be too late, or too early by minutes or, in a large
    // cache, hours.
    int64_t stored_at;
    // The Unix time of the last store, read, change or touch. After a read it may be up to 58
    // seconds too late.
    int64_t used_at;
    // The Unix time at which the item expires; 0 if it does not.
    int64_t expires_at;
    // Length of the key, in bytes.
    uint32_t key_bytes;
    // The caller's flags, as stored with the value.
    uint32_t flags;
    // How often the item was read recently, as counted for eviction: 0 to 3.
    uint32_t reads;
    // Bits: `LARDER_STALE`, `LARDER_RECACHE_TOKEN`, `LARDER_FETCHED`, `LARDER_STORED_ABOUT`.
    uint32_t marks;
} larder_entry;

// The attributes of an item.
typedef struct larder_item {
    // Length of the value, in bytes.
    uint64_t value_bytes;
    // Offset of the value in the buffer of `larder_get_many`, in bytes.
    uint64_t value_at;
    // The cas token; 0 if the cache does not use cas tokens.
    uint64_t cas;
    // The caller's flags, as stored with the value.
    uint32_t flags;
    // Remaining time to live in seconds, at least 1; 0 if the item does not expire.
    uint32_t ttl_secs;
    // Bits: `LARDER_STALE`, `LARDER_RECACHE_TOKEN`, `LARDER_FETCHED`, `LARDER_LOCAL`.
    uint32_t marks;
    // The outcome for this key.
    enum larder_status status;
} larder_item;

// A range of bytes: a key of `larder_prefetch`.
typedef struct larder_slice {
    // The first byte.
    const void *at;
    // The number of bytes.
    size_t bytes;
} larder_slice;

// The state of a load. The caller keeps it unchanged from `larder_begin_load` to the end of the
// load.
typedef struct larder_load {
    // Identifies the item that the load found, or its reservation.
    uint64_t words[4];
} larder_load;

// A lease. The caller keeps it unchanged from `larder_lease` to `larder_release`.
typedef struct larder_lease_token {
    // Identifies the lease.
    uint64_t words[4];
} larder_lease_token;

// A function that `larder_open` calls while it reads the log. Its arguments are
// `progress_context`, the number of segments read so far, and the number of all segments.
typedef void (*larder_progress)(void *context,
                                size_t done,
                                size_t total);

// A directory on a disk for the items of a cache. One process at a time can use it. Zero is the
// default of every field except `struct_bytes`, `path` and `bytes`.
typedef struct larder_tier {
    // `sizeof(larder_tier)`. The library rejects a struct of another size.
    size_t struct_bytes;
    // The directory. The call creates it if it does not exist.
    const char *path;
    // The size of the log in bytes: 32 MiB to 64 TiB. Live items can fill four fifths of it. A
    // later call may specify a larger size, but not a smaller one.
    uint64_t bytes;
    // The memory for changes that are not durable yet, in bytes, in addition to `memory_bytes`; 0
    // means an eighth of `memory_bytes`, at most 64 MiB.
    uint64_t dirty_bytes;
    // The content of the directory: `LARDER_MODE_STORE` or `LARDER_MODE_CACHE`. The mode of an
    // existing directory cannot be changed.
    uint32_t mode;
    // When a change is durable in `LARDER_MODE_STORE`: `LARDER_DURABILITY_INTERVAL` to
    // `LARDER_DURABILITY_ASYNC`.
    uint32_t durability;
    // The interval of `LARDER_DURABILITY_INTERVAL`, in milliseconds; 0 means 100.
    uint32_t interval_ms;
    // Which evicted items are written to the directory in `LARDER_MODE_CACHE`: `LARDER_ADMIT_ALL`
    // or `LARDER_ADMIT_REUSED`.
    uint32_t admission;
    // How long a change waits for a disk that cannot keep up, in milliseconds; 0 means 1,000.
    uint32_t wait_ms;
    // How long `larder_close` and `larder_stop` wait for the disk, in milliseconds; 0 means
    // 60,000.
    uint32_t stop_ms;
    // Called while `larder_open` reads the log, on the thread of that call; null for no calls. It
    // must return normally.
    larder_progress progress;
    // The first argument of `progress`.
    void *progress_context;
} larder_tier;

// The settings for opening a cache. Zero is the default of every field except `struct_bytes`:
// `larder_options options = {.struct_bytes = sizeof options, .memory_bytes = 64 << 20};`
typedef struct larder_options {
    // `sizeof(larder_options)`. The library rejects a struct of another size.
    size_t struct_bytes;
    // The memory limit in bytes, for everything that the cache needs: 1 MiB to 1 TiB; 0 means 64
    // MiB.
    uint64_t memory_bytes;
    // The highest limit for `larder_set_memory`, in bytes; 0 means `memory_bytes`.
    uint64_t memory_bytes_max;
    // The size limit for items in bytes: key, value, and 51 bytes, 59 with cas tokens; 0 means 1
    // MiB.
    uint64_t item_bytes_max;
    // Bits: `LARDER_CAS` to `LARDER_HANDLE_TIME`.
    uint32_t flags;
    // The permissions of the files that the call creates, as for `chmod`; 0 means 0600.
    uint32_t permissions;
    // The file of a cache that processes share, preferably on a tmpfs such as `/dev/shm`; null for
    // memory of this process. If the file already contains a cache, the call opens that cache with
    // its limits, which must match the options if `LARDER_EXACTLY` is set.
    const char *path;
    // A directory on a disk for the items; null for a cache in memory only. Only the process that
    // opens the cache can use it, so `tier` cannot be combined with `path` or
    // `LARDER_SHARED_WITH_CHILDREN`. In a child of a `fork` the functions return `LARDER_FORKED`.
    const struct larder_tier *tier;
    // The number of processes, including this one, that can use a new shared cache at a time: at
    // most 4096. 0 means 16 below 16 MiB of memory, 64 below 256 MiB, and 256 otherwise. Each
    // process beyond this default needs about 1.7 KiB, plus 8 bytes per segment, in addition to
    // `memory_bytes`: a file reserves this memory when it is created, other memory grows when the
    // process joins. An existing cache keeps its number; with `LARDER_EXACTLY` the call fails if
    // the number differs.
    uint32_t processes_max;
    // Must be 0.
    uint32_t reserved;
} larder_options;

// A statistic.
typedef struct larder_stat {
    // The name, as larderd reports it. The text is valid as long as the library is loaded.
    const char *name;
    // The meaning, with the unit. The text is valid as long as the library is loaded.
    const char *meaning;
    // The value.
    uint64_t value;
} larder_stat;

// The memory of a cache, in bytes.
typedef struct larder_memory {
    // The memory limit.
    uint64_t limit;
    // Memory in use: items, index, bookkeeping, and free memory inside segments.
    uint64_t used;
    // Memory of the items that readers can find.
    uint64_t items;
    // Memory of the index.
    uint64_t index;
} larder_memory;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the interface version of the loaded library: compare it with `LARDER_ABI_VERSION`.
uint32_t larder_abi_version(void);

// Returns the version of the loaded library, such as `0.1.0`. The text is static.
const char *larder_version(void);

// Adds `delta` to a counter, an item whose value is a decimal number, and writes the new value to
// `number`. The counter wraps at 2^64 and keeps its time to live. Returns `LARDER_MISSING` if the
// key has no item, which `larder_add` can create, and `LARDER_NOT_A_NUMBER` if the value is not a
// number.
enum larder_status larder_increment(const struct larder *cache,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t delta,
                                    uint64_t *number);

// Subtracts `delta` from a counter, down to 0. See `larder_increment`.
enum larder_status larder_decrement(const struct larder *cache,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t delta,
                                    uint64_t *number);

// Adds `delta` to a signed counter, and writes the new value to `number`. A signed counter is an
// item with the tag `LARDER_TAG_LONG` whose value is a decimal number. It wraps at 2^63 and keeps
// its time to live. If the key has no item, the counter starts at `delta`, with the time to live
// `ttl_secs_if_new`. Returns `LARDER_NOT_A_NUMBER` if the item has another tag, or if its value is
// not a decimal number from -2^63 to 2^63 - 1. Returns `LARDER_UNSUPPORTED` on a server.
//
// Cost: same as `larder_increment` if the number is not negative and keeps its length; otherwise
// same as a store.
enum larder_status larder_add_i64(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  int64_t delta,
                                  uint32_t ttl_secs_if_new,
                                  int64_t *number);

// Stores `new_number` in a signed counter if its value is `old`. See `larder_add_i64`. The counter
// keeps its time to live. Returns `LARDER_CHANGED` if the counter has another value,
// `LARDER_MISSING` if the key has no item, and `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_cas_i64(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  int64_t old,
                                  int64_t new_number);

// Writes the metadata of the next items of a walk to `entries`, and their keys, one after the
// other, to `bytes_of_keys`, and moves the cursor. The walk returns the items whose keys begin
// with a prefix, in no particular order. It returns an item that exists during the entire walk at
// least once; it may skip an item that a client stores or removes during the walk. It does not
// count as a read, and holds no resources between two calls.
//
// Writes the number of entries to `count`; it may be 0 before the end of the walk. Returns
// `LARDER_END` with a `count` of 0 at the end. Returns `LARDER_TOO_SMALL`, with the cursor
// unchanged, if the items of one group of the index do not fit. A `capacity` of 64 and 16 KiB for
// the keys are enough, except for rare overfull groups; in this case double both. Returns
// `LARDER_UNSUPPORTED` on a server and with a disk tier.
//
// Cost: at most the same as reading about 10,000 items without their values.
enum larder_status larder_walk(const struct larder *cache,
                               struct larder_cursor *cursor,
                               const void *prefix,
                               size_t prefix_bytes,
                               struct larder_entry *entries,
                               size_t capacity,
                               void *bytes_of_keys,
                               size_t bytes_capacity,
                               size_t *count);

// Writes the metadata of an item in memory to `entry`. It does not count as a read. Returns
// `LARDER_MISSING` if the key has no item in memory, and `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_describe(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes,
                                   struct larder_entry *entry);

// Copies the value of a key to `value`, which has `capacity` bytes, and writes its attributes to
// `item`. The copy is a value that the item had at one moment, whatever other threads and
// processes do. Returns `LARDER_TOO_SMALL` if the value is longer than `capacity`; then `item`
// contains its length, and `value` is unchanged. Returns `LARDER_MISSING` if the key has no item.
// `key`, `value` and `item` must not overlap. For an invalid key the function returns
// `LARDER_MISSING` in memory, and `LARDER_KEY` on a server.
//
// Cost: at most two cache misses of the processor, and a copy of the value. A connected cache
// makes a round trip if it cannot read the item in the memory of the server. With a disk tier the
// call reads the disk if the item is not in memory.
enum larder_status larder_get(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              void *value,
                              size_t capacity,
                              struct larder_item *item);

// Copies the value of a key as `larder_get` does, but counts the read neither in the statistics
// nor for eviction. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_look(const struct larder *cache,
                               const void *key,
                               size_t key_bytes,
                               void *value,
                               size_t capacity,
                               struct larder_item *item);

// Writes the attributes of an item to `item`, without its value: the first of two calls for a host
// that must allocate a buffer. The second call is `larder_get`, which may find a different value.
// The call does not count as a read, except on a server, where it costs as much as `larder_get`.
// Returns `LARDER_MISSING` if the key has no item.
enum larder_status larder_peek(const struct larder *cache,
                               const void *key,
                               size_t key_bytes,
                               struct larder_item *item);

// Returns `LARDER_OK` if the key has an item, otherwise `LARDER_MISSING`. Counting and cost are
// the same as for `larder_peek`.
enum larder_status larder_contains(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes);

// Same as `larder_get`, but also sets the time to live of the item to `ttl_secs` seconds from now,
// even if the value does not fit into the buffer; 0 means no expiry. The two steps are not atomic.
enum larder_status larder_get_and_touch(const struct larder *cache,
                                        const void *key,
                                        size_t key_bytes,
                                        uint32_t ttl_secs,
                                        void *value,
                                        size_t capacity,
                                        struct larder_item *item);

// Copies the values of `count` keys. `keys` contains the keys one after the other, and `key_bytes`
// their lengths. The function writes the values that fit into `capacity` bytes to `values`, one
// after the other. It writes the attributes of each item to `items`, in the order of the keys. The
// `status` of an item is `LARDER_OK`, `LARDER_MISSING`, `LARDER_TOO_SMALL` or, with a disk tier,
// the error of that key.
//
// Cost: less than half the time of `count` calls of `larder_get` if the items are not in the
// caches of the processor. On a server, one round trip for each 16 KiB of requests; a request
// consists of 16 bytes and the key.
enum larder_status larder_get_many(const struct larder *cache,
                                   const void *keys,
                                   const uint32_t *key_bytes,
                                   size_t count,
                                   void *values,
                                   size_t capacity,
                                   struct larder_item *items);

// Prefetches the part of the index that a store of this key needs, and does not wait for it. Call
// it before you encode the value. Does nothing on a server, and with a null `cache`.
void larder_prefetch_group(const struct larder *cache,
                           const void *key,
                           size_t key_bytes);

// Prefetches the items of several keys into the caches of the processor. Call it before getting
// these keys one by one. About 16 keys at a time are best. The call is only useful if the items
// are not yet in the caches of the processor. Does nothing on a server.
enum larder_status larder_prefetch(const struct larder *cache,
                                   const struct larder_slice *keys,
                                   size_t count);

// Begins a load of the value of a key: call it before you read the value from its source. If the
// key has no item, the load reserves the key for `timeout_secs` seconds. Readers do not see the
// reservation, which uses the memory of a small item. `larder_end_load` or `larder_cancel_load`
// ends the load. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_begin_load(const struct larder *cache,
                                     const void *key,
                                     size_t key_bytes,
                                     uint32_t timeout_secs,
                                     struct larder_load *load);

// Ends a load and stores its value as `larder_set` does. If any process has stored, deleted or
// otherwise changed the item since the load began, stores nothing and returns `LARDER_CHANGED`.
enum larder_status larder_end_load(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes,
                                   const struct larder_load *load,
                                   const void *value,
                                   size_t value_bytes,
                                   uint32_t ttl_secs,
                                   uint32_t flags);

// Ends a load without a value, and removes its reservation.
enum larder_status larder_cancel_load(const struct larder *cache,
                                      const void *key,
                                      size_t key_bytes,
                                      const struct larder_load *load);

// Takes the lease of a key for `ms` milliseconds, so that only one process at a time computes the
// value of the key. Returns `LARDER_BUSY` if any process, including this one, holds the lease: try
// again later, or continue without it.
//
// The lease ends with `larder_release`, when its time is over, or when its process dies, which the
// next caller notices. It also ends with `larder_clear`, or when it is evicted: a lease uses the
// memory of a small item. It has no effect on the item of the key. A forked child does not inherit
// the leases of its parent.
//
// On a server the lease excludes the other clients of the server. It is an item on the server
// whose key begins with `larder.lease.`. Its time is rounded up to seconds, and it does not end
// when its process dies.
//
// Cost: about the same as a store; if the lease is held, a delete and a system call.
enum larder_status larder_lease(const struct larder *cache,
                                const void *key,
                                size_t key_bytes,
                                uint32_t ms,
                                struct larder_lease_token *lease);

// Ends a lease. Returns `LARDER_MISSING` if it had already ended, or belongs to another process.
enum larder_status larder_release(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const struct larder_lease_token *lease);

// Opens a cache and writes its handle to `cache`; `larder_close` closes it. If `options` is null,
// all options have their defaults. On error the function writes null to `cache`, and the reason to
// `why`: at most `why_bytes` bytes, including the zero at the end. Returns `LARDER_NOT_OPENED` if
// the cache cannot be opened.
//
// Cost: system calls that map the memory; the system allocates the pages at first use. With a disk
// tier of `LARDER_MODE_STORE` the call reads the log, which takes about a second for each GiB. The
// library starts threads for a disk tier; they end with `larder_close`.
enum larder_status larder_open(const struct larder_options *options,
                               struct larder **cache,
                               char *why,
                               size_t why_bytes);

// Checks whether this process uses the cache that was opened. A child of a `fork` joins the
// processes that share the cache at its first call, and joining can fail. In this case the
// function returns `LARDER_NOT_OPENED`, and writes the reason to `why` as `larder_open` does. One
// possible reason is that `processes_max` processes already use the cache. The other is that the
// file could not be opened again during the fork, because `/proc` was missing, the limit on open
// files was reached, or the parent had changed its user since it opened the cache. Returns
// `LARDER_FORKED` if the parent has opened a disk tier.
//
// With `LARDER_NO_SUBSTITUTE` a process can still read a cache that `processes_max` other
// processes use: `larder_get` and `larder_contains` find items, and changes return
// `LARDER_NOT_OPENED`. A child of a `fork` joins within a second or two after another process has
// left. A process that has opened a file must close the cache and open it again.
//
// A child may change its user or its root directory between the fork and its first call.
enum larder_status larder_usable(const struct larder *cache,
                                 char *why,
                                 size_t why_bytes);

// Connects to the cache of a larderd, or of any memcached, at a unix socket, and writes the handle
// to `cache`; `larder_close` closes it. The handle reads hits in the memory of a larderd that runs
// with `--local-readers`, and sends all other requests to the server. It waits at most
// `timeout_ms` milliseconds for each response; 0 means 5 seconds. On error the function writes
// null to `cache`, and the reason to `why`, as `larder_open` does. Returns `LARDER_UNREACHABLE` if
// the server does not accept the connection.
enum larder_status larder_connect(const char *socket,
                                  uint32_t timeout_ms,
                                  struct larder **cache,
                                  char *why,
                                  size_t why_bytes);

// Opens another handle of a cache that is open in this process, and writes it to `copy`. The
// handles share everything except the time that `larder_set_now` sets. Close each handle. Closing
// the handle from `larder_open` stops a disk tier. Returns `LARDER_UNSUPPORTED` for a handle from
// `larder_connect`.
enum larder_status larder_share(const struct larder *cache,
                                struct larder **copy);

// Sets the time of a handle, in seconds of Unix time; 0 returns to the system's clock. Only for a
// cache that was opened with `LARDER_HANDLE_TIME`. Calls with this handle use this time to expire
// items and to compute deadlines from times to live, so a server can run a request with the same
// time from beginning to end. The time should be close to the system's time, since every process
// that uses a shared cache expires items. Leases do not depend on it. Does nothing with a handle
// from `larder_connect`.
void larder_set_now(const struct larder *cache,
                    int64_t unix_secs);

// Closes a cache and frees its handle. Does nothing if `cache` is null. No thread may use the
// handle during the call or later. A walk from `larder_keys` and a queue from `larder_subscribe`
// remain usable until they are closed. Other processes can continue to use a shared cache. Unless
// the handle is from `larder_share`, the call stops a disk tier; to find out how many bytes are
// not durable, call `larder_stop` first.
void larder_close(struct larder *cache);

// Opens a queue of at most `capacity` items; the limit is a million. From now on the cache puts
// each removed item into the queue, with its key and value. If the queue is full, the item is
// dropped and counted. `larder_removals_close` closes the queue. Returns `LARDER_UNSUPPORTED` on a
// server.
enum larder_status larder_subscribe(const struct larder *cache,
                                    size_t capacity,
                                    struct larder_removals **removals);

// Takes the next item from the queue, and waits for it at most `wait_ms` milliseconds; returns
// `LARDER_END` if no item arrives. Writes the key to `key`, which has `LARDER_KEY_BYTES_MAX`
// bytes, and the value to `value`, which has `capacity` bytes. Returns `LARDER_TOO_SMALL` if the
// value is longer; then the next call returns the same item again. `value_bytes` is
// `LARDER_NO_VALUE` if the value is not in the queue. `reason` is one of `LARDER_DELETED` to
// `LARDER_CLEARED`.
enum larder_status larder_removals_next(const struct larder_removals *removals,
                                        uint32_t wait_ms,
                                        void *key,
                                        size_t *key_bytes,
                                        void *value,
                                        size_t capacity,
                                        uint64_t *value_bytes,
                                        uint32_t *reason);

// Writes the number of items that were dropped because the queue was full to `lost`.
enum larder_status larder_removals_lost(const struct larder_removals *removals,
                                        uint64_t *lost);

// Closes a queue and frees it. Does nothing if `removals` is null.
void larder_removals_close(struct larder_removals *removals);

// Stores a value, and replaces the item of the key. The item expires after `ttl_secs` seconds; 0
// means no expiry. The caller chooses `flags`. By convention their low four bits are the tag of
// the value, such as `LARDER_TAG_STRING`, for programs in several languages. On a server, other
// clients read and write the same flags. Returns `LARDER_TOO_LARGE` or `LARDER_NO_MEMORY` if the
// item does not fit. The old item is then removed, so that readers do not find an outdated value.
// After `LARDER_KEY`, and after every error of a cache with a disk tier of `LARDER_MODE_STORE`,
// the old item is kept.
enum larder_status larder_set(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              const void *value,
                              size_t value_bytes,
                              uint32_t ttl_secs,
                              uint32_t flags);

// Stores a value as `larder_set` does if the key has no item; otherwise returns `LARDER_EXISTS`.
enum larder_status larder_add(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              const void *value,
                              size_t value_bytes,
                              uint32_t ttl_secs,
                              uint32_t flags);

// Stores a value as `larder_set` does if the key has an item; otherwise returns `LARDER_MISSING`.
enum larder_status larder_replace(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes,
                                  uint32_t ttl_secs,
                                  uint32_t flags);

// Appends bytes to the value of an item. The item keeps its time to live and flags. Returns
// `LARDER_MISSING` if the key has no item.
enum larder_status larder_append(const struct larder *cache,
                                 const void *key,
                                 size_t key_bytes,
                                 const void *value,
                                 size_t value_bytes);

// Prepends bytes to the value of an item. See `larder_append`.
enum larder_status larder_prepend(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes);

// Stores a value as `larder_set` does if the item still has the token `cas`, and writes the new
// token to `new_cas`. If several callers read a value and store their changes, one of them
// succeeds. For the others the function returns `LARDER_CHANGED`, and they should read the value
// again. Returns `LARDER_MISSING` if the key has no item, and `LARDER_NO_TOKENS` if the cache was
// opened without cas tokens.
enum larder_status larder_compare_and_set(const struct larder *cache,
                                          const void *key,
                                          size_t key_bytes,
                                          const void *value,
                                          size_t value_bytes,
                                          uint32_t ttl_secs,
                                          uint32_t flags,
                                          uint64_t cas,
                                          uint64_t *new_cas);

// Removes an item. Returns `LARDER_MISSING` if the key has no item.
enum larder_status larder_delete(const struct larder *cache,
                                 const void *key,
                                 size_t key_bytes);

// Sets the time to live of an item to `ttl_secs` seconds from now; 0 means no expiry. Returns
// `LARDER_MISSING` if the key has no item.
enum larder_status larder_touch(const struct larder *cache,
                                const void *key,
                                size_t key_bytes,
                                uint32_t ttl_secs);

// Removes every item whose key begins with a prefix, one by one, and writes the number of removed
// items to `removed`. An empty prefix removes all items; `larder_clear` does this in constant
// time. Returns `LARDER_UNSUPPORTED` on a server.
//
// Cost: a walk over all keys. With a disk tier, also reads of the disk.
enum larder_status larder_remove_prefix(const struct larder *cache,
                                        const void *prefix,
                                        size_t prefix_bytes,
                                        uint64_t *removed);

// Writes the number of statistics to `count`, and the first `capacity` statistics to `stats`.
// Returns `LARDER_TOO_SMALL` if there are more, and `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_stats(const struct larder *cache,
                                struct larder_stat *stats,
                                size_t capacity,
                                size_t *count);

// Writes the number of items to `items`. It includes expired and cleared items until the cache
// finds them. With a disk tier it is the number of items in memory; `tier_items` of `larder_stats`
// is the number of items on the disk. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_length(const struct larder *cache,
                                 uint64_t *items);

// Writes the memory of the cache to `memory`. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_memory_of(const struct larder *cache,
                                    struct larder_memory *memory);

// Sets the memory limit, in bytes. Returns `LARDER_INVALID` unless it is from 1 MiB to
// `memory_bytes_max` of the options. If the new limit is lower, the cache evicts items gradually.
// Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_set_memory(const struct larder *cache,
                                     uint64_t bytes);

// Removes all items: reads that begin after the call do not find them. With a disk tier the call
// can fail with the errors of a store; then all items are kept. Returns `LARDER_UNSUPPORTED` on a
// server.
//
// Cost: constant. The cache reclaims the memory later.
enum larder_status larder_clear(const struct larder *cache);

// Reclaims the memory of expired and cleared items. The cache also works without this call.
// Returns `LARDER_UNSUPPORTED` on a server.
//
// Cost: at most a few milliseconds.
enum larder_status larder_maintain(const struct larder *cache);

// Sets the counters of events, such as hits and misses, to 0, for all processes that share the
// cache. If another thread counts an event at the same time, the event may be lost, or the counter
// of that thread may keep its old value. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_reset_stats(const struct larder *cache);

// Returns a message with the meaning of a status and the remedy. The text is static.
const char *larder_status_text(uint32_t status);

// Makes all changes so far durable. Does nothing without a disk tier. Returns `LARDER_DISK_FAILED`
// if the disk has failed, and `LARDER_UNSUPPORTED` on a server.
//
// Cost: a write and a sync of the disk.
enum larder_status larder_sync(const struct larder *cache);

// Stops the disk tier, as `larder_close` does: makes all changes durable, writes the items in
// memory to the directory in `LARDER_MODE_CACHE`, and releases the directory. Writes the number of
// bytes that are not durable to `left`, and returns `LARDER_DISK_FAILED` if it is not 0: the disk
// has failed, or has not responded for longer than `stop_ms`. In this case a directory of
// `LARDER_MODE_CACHE` will be empty when it is opened again. Later changes fail with
// `LARDER_DISK_FAILED`, and the only useful call is `larder_close`. Does nothing without a disk
// tier. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_stop(const struct larder *cache,
                               uint64_t *left);

// Writes a description of the problem of the disk tier to `why`, or an empty text if there is no
// problem: at most `why_bytes` bytes, including the zero at the end. The problem is the cause of
// `LARDER_DISK_FAILED`, or otherwise of the last `LARDER_DISK_UNREADABLE`. Returns
// `LARDER_UNSUPPORTED` on a server and without a disk tier.
enum larder_status larder_tier_trouble(const struct larder *cache,
                                       char *why,
                                       size_t why_bytes);

// Begins a walk over all keys that begin with a prefix, in no particular order. The walk returns
// the key of an item that exists during the entire walk at least once; it may skip an item that a
// client stores or removes during the walk. The library holds no lock between two steps.
// `larder_keys_close` ends the walk. Returns `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_keys(const struct larder *cache,
                               const void *prefix,
                               size_t prefix_bytes,
                               struct larder_key_walk **keys);

// Writes the next key to `key`, which has `LARDER_KEY_BYTES_MAX` bytes, and its length to
// `key_bytes`. Returns `LARDER_END` at the end of the walk.
enum larder_status larder_keys_next(const struct larder_key_walk *keys,
                                    void *key,
                                    size_t *key_bytes);

// Ends a walk and frees it. Does nothing if `keys` is null.
void larder_keys_close(struct larder_key_walk *keys);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LARDER_H */
