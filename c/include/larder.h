// Larder for C: a cache in this process, in memory that processes share, or on a server.
// `make header` generates this file from crates/capi: do not edit it.
//
// Pointers: the library uses a pointer only until the call returns, and never follows a null
// pointer. It skips an output that is null, and returns LARDER_INVALID for other null pointers,
// unless the length is 0 or the function says otherwise. Every other pointer must be aligned and
// valid for its type and length, and an output must overlap no other argument.
//
// Keys and values are bytes with a length, without a zero at the end. A key has 1 to 250 bytes.
//
// Any number of threads, and children of a fork, may call at the same time; signal handlers must
// not.
//
// A function that changes or reads items can also return LARDER_KEY; LARDER_STUCK if it changes
// items in shared memory; LARDER_UNREACHABLE, LARDER_REFUSED and LARDER_PROTOCOL on a server; the
// errors from LARDER_DISK_FULL to LARDER_FORKED with a disk tier, and all but the last of them on a
// server that has one; and LARDER_DEFECT. Each costs a round trip on a server, unless its comment
// says otherwise.
//
// The library allocates nothing for the caller, except objects that have a _close function.

#ifndef LARDER_H
#define LARDER_H

#include <stddef.h>
#include <stdint.h>

// The interface that a program was compiled with. `larder_abi_version` returns the interface of
// the loaded library; a different number is an incompatible interface.
#define LARDER_ABI_VERSION 1

// The value is stale: a client marked it as out of date. A caller may use it until a new one
// arrives.
#define LARDER_STALE 1

// A client holds the recache token: it stores the new value.
#define LARDER_RECACHE_TOKEN 2

// The item has been read before.
#define LARDER_FETCHED 4

// A connected cache read the item in the memory of the server.
#define LARDER_LOCAL 8

// The time of storing is not known exactly, since the item was read meanwhile.
#define LARDER_STORED_ABOUT 16

// The bits that are the tag.
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

// MessagePack.
#define LARDER_TAG_MSGPACK 7

// No value; no bytes.
#define LARDER_TAG_NULL 8

// An array in the compact encoding of `php/`.
#define LARDER_TAG_ARRAY 9

// Items carry cas tokens, which take 8 bytes each.
#define LARDER_CAS 1

// The cache does not evict items: a store fails if the cache is out of memory.
#define LARDER_NO_EVICTION 2

// The cache starts a thread, which reclaims expired items within seconds and evicts items
// before stores need the memory.
#define LARDER_MAINTAINER 4

// Children of a later `fork` share this cache. Without the flag each child has a copy.
#define LARDER_SHARED_WITH_CHILDREN 8

// A cache that the file already has must match the memory limit, the cas tokens and the
// eviction of the options.
#define LARDER_EXACTLY 16

// The call replaces an unusable cache in the file with an empty one, if no process uses it.
#define LARDER_REPLACES_UNUSABLE 32

// The call fails if another process uses the cache in the file.
#define LARDER_ALONE 64

// The memory is reserved huge pages of the system.
#define LARDER_HUGE_PAGES 128

// In a forked child that cannot use the shared cache, functions return `LARDER_NOT_OPENED`; a
// child that finds too many processes only reads. Without the flag such a child uses an empty
// cache of 1 MiB. See `larder_usable`.
#define LARDER_NO_SUBSTITUTE 256

// A handle has the time of `larder_set_now`.
#define LARDER_HANDLE_TIME 512

// The `value_bytes` of a removed item whose value the queue does not have, because the cache kept
// it in pieces.
#define LARDER_NO_VALUE UINT64_MAX

// A client deleted the item.
#define LARDER_DELETED 1

// A client stored another item under its key.
#define LARDER_REPLACED 2

// The item expired.
#define LARDER_EXPIRED 3

// The cache needed its memory for other items.
#define LARDER_EVICTED 4

// A client cleared the cache.
#define LARDER_CLEARED 5

// The directory holds all items: a durable store. Memory keeps the items in use.
#define LARDER_MODE_STORE 0

// The directory holds the items that memory evicts: a larger cache. `larder_close` keeps it, a
// crash empties it.
#define LARDER_MODE_CACHE 1

