// Walks through the keys of a cache.

#include "cache/larder_php.h"

// The items of all but overfull groups of the index fit.
#define CAPACITY 128
#define KEY_BYTES_EACH 256

static void allocate(larder_walker *walker, size_t capacity)
{
    walker->capacity = capacity;
    walker->entries = safe_erealloc(walker->entries, capacity, sizeof *walker->entries, 0);
    walker->keys = safe_erealloc(walker->keys, capacity, KEY_BYTES_EACH, 0);
}

void larder_walk_begin(larder_walker *walker, larder_object *object, zend_string *prefix)
{
    *walker = (larder_walker){.object = object, .prefix = prefix};
    allocate(walker, CAPACITY);
}

void larder_walk_end(larder_walker *walker)
{
    if (walker->entries != NULL) {
        efree(walker->entries);
        efree(walker->keys);
    }
}

static bool next_group(larder_walker *walker)
{
    larder_region *region = walker->object->region;
    larder *cache = larder_cache_of(region);
    size_t bytes = MIN(ZSTR_LEN(walker->prefix), APCU_PLAIN_KEY_MAX);
    walker->has_ended = walker->has_ended || cache == NULL;
    walker->at = walker->count = 0;
    while (!walker->has_ended && walker->count == 0) {
        larder_status status =
            larder_walk(cache, &walker->cursor, ZSTR_VAL(walker->prefix), bytes, walker->entries,
                        walker->capacity, walker->keys, walker->capacity * KEY_BYTES_EACH,
                        &walker->count);
        if (status == LARDER_TOO_SMALL) {
            allocate(walker, 2 * walker->capacity);
        } else if (status != LARDER_OK) {
            larder_failed(region, status);
            walker->has_ended = true;
        }
        if (status != LARDER_OK) {
            walker->count = 0;
        }
    }
    return walker->count != 0;
}

// Reads the full key of an item that is stored under its hash; null if the item has gone.
static zend_string *read_name(larder *cache, const char *key, const larder_entry *entry)
{
    size_t capacity = entry->value_bytes;
    for (int tries = 0; tries < 3; ++tries) {
        char *value = emalloc(capacity + 1);
        larder_item item;
        larder_status status =
            larder_look(cache, key, entry->key_bytes, value, capacity, &item);
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
    return ZSTR_LEN(name) >= ZSTR_LEN(prefix)
        && memcmp(ZSTR_VAL(name), ZSTR_VAL(prefix), ZSTR_LEN(prefix)) == 0;
}

zend_string *larder_walk_next(larder_walker *walker)
{
    for (;;) {
        if (walker->at == walker->count && !next_group(walker)) {
            return NULL;
        }
        const larder_entry *entry = &walker->entries[walker->at++];
        const char *key = walker->keys + entry->key_at;
        zend_string *name = (entry->flags & APCU_HAS_NAME) != 0
            ? read_name(walker->object->region->cache, key, entry)
            : zend_string_init(key, entry->key_bytes, 0);
        if (name != NULL && begins_with(name, walker->prefix)) {
            return name;
        }
        if (name != NULL) {
            zend_string_release(name);
        }
    }
}
