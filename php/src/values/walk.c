// Walks through the items of a cache, in groups in the cache's order.

#include "values.h"

// The cache returns the items of a group of its index together. This is enough for all groups
// except rare overfull ones, for which the capacity is doubled.
#define CAPACITY 128
#define KEY_BYTES_EACH 256

static void allocate(apcu_walk *walk, size_t capacity)
{
    walk->capacity = capacity;
    walk->entries = safe_erealloc(walk->entries, capacity, sizeof *walk->entries, 0);
    walk->keys = safe_erealloc(walk->keys, capacity, KEY_BYTES_EACH, 0);
}

void apcu_walk_begin(apcu_walk *walk, zend_string *prefix)
{
    *walk = (apcu_walk){.prefix = prefix};
    allocate(walk, CAPACITY);
}

void apcu_walk_restart(apcu_walk *walk)
{
    walk->cursor = (larder_cursor){0};
    walk->has_ended = false;
    walk->at = walk->count = 0;
}

void apcu_walk_end(apcu_walk *walk)
{
    if (walk->entries != NULL) {
        efree(walk->entries);
        efree(walk->keys);
        walk->entries = NULL;
    }
}

// Reads the next group of items.
static larder_status next_group(apcu_walk *walk, const larder *cache)
{
    const char *prefix = walk->prefix != NULL ? ZSTR_VAL(walk->prefix) : "";
    size_t bytes = walk->prefix != NULL ? MIN(ZSTR_LEN(walk->prefix), APCU_PLAIN_KEY_MAX) : 0;
    larder_status status = walk->has_ended ? LARDER_END : LARDER_OK;
    walk->at = walk->count = 0;
    while (status == LARDER_OK && walk->count == 0) {
        status = larder_walk(cache, &walk->cursor, prefix, bytes, walk->entries, walk->capacity,
                             walk->keys, walk->capacity * KEY_BYTES_EACH, &walk->count);
        if (status == LARDER_TOO_SMALL) {
            allocate(walk, 2 * walk->capacity);
            walk->count = 0;
            status = LARDER_OK;
        }
    }
    if (status != LARDER_OK) {
        walk->count = 0;
        walk->has_ended = true;
    }
    return status;
}

// Reads the name of an item that is stored under a hash. Returns null if the item no longer exists,
// or if a longer value replaced it before each of three reads.
static zend_string *read_name(const larder *cache, const char *key, const larder_entry *entry)
{
    size_t capacity = entry->value_bytes;
    for (int tries = 0; tries < 3; ++tries) {
        char *value = emalloc(capacity + 1);
        larder_item item;
        larder_status status = larder_look(cache, key, entry->key_bytes, value, capacity, &item);
        zend_string *name = status == LARDER_OK && (item.flags & APCU_HAS_NAME) != 0
            ? apcu_name_of_value(value, item.value_bytes) : NULL;
        efree(value);
        if (status != LARDER_TOO_SMALL) {
            return name;
        }
        capacity = item.value_bytes;
    }
    return NULL;
}

static bool begins_with(const zend_string *name, const zend_string *prefix)
{
    return prefix == NULL
        || (ZSTR_LEN(name) >= ZSTR_LEN(prefix)
            && memcmp(ZSTR_VAL(name), ZSTR_VAL(prefix), ZSTR_LEN(prefix)) == 0);
}

larder_status apcu_walk_next(apcu_walk *walk, const larder *cache, const larder_entry **entry,
                             zend_string **name)
{
    for (;;) {
        larder_status status = walk->at == walk->count ? next_group(walk, cache) : LARDER_OK;
        if (status != LARDER_OK) {
            return status;
        }
        const larder_entry *next = &walk->entries[walk->at++];
        const char *key = walk->keys + next->key_at;
        *entry = next;
        *name = (next->flags & APCU_HAS_NAME) != 0 ? read_name(cache, key, next)
                                                   : zend_string_init(key, next->key_bytes, 0);
        if (*name != NULL && begins_with(*name, walk->prefix)) {
            return LARDER_OK;
        }
        if (*name != NULL) {
            zend_string_release(*name);
        }
    }
}