// At most `2 * interval_ms` after the call returned.
#define LARDER_DURABILITY_INTERVAL 0

// Before the call returns. The changes of all threads share a sync of the disk.
#define LARDER_DURABILITY_SYNC 1

// Some time later: usually within 100 ms.
#define LARDER_DURABILITY_ASYNC 2

// All.
#define LARDER_ADMIT_ALL 0

// Those that were read since they were stored, and those stored again soon after an eviction.
#define LARDER_ADMIT_REUSED 1

// The longest key, in bytes.
#define LARDER_KEY_BYTES_MAX 250

// The outcome of a call. Values from 16 on are errors.
typedef enum larder_status {
    // Success.
    LARDER_OK = 0,
    // The key has no item, or its item has expired.
    LARDER_MISSING = 1,
    // The key already has an item, which stays.
    LARDER_EXISTS = 2,
    // The item has changed since the caller read its cas token or began its load: read it again.
    LARDER_CHANGED = 3,
    // The value is longer than the buffer; the item has its length.
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
    // The value is not a decimal number from 0 to 2^64 - 1; or, for a signed counter, not one from
    // -2^63 to 2^63 - 1 with its tag.
    LARDER_NOT_A_NUMBER = 20,
    // The cache keeps no cas tokens.
    LARDER_NO_TOKENS = 21,
    // Another process that shares the cache is stopped in the middle of a change.
    LARDER_STUCK = 22,
    // The cache could not be opened, and `why` has the reason; or this forked process cannot use
    // it, and `larder_usable` has the reason.
    LARDER_NOT_OPENED = 23,
    // A connected cache, or one with a disk tier, does not support the operation.
    LARDER_UNSUPPORTED = 24,
    // The server is unreachable, or did not respond in time. It may have made the change.
    LARDER_UNREACHABLE = 25,
    // The server refused the request.
    LARDER_REFUSED = 26,
    // The response of the server is not the memcached protocol.
    LARDER_PROTOCOL = 27,
    // A defect of the library. The call may have made a part of its change; the cache stays
    // usable.
    LARDER_DEFECT = 28,
    // The disk has no room for the item; the old item stays.
    LARDER_DISK_FULL = 29,
    // The disk does not keep up with the changes; nothing has changed.
    LARDER_DISK_BUSY = 30,
    // The disk has failed, or the disk tier is stopped: it takes no changes until the cache is
    // opened again. A change that waited for the disk may survive or not.
    LARDER_DISK_FAILED = 31,
    // The disk has the item but did not return it, or the item is damaged.
    LARDER_DISK_UNREADABLE = 32,
    // The disk tier belongs to the process from which this one was forked.
    LARDER_FORKED = 33,
} larder_status;

// A cache: in this process, in memory that processes share, or on a server. Any number of threads
// may use a handle at the same time.
typedef struct larder larder;

// A walk through the keys of a cache. If threads share a walk, each key goes to one of them.
typedef struct larder_key_walk larder_key_walk;

// A queue of items that left a cache. If threads share a queue, each item goes to one of them.
typedef struct larder_removals larder_removals;

// A position in a walk of `larder_walk`. Zero begins a walk. It is plain data: it needs no close,
// and may be copied.
typedef struct larder_cursor {
    // The position.
    uint64_t words[4];
} larder_cursor;

