// Plain stand-ins for functions that Larder's C ABI does not have yet.

#include "values/values.h"

#ifdef LARDER_PENDING
#include <time.h>

larder_status larder_usable(const larder *cache, char *why, size_t why_bytes) { return LARDER_OK; }
void larder_set_now(int64_t unix_secs) {}
larder_status larder_reset_stats(const larder *cache) { return LARDER_OK; }
larder_status larder_prefetch(const larder *cache, const larder_slice *keys, size_t count) { return LARDER_OK; }

static larder_status change(const larder *cache, const void *key, size_t key_bytes, bool is_add, int64_t operand,
                            int64_t new_number, uint32_t ttl, int64_t *number)
{
    for (;;) {
        larder_load load;
        char text[32];
        larder_item item;
        larder_status status = larder_begin_load(cache, key, key_bytes, 1, &load);
        if (status != LARDER_OK) return status;
        status = larder_get(cache, key, key_bytes, text, sizeof text, &item);
        zend_long old = 0;
        bool is_missing = status == LARDER_MISSING;
        if (!is_missing && (status != LARDER_OK || (item.flags & 15) != LARDER_TAG_LONG
            || !apcu_long_of_text(text, item.value_bytes, &old))) status = LARDER_NOT_A_NUMBER;
        else if (is_missing && !is_add) status = LARDER_MISSING;
        else if (!is_add && old != operand) status = LARDER_CHANGED;
        else status = LARDER_OK;
        if (status != LARDER_OK) { larder_cancel_load(cache, key, key_bytes, &load); return status; }
        *number = is_add ? (int64_t)((uint64_t)old + (uint64_t)operand) : new_number;
        size_t bytes = apcu_long_text(text, *number);
        status = larder_end_load(cache, key, key_bytes, &load, text, bytes, is_missing ? ttl : item.ttl_secs, LARDER_TAG_LONG);
        if (status != LARDER_CHANGED) return status;
    }
}

larder_status larder_add_i64(const larder *cache, const void *key, size_t key_bytes, int64_t delta,
                             uint32_t ttl_secs_if_new, int64_t *number)
{
    return change(cache, key, key_bytes, true, delta, 0, ttl_secs_if_new, number);
}

larder_status larder_cas_i64(const larder *cache, const void *key, size_t key_bytes, int64_t old,
                             int64_t new_number)
{
    int64_t number;
    return change(cache, key, key_bytes, false, old, new_number, 0, &number);
}

larder_status larder_describe(const larder *cache, const void *key, size_t key_bytes,
                              larder_entry *entry)
{
    larder_item item;
    larder_status status = larder_peek(cache, key, key_bytes, &item);
    int64_t now = time(NULL);
    *entry = (larder_entry){.key_bytes = key_bytes, .flags = item.flags, .value_bytes = item.value_bytes,
        .memory_bytes = item.value_bytes + key_bytes + 24, .stored_at = now, .used_at = now,
        .expires_at = item.ttl_secs ? now + item.ttl_secs : 0};
    return status;
}

larder_status larder_walk(const larder *cache, larder_cursor *cursor, const void *prefix,
                          size_t prefix_bytes, larder_entry *entries, size_t capacity, void *bytes,
                          size_t bytes_capacity, size_t *count)
{
    larder_key_walk *keys;
    larder_status status = larder_keys(cache, prefix, prefix_bytes, &keys);
    if (status != LARDER_OK) return status;
    char *at = bytes;
    *count = 0;
    size_t key_bytes;
    char key[250];
    for (uint64_t skipped = 0; skipped < cursor->words[0]; ++skipped) larder_keys_next(keys, key, &key_bytes);
    while (*count < capacity && bytes_capacity - (at - (char *)bytes) >= 250
        && (status = larder_keys_next(keys, at, &key_bytes)) == LARDER_OK) {
        ++cursor->words[0];
        if (larder_describe(cache, at, key_bytes, &entries[*count]) == LARDER_OK) {
            entries[(*count)++].key_at = at - (char *)bytes;
            at += key_bytes;
        }
    }
    larder_keys_close(keys);
    return status == LARDER_END && *count == 0 ? LARDER_END : LARDER_OK;
}

larder_status larder_lease(const larder *cache, const void *key, size_t key_bytes, uint32_t ms, larder_lease_token *lease) { return LARDER_OK; }
larder_status larder_release(const larder *cache, const void *key, size_t key_bytes, const larder_lease_token *lease) { return LARDER_OK; }
#endif
