// Plain stand-ins for functions that Larder's C ABI does not have yet.

#ifndef LARDER_APCU_PENDING_H
#define LARDER_APCU_PENDING_H

#include <larder.h>

#ifndef LARDER_NO_SUBSTITUTE
#define LARDER_PENDING 1
#define LARDER_NO_SUBSTITUTE 0
#define LARDER_THREAD_TIME 0
#define LARDER_BUSY ((larder_status)6)
#define LARDER_TAG_STRING 0
#define LARDER_TAG_LONG 1
#define LARDER_TAG_DOUBLE 2
#define LARDER_TAG_BOOL 3
#define LARDER_TAG_PHP 4
#define LARDER_TAG_IGBINARY 5
#define LARDER_TAG_MSGPACK 7
#define LARDER_TAG_NULL 8
#define LARDER_TAG_ARRAY 9
typedef struct larder_cursor { uint64_t words[4]; } larder_cursor;
typedef struct larder_entry {
    uint64_t key_at; uint32_t key_bytes; uint32_t flags; uint64_t value_bytes;
    uint64_t memory_bytes; int64_t stored_at; int64_t used_at; int64_t expires_at;
    uint32_t reads; uint32_t marks;
} larder_entry;
typedef struct larder_lease_token { uint64_t words[4]; } larder_lease_token;
typedef struct larder_slice { const void *at; size_t bytes; } larder_slice;
larder_status larder_usable(const larder *cache, char *why, size_t why_bytes);
larder_status larder_add_i64(const larder *cache, const void *key, size_t key_bytes, int64_t delta,
                             uint32_t ttl_secs_if_new, int64_t *number);
larder_status larder_cas_i64(const larder *cache, const void *key, size_t key_bytes, int64_t old,
                             int64_t new_number);
larder_status larder_walk(const larder *cache, larder_cursor *cursor, const void *prefix,
                          size_t prefix_bytes, larder_entry *entries, size_t capacity, void *bytes,
                          size_t bytes_capacity, size_t *count);
larder_status larder_describe(const larder *cache, const void *key, size_t key_bytes,
                              larder_entry *entry);
larder_status larder_lease(const larder *cache, const void *key, size_t key_bytes, uint32_t ms,
                           larder_lease_token *lease);
larder_status larder_release(const larder *cache, const void *key, size_t key_bytes,
                             const larder_lease_token *lease);
void larder_set_now(int64_t unix_secs);
larder_status larder_reset_stats(const larder *cache);
larder_status larder_prefetch(const larder *cache, const larder_slice *keys, size_t count);
#endif

#endif