// What is known of an item.
typedef struct larder_entry {
    // Offset of the key in `bytes_of_keys` of `larder_walk`; 0 by `larder_describe`.
    uint64_t key_at;
    // Length of the value, in bytes.
    uint64_t value_bytes;
    // The memory that the item takes, in bytes, without about 13 in the index.
    uint64_t memory_bytes;
    // The Unix time at which the item was stored or last changed. About that time if
    // `LARDER_STORED_ABOUT` is in `marks`: minutes or hours early in a large cache, or late.
    int64_t stored_at;
    // The Unix time of the last store, read, change or touch; that of a read may be up to 58
    // seconds later.
    int64_t used_at;
    // The Unix time at which the item expires; 0 if it does not.
    int64_t expires_at;
    // Length of the key, in bytes.
    uint32_t key_bytes;
    // The caller's flags, as stored with the value.
    uint32_t flags;
    // How often the item was read lately, as eviction counts: 0 to 3.
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
    // The cas token; 0 if the cache keeps none.
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

// Bytes of the caller: a key of `larder_prefetch`.
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

// A lease, from `larder_lease` to `larder_release`. The caller keeps it unchanged.
typedef struct larder_lease_token {
    // Identifies the lease.
    uint64_t words[4];
} larder_lease_token;

// The function that `larder_open` calls while it reads the log, with `progress_context`, the
// number of segments read so far, and the number of all.
typedef void (*larder_progress)(void *context,
                                size_t done,
                                size_t total);

// A directory on disk for the items of a cache. One process uses it at a time. Zero is the default
// of every field except `struct_bytes`, `path` and `bytes`.
typedef struct larder_tier {
    // `sizeof(larder_tier)`. The library rejects a struct of another size.
    size_t struct_bytes;
    // The directory. The call creates it if it is missing.
    const char *path;
    // The size of the log in bytes: 32 MiB to 64 TiB. Live items can fill four fifths of it. It
    // can grow from one start to the next, not shrink.
    uint64_t bytes;
    // The memory for changes that are not durable yet, in bytes, on top of `memory_bytes`; 0 is an
    // eighth of `memory_bytes`, at most 64 MiB.
    uint64_t dirty_bytes;
    // What the directory holds: `LARDER_MODE_STORE` or `LARDER_MODE_CACHE`. It keeps its mode.
    uint32_t mode;
    // When a change of a store is durable: `LARDER_DURABILITY_INTERVAL` to
    // `LARDER_DURABILITY_ASYNC`.
    uint32_t durability;
    // The interval of `LARDER_DURABILITY_INTERVAL`, in milliseconds; 0 is 100.
    uint32_t interval_ms;
    // Which items a cache admits: `LARDER_ADMIT_ALL` or `LARDER_ADMIT_REUSED`.
    uint32_t admission;
    // How long a change waits for a disk that does not keep up, in milliseconds; 0 is 1,000.
    uint32_t wait_ms;
    // How long `larder_close` and `larder_stop` wait for the disk, in milliseconds; 0 is 60,000.
    uint32_t stop_ms;
    // Called while `larder_open` reads the log, on the thread of that call; null for none. It must
    // return.
    larder_progress progress;
    // The first argument of `progress`.
    void *progress_context;
} larder_tier;

// How to open a cache. Zero is the default of every field except `struct_bytes`:
// `larder_options options = {.struct_bytes = sizeof options, .memory_bytes = 64 << 20};`
typedef struct larder_options {
    // `sizeof(larder_options)`. The library rejects a struct of another size.
    size_t struct_bytes;
    // The memory limit in bytes, which includes everything: 1 MiB to 1 TiB; 0 is 64 MiB.
    uint64_t memory_bytes;
    // The highest limit for `larder_set_memory`, in bytes; 0 is `memory_bytes`.
    uint64_t memory_bytes_max;
    // The largest item in bytes: key, value, and 51 bytes, 59 with cas tokens; 0 is 1 MiB.
    uint64_t item_bytes_max;
    // Bits: `LARDER_CAS` to `LARDER_HANDLE_TIME`.
    uint32_t flags;
    // The permissions of the files that the call creates, as for `chmod`; 0 is 0600.
    uint32_t permissions;
    // The file of a cache that processes share, best on a tmpfs such as `/dev/shm`; null for
    // memory of this process. The call opens a cache that the file already has, with the limits of
    // that cache unless `LARDER_EXACTLY` is set.
    const char *path;
    // A directory on disk for the items, too; null for none. Not with `path` and
    // `LARDER_SHARED_WITH_CHILDREN`: such a cache is for the process that opens it. In a child of
    // a `fork` its functions return `LARDER_FORKED`.
    const struct larder_tier *tier;
    // The number of processes that can use a new shared cache at a time, this one included: at
    // most 4096. 0 is 16 below 16 MiB, 64 below 256 MiB, and 256 from there. A process beyond
    // these takes about 1.7 KiB and 8 bytes for each segment in addition to `memory_bytes`: of a
    // file from the start, else as it joins. A cache that the file already has keeps its number,
    // unless `LARDER_EXACTLY` asks for this one.
    uint32_t processes_max;
    // 0.
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
    // Memory in use: items, index, accounts, and free memory in the segments of the cache.
    uint64_t used;
    // Memory of the items that readers can see.
    uint64_t items;
    // Memory of the index.
    uint64_t index;
} larder_memory;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the interface of the loaded library: compare it with `LARDER_ABI_VERSION`.
uint32_t larder_abi_version(void);

// Returns the version of the loaded library, such as `0.1.0`. The text is static.
const char *larder_version(void);

// Adds `delta` to a counter, an item whose value is a decimal number, and writes the new value to
// `number`. The counter wraps at 2^64 and keeps its time to live. `LARDER_MISSING` if the key has
// no item: `larder_add` creates one. `LARDER_NOT_A_NUMBER` if the value is not a number.
enum larder_status larder_increment(const struct larder *cache,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t delta,
                                    uint64_t *number);

// Subtracts `delta` from a counter, which stops at 0: see `larder_increment`.
enum larder_status larder_decrement(const struct larder *cache,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t delta,
                                    uint64_t *number);

// Adds `delta` to a signed counter, and writes the new value to `number`. A signed counter is an
// item with the tag `LARDER_TAG_LONG` whose value is a decimal number. It wraps at 2^63 and keeps
// its time to live. If the key has no item, the counter begins at `delta`, with the time to live
// `ttl_secs_if_new`. `LARDER_NOT_A_NUMBER` if the item has another tag, or a value that is no
// decimal number from -2^63 to 2^63 - 1. `LARDER_UNSUPPORTED` on a server.
//
// Cost: as `larder_increment` while the number is not negative and keeps its length; otherwise
// that of a store.
enum larder_status larder_add_i64(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  int64_t delta,
                                  uint32_t ttl_secs_if_new,
                                  int64_t *number);

// Stores `new_number` in a signed counter if its value is `old`: see `larder_add_i64`. The counter
// keeps its time to live. `LARDER_CHANGED` if it has another value, `LARDER_MISSING` if the key
// has no item. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_cas_i64(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  int64_t old,
                                  int64_t new_number);

