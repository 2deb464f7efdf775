// Walks through the items of the cache, in groups of its own order.

#include "walk.h"

// The items of all but overfull groups of the index fit.
#define CAPACITY 128
#define KEY_BYTES_EACH 256

static void allocate(apcu_walk *walk, size_t capacity)
{
    walk->capacity = capacity;
    walk->entries = safe_erealloc(walk->entries, capacity, sizeof *walk->entries, 0);
    walk->keys = safe_erealloc(walk->keys, capacity, KEY_BYTES_EACH, 0);
}

apcu_walk *apcu_walk_begin(zend_string *prefix)
{
    apcu_walk *walk = ecalloc(1, sizeof *walk);
    walk->prefix = prefix;
    allocate(walk, CAPACITY);
    return walk;
}

void apcu_walk_restart(apcu_walk *walk)
{
    walk->cursor = (larder_cursor){0};
    walk->has_ended = false;
    walk->at = walk->count = 0;
}

void apcu_walk_end(apcu_walk *walk)
{
    efree(walk->entries);
    efree(walk->keys);
    efree(walk);
}

// Reads the next group of items. False at the end.
static bool next_group(apcu_walk *walk)
{
    const char *prefix = walk->prefix != NULL ? ZSTR_VAL(walk->prefix) : "";
    size_t bytes = walk->prefix != NULL ? MIN(ZSTR_LEN(walk->prefix), APCU_PLAIN_KEY_MAX) : 0;
    walk->at = walk->count = 0;
    while (!walk->has_ended && walk->count == 0) {
        larder_status status =
            larder_walk(apcu_cache, &walk->cursor, prefix, bytes, walk->entries, walk->capacity,
                        walk->keys, walk->capacity * KEY_BYTES_EACH, &walk->count);
        if (status == LARDER_TOO_SMALL) {
            allocate(walk, 2 * walk->capacity);
        } else if (status != LARDER_OK) {
            apcu_failed(status);
            walk->has_ended = true;
        }
        if (status != LARDER_OK) {
            walk->count = 0;
        }
    }
    return walk->count != 0;
}

// Reads the full key of an item that is stored under its hash; null if the item has gone.
static zend_string *read_name(const char *key, const larder_entry *entry)
{
    size_t capacity = entry->value_bytes;
    for (int tries = 0; tries < 3; ++tries) {
        char *value = emalloc(capacity + 1);
        larder_item item;
        larder_status status =
            larder_look(apcu_cache, key, entry->key_bytes, value, capacity, &item);
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

bool apcu_walk_next(apcu_walk *walk, const larder_entry **entry, zend_string **name)
{
    for (;;) {
        if (walk->at == walk->count && !next_group(walk)) {
            return false;
        }
        const larder_entry *next = &walk->entries[walk->at++];
        const char *key = walk->keys + next->key_at;
        *entry = next;
        *name = (next->flags & APCU_HAS_NAME) != 0 ? read_name(key, next)
                                                   : zend_string_init(key, next->key_bytes, 0);
        if (*name != NULL) {
            return true;
        }
    }
}

zend_ulong apcu_slot_of(zend_string *name)
{
    return ZSTR_HASH(name) % (zend_ulong)apcu_slots();
}

// The reads that eviction counts go on from one value of a key to the next.
zend_long apcu_entry_hits(const larder_entry *entry)
{
    return (entry->marks & LARDER_FETCHED) == 0 ? 0 : MAX(1, entry->reads);
}

zend_long apcu_entry_ttl(const larder_entry *entry)
{
    // An item lives a second longer here: see apcu_store_name.
    return entry->expires_at == 0 ? 0 : (zend_long)(entry->expires_at - entry->stored_at - 1);
}

zend_long apcu_entry_used_at(const larder_entry *entry)
{
    return (zend_long)(entry->used_at != 0 ? entry->used_at : entry->stored_at);
}