// Writes what is known of the next items of a walk to `entries`, and their keys, one behind the
// other, to `bytes_of_keys`, and moves the cursor. The walk has the items whose keys begin with a
// prefix, in no particular order. It returns an item that exists all the time at least once; it
// may skip an item that a client stores or removes meanwhile. It counts no read, and holds nothing
// between two calls.
//
// Writes the number of entries to `count`: it may be 0 although the walk goes on. `LARDER_END`
// with a `count` of 0 at the end. `LARDER_TOO_SMALL`, with the cursor unchanged, if the items of
// one group of the index do not fit: a `capacity` of 64 and 16 KiB for the keys are enough for all
// groups that are not overfull, so double both then. `LARDER_UNSUPPORTED` on a server and with a
// disk tier.
//
// Cost: that of reading about 10,000 items without their values, at most.
enum larder_status larder_walk(const struct larder *cache,
                               struct larder_cursor *cursor,
                               const void *prefix,
                               size_t prefix_bytes,
                               struct larder_entry *entries,
                               size_t capacity,
                               void *bytes_of_keys,
                               size_t bytes_capacity,
                               size_t *count);

// Writes what is known of an item in memory to `entry`. It counts no read. `LARDER_MISSING` if the
// key has no item there. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_describe(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes,
                                   struct larder_entry *entry);

// Copies the value of a key to `value`, which has `capacity` bytes, and writes its attributes to
// `item`. The copy is a value that the item had at one time, whatever other threads and processes
// do. `LARDER_TOO_SMALL` if the value is longer than `capacity`: then `item` has its length, and
// `value` is unchanged. `LARDER_MISSING` if the key has no item. `key`, `value` and `item` must
// not overlap. An invalid key is `LARDER_MISSING` in memory, and `LARDER_KEY` on a server.
//
// Cost: at most two cache misses of the processor, and a copy of the value. A connected cache that
// cannot read the memory of the server makes a round trip. With a disk tier the call reads an item
// that memory lacks from the disk.
enum larder_status larder_get(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              void *value,
                              size_t capacity,
                              struct larder_item *item);

// Copies the value of a key as `larder_get` does, without counting: neither in the statistics nor
// as a read for eviction. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_look(const struct larder *cache,
                               const void *key,
                               size_t key_bytes,
                               void *value,
                               size_t capacity,
                               struct larder_item *item);

// Writes the attributes of an item to `item`, without its value: the first of two calls for a host
// that must allocate a buffer. The second call is `larder_get`, which may find a different value.
// The call does not count as a read, except on a server, where it costs as much as `larder_get`.
// `LARDER_MISSING` if the key has no item.
enum larder_status larder_peek(const struct larder *cache,
                               const void *key,
                               size_t key_bytes,
                               struct larder_item *item);

// Returns `LARDER_OK` if the key has an item, `LARDER_MISSING` if it has none. Counts and costs as
// `larder_peek` does.
enum larder_status larder_contains(const struct larder *cache,
                                   const void *key,
                                   size_t key_bytes);

// Does what `larder_get` does, and sets the time to live of the item to `ttl_secs` from now, also
// if the value does not fit; 0 is no expiry. The two steps are not atomic.
enum larder_status larder_get_and_touch(const struct larder *cache,
                                        const void *key,
                                        size_t key_bytes,
                                        uint32_t ttl_secs,
                                        void *value,
                                        size_t capacity,
                                        struct larder_item *item);

// Copies the values of `count` keys. `keys` has the keys one behind the other, `key_bytes` their
// lengths. The function writes the values to `values` one behind the other, as far as they fit
// into `capacity` bytes, and writes to `items`, in the order of the keys, a `status` of
// `LARDER_OK`, `LARDER_MISSING`, `LARDER_TOO_SMALL` or, with a disk tier, the error of that key,
// and the other attributes.
//
// Cost: less than half of the time of `count` calls of `larder_get`, if the items are not in the
// caches of the processor. On a server, a round trip for each 16 KiB of requests, which have 16
// bytes and the key.
enum larder_status larder_get_many(const struct larder *cache,
                                   const void *keys,
                                   const uint32_t *key_bytes,
                                   size_t count,
                                   void *values,
                                   size_t capacity,
                                   struct larder_item *items);

// Announces that the caller is about to get these keys, one by one: the processor loads their
// items meanwhile. About 16 keys at a time are best, and pay if the items are not in the caches of
// the processor. Does nothing on a server.
enum larder_status larder_prefetch(const struct larder *cache,
                                   const struct larder_slice *keys,
                                   size_t count);

// Begins a load of the value of a key: call it before you read the value from its source. If the
// key has no item, the load reserves it for `timeout_secs`; readers do not see the reservation,
// which takes the memory of a small item. `larder_end_load` or `larder_cancel_load` ends the load.
// `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_begin_load(const struct larder *cache,
                                     const void *key,
                                     size_t key_bytes,
                                     uint32_t timeout_secs,
                                     struct larder_load *load);

// Ends a load and stores its value as `larder_set` does, unless any process has stored, deleted or
// otherwise changed the item since the load began: then it returns `LARDER_CHANGED`, and the item
// stays.
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

// Takes the lease of a key for `ms` milliseconds, so that one process at a time computes what
// belongs to the key. `LARDER_BUSY` if it is held, also by this process: try again later, or go on
// without.
//
// The lease ends with `larder_release`, with its time, or when its process dies: the next caller
// notices that. It also ends with `larder_clear`, and if eviction needs its memory, which is that
// of a small item. It does not matter to the item of the key. A forked child does not have the
// leases of its parent.
//
// On a server the lease excludes the other clients of the server. It is an item of the server,
// with a key that begins with `larder.lease.`: its time is rounded up to seconds, and it does not
// end with its process.
//
// Cost: that of a store; if the lease is held, that of a delete and a system call.
enum larder_status larder_lease(const struct larder *cache,
                                const void *key,
                                size_t key_bytes,
                                uint32_t ms,
                                struct larder_lease_token *lease);

// Ends a lease. `LARDER_MISSING` if it had ended before, or is that of another process.
enum larder_status larder_release(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const struct larder_lease_token *lease);

// Opens a cache and writes its handle to `cache`; `larder_close` closes it. If `options` is null,
// all options are defaults. On error the function writes null to `cache`, and the reason to `why`:
// at most `why_bytes` bytes, including the zero at the end. `LARDER_NOT_OPENED` if the cache
// cannot be opened.
//
// Cost: system calls that map the memory; the system provides the pages at first use. With a disk
// tier it reads the log of a store, about a second for each GiB, and the library starts threads
// that end with `larder_close`.
enum larder_status larder_open(const struct larder_options *options,
                               struct larder **cache,
                               char *why,
                               size_t why_bytes);

// Checks whether this process uses the cache that was opened: a child of a `fork` joins the
// processes that share it with its first call, which can fail. Then the function returns
// `LARDER_NOT_OPENED`, and writes the reason to `why` as `larder_open` does: as many processes use
// the cache as it has room for (`processes_max`), or the fork happened in a process that could not
// open the file again (`/proc` was missing, too many files were open, or the process had
// changed its user since it opened the cache). `LARDER_FORKED` if a disk tier is of the parent.
//
// With `LARDER_NO_SUBSTITUTE` a process that finds no room still reads: `larder_get` and
// `larder_contains` find items, and changes return `LARDER_NOT_OPENED`. A child of a `fork` joins
// within a second or two after another process has left. A process that has opened a file closes
// it and opens it again.
//
// A child may change its user or its root directory between the fork and its first call.
enum larder_status larder_usable(const struct larder *cache,
                                 char *why,
                                 size_t why_bytes);

// Connects to the cache of a larderd, or of any memcached, at a unix socket, and writes the handle
// to `cache`; `larder_close` closes it. The handle reads hits in the memory of a larderd that runs
// with `--local-readers`, and sends all other requests to the server. It waits `timeout_ms`
// milliseconds for each response; 0 is 5 seconds. On error the function writes null to `cache`,
// and the reason to `why`, as `larder_open` does. `LARDER_UNREACHABLE` if the server does not
// accept the connection.
enum larder_status larder_connect(const char *socket,
                                  uint32_t timeout_ms,
                                  struct larder **cache,
                                  char *why,
                                  size_t why_bytes);

// Opens another handle of a cache that is open in this process, and writes it to `copy`. It shares
// everything but the time that `larder_set_now` sets. Each handle is closed; a disk tier stops
// with the handle that `larder_open` has written. `LARDER_UNSUPPORTED` for a handle of
// `larder_connect`.
enum larder_status larder_share(const struct larder *cache,
                                struct larder **copy);

// Sets the time of a handle of a cache that was opened with `LARDER_HANDLE_TIME`, in seconds of
// Unix time; 0 returns to the clock of the system. Items expire by this time for calls with the
// handle, and times to live begin with it: a request can have one time from its beginning to its
// end. The time must be near to that of the system, since all processes take part in the expiry of
// a shared cache. Leases do not depend on it. Does nothing with a handle of `larder_connect`.
void larder_set_now(const struct larder *cache,
                    int64_t unix_secs);

// Closes a cache and frees its handle. Does nothing if `cache` is null. No thread may use the
// handle during the call or later; a walk of `larder_keys` and a queue of `larder_subscribe`
// remain usable until they are closed. A shared cache stays for the other processes. A disk tier
// stops as by `larder_stop`, which reports what is not durable; not with a handle of
// `larder_share`.
void larder_close(struct larder *cache);

// Begins to put each item that leaves the cache, with its key and value, into a queue of at most
// `capacity` items; the limit is a million. The queue drops and counts an item that leaves while
// it is full. `larder_removals_close` ends the queue. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_subscribe(const struct larder *cache,
                                    size_t capacity,
                                    struct larder_removals **removals);

// Takes the next item from the queue, and waits for it at most `wait_ms`; `LARDER_END` if none
// arrives. Writes the key to `key`, which has `LARDER_KEY_BYTES_MAX` bytes, and the value to
// `value`, which has `capacity` bytes. `LARDER_TOO_SMALL` if the value is longer: then the next
// call returns the same item. `value_bytes` is `LARDER_NO_VALUE` if the queue does not have the
// value. `reason` is one of `LARDER_DELETED` to `LARDER_CLEARED`.
enum larder_status larder_removals_next(const struct larder_removals *removals,
                                        uint32_t wait_ms,
                                        void *key,
                                        size_t *key_bytes,
                                        void *value,
                                        size_t capacity,
                                        uint64_t *value_bytes,
                                        uint32_t *reason);

// Writes to `lost` how many items the queue dropped because it was full.
enum larder_status larder_removals_lost(const struct larder_removals *removals,
                                        uint64_t *lost);

// Ends a queue and frees it. Does nothing if `removals` is null.
void larder_removals_close(struct larder_removals *removals);

// Stores a value, and replaces the item of the key. The item expires after `ttl_secs` seconds; 0
// is no expiry. `flags` are the caller's, on every kind of cache; their low four bits are the tag
// of the value, such as `LARDER_TAG_STRING`, for programs of several languages. On a server, other
// clients read and write the same flags.
// `LARDER_TOO_LARGE` or `LARDER_NO_MEMORY` if the item does not fit: then the key has no item, so
// that readers do not see the old value. `LARDER_KEY` leaves everything as it was, and so does
// every error of a cache with a disk tier of `LARDER_MODE_STORE`.
enum larder_status larder_set(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              const void *value,
                              size_t value_bytes,
                              uint32_t ttl_secs,
                              uint32_t flags);

// Stores a value as `larder_set` does, if the key has no item; else returns `LARDER_EXISTS`.
enum larder_status larder_add(const struct larder *cache,
                              const void *key,
                              size_t key_bytes,
                              const void *value,
                              size_t value_bytes,
                              uint32_t ttl_secs,
                              uint32_t flags);

// Stores a value as `larder_set` does, if the key has an item; else returns `LARDER_MISSING`.
enum larder_status larder_replace(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes,
                                  uint32_t ttl_secs,
                                  uint32_t flags);

// Appends bytes to the value of an item, which keeps its time to live and flags. `LARDER_MISSING`
// if the key has no item.
enum larder_status larder_append(const struct larder *cache,
                                 const void *key,
                                 size_t key_bytes,
                                 const void *value,
                                 size_t value_bytes);

// Prepends bytes to the value of an item: see `larder_append`.
enum larder_status larder_prepend(const struct larder *cache,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes);

// Stores a value as `larder_set` does, if the item still has the token `cas`, and writes the new
// token to `new_cas`. If several callers read a value and store their changes, one succeeds: the
// others get `LARDER_CHANGED`, and read again. `LARDER_MISSING` if the key has no item,
// `LARDER_NO_TOKENS` if the cache keeps no tokens.
enum larder_status larder_compare_and_set(const struct larder *cache,
                                          const void *key,
                                          size_t key_bytes,
                                          const void *value,
                                          size_t value_bytes,
                                          uint32_t ttl_secs,
                                          uint32_t flags,
                                          uint64_t cas,
                                          uint64_t *new_cas);

// Removes an item. `LARDER_MISSING` if the key has none.
enum larder_status larder_delete(const struct larder *cache,
                                 const void *key,
                                 size_t key_bytes);

// Sets the time to live of an item to `ttl_secs` seconds from now; 0 is no expiry.
// `LARDER_MISSING` if the key has no item.
enum larder_status larder_touch(const struct larder *cache,
                                const void *key,
                                size_t key_bytes,
                                uint32_t ttl_secs);

// Removes every item whose key begins with a prefix, one by one, and writes their number to
// `removed`. An empty prefix removes all items; `larder_clear` does so at once.
// `LARDER_UNSUPPORTED` on a server.
//
// Cost: a walk through all keys; a disk tier is read.
enum larder_status larder_remove_prefix(const struct larder *cache,
                                        const void *prefix,
                                        size_t prefix_bytes,
                                        uint64_t *removed);

// Writes the number of statistics to `count`, and the first `capacity` of them to `stats`.
// `LARDER_TOO_SMALL` if there are more. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_stats(const struct larder *cache,
                                struct larder_stat *stats,
                                size_t capacity,
                                size_t *count);

// Writes the number of items to `items`. It includes items that have expired or that a client has
// cleared, until the cache finds them. With a disk tier it is the number of items in memory;
// `tier_items` of `larder_stats` counts those on the disk. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_length(const struct larder *cache,
                                 uint64_t *items);

// Writes the memory of the cache to `memory`. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_memory_of(const struct larder *cache,
                                    struct larder_memory *memory);

// Sets the memory limit, in bytes: from 1 MiB to `memory_bytes_max` of the options, else
// `LARDER_INVALID`. Under a lower limit the cache evicts items little by little.
// `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_set_memory(const struct larder *cache,
                                     uint64_t bytes);

// Removes all items: readers do not see them after the call. With a disk tier the call can fail as
// a store does, and all items stay. `LARDER_UNSUPPORTED` on a server.
//
// Cost: constant. The cache reclaims the memory later.
enum larder_status larder_clear(const struct larder *cache);

// Reclaims memory of items that have expired or that a client has cleared. The cache works without
// this call. `LARDER_UNSUPPORTED` on a server.
//
// Cost: at most some milliseconds.
enum larder_status larder_maintain(const struct larder *cache);

// Sets the counters of events, such as hits and misses, to 0, for all processes that share the
// cache. An event that another thread counts at the same time may be lost, or keep the old count
// of its thread. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_reset_stats(const struct larder *cache);

// Returns the meaning of a status and the remedy, for people. The text is static.
const char *larder_status_text(uint32_t status);

// Makes all changes so far durable. Does nothing without a disk tier. `LARDER_DISK_FAILED` if the
// disk has failed, `LARDER_UNSUPPORTED` on a server.
//
// Cost: a write and a sync of the disk.
enum larder_status larder_sync(const struct larder *cache);

// Stops the disk tier, as `larder_close` does: makes all changes durable, in mode cache also the
// items in memory, and frees the directory. Writes the number of bytes that are not durable to
// `left`, and returns `LARDER_DISK_FAILED` if it is not 0: the disk has failed, or hangs for
// longer than `stop_ms`. Then a directory of mode cache begins empty. Later changes fail with
// `LARDER_DISK_FAILED`, and `larder_close` is the only call that makes sense. Does nothing without
// a disk tier. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_stop(const struct larder *cache,
                               uint64_t *left);

// Writes the reason why the disk tier does not work as it should to `why`, an empty text if it
// does: at most `why_bytes` bytes, including the zero at the end. The reason is that of
// `LARDER_DISK_FAILED`, or else that of the last `LARDER_DISK_UNREADABLE`. `LARDER_UNSUPPORTED` on
// a server and without a disk tier.
enum larder_status larder_tier_trouble(const struct larder *cache,
                                       char *why,
                                       size_t why_bytes);

// Begins a walk through all keys that begin with a prefix, in no particular order. The walk
// returns an item that exists all the time at least once; it may skip an item that a client stores
// or removes meanwhile. The library holds no lock between two steps. `larder_keys_close` ends the
// walk. `LARDER_UNSUPPORTED` on a server.
enum larder_status larder_keys(const struct larder *cache,
                               const void *prefix,
                               size_t prefix_bytes,
                               struct larder_key_walk **keys);

// Writes the next key to `key`, which has `LARDER_KEY_BYTES_MAX` bytes, and its length to
// `key_bytes`. `LARDER_END` at the end of the walk.
enum larder_status larder_keys_next(const struct larder_key_walk *keys,
                                    void *key,
                                    size_t *key_bytes);

// Ends a walk and frees it. Does nothing if `keys` is null.
void larder_keys_close(struct larder_key_walk *keys);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LARDER_H */
