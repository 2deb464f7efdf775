// Several keys of a server in one round trip.

#include "larder/larder_php.h"

// The memory for the values of the first request, in bytes. A further request reads the values that
// do not fit.
#define VALUES_BYTES (256 << 10)

// The keys of a request, in request memory.
typedef struct wanted {
    size_t count;
    size_t capacity;
    zend_string **names;
    size_t key_bytes;
    // The total length of the values that did not fit.
    size_t value_bytes;
    HashTable *found;
} wanted;

static void add(wanted *wanted, zend_string *name)
{
    if (wanted->count == wanted->capacity) {
        wanted->capacity = MAX(16, 2 * wanted->capacity);
        wanted->names =
            safe_erealloc(wanted->names, wanted->capacity, sizeof *wanted->names, 0);
    }
    wanted->names[wanted->count++] = name;
    wanted->key_bytes += ZSTR_LEN(name);
}

static bool add_name(larder_object *object, zval *index, zval *name_value, void *context)
{
    zend_string *name = larder_name_of(name_value);
    apcu_key key;
    if (name == NULL) {
        return false;
    }
    if (!larder_key_of(object, &key, name)) {
        zend_string_release(name);
        return false;
    }
    add(context, name);
    return true;
}

// Adds the value of a key to the result. If the value did not fit, adds the key to `again`, and a
// placeholder to the result, so that the result has the order of the keys.
static void take(larder_object *object, wanted *again, zend_string *name, const larder_item *item,
                 const char *values)
{
    zval value;
    if (item->status == LARDER_TOO_SMALL && !larder_is_stale(object->region, item)) {
        ZVAL_NULL(&value);
        zend_symtable_update(again->found, name, &value);
        add(again, zend_string_copy(name));
        again->value_bytes += item->value_bytes;
    } else if (item->status == LARDER_OK && !larder_is_stale(object->region, item)
               && larder_decode(object, &value, values + item->value_at, item->value_bytes,
                                item->flags, NULL)) {
        zend_symtable_update(again->found, name, &value);
    } else {
        zend_symtable_del(again->found, name);
        larder_failed(object->region, item->status);
    }
}

static void request(larder_object *object, larder *cache, const wanted *wanted, size_t capacity,
                    struct wanted *again)
{
    char *keys = emalloc(wanted->key_bytes), *values = emalloc(capacity), *at = keys;
    uint32_t *lengths = safe_emalloc(wanted->count, sizeof *lengths, 0);
    larder_item *items = safe_emalloc(wanted->count, sizeof *items, 0);
    for (size_t place = 0; place < wanted->count; ++place) {
        lengths[place] = (uint32_t)ZSTR_LEN(wanted->names[place]);
        memcpy(at, ZSTR_VAL(wanted->names[place]), lengths[place]);
        at += lengths[place];
    }
    larder_status status =
        larder_get_many(cache, keys, lengths, wanted->count, values, capacity, items);
    larder_failed(object->region, status);
    for (size_t place = 0; place < wanted->count && EG(exception) == NULL; ++place) {
        if (status != LARDER_OK) {
            zend_symtable_del(again->found, wanted->names[place]);
        } else {
            take(object, again, wanted->names[place], &items[place], values);
        }
    }
    efree(items);
    efree(lengths);
    efree(values);
    efree(keys);
}

static void forget(wanted *wanted)
{
    for (size_t place = 0; place < wanted->count; ++place) {
        zend_string_release(wanted->names[place]);
    }
    if (wanted->names != NULL) {
        efree(wanted->names);
    }
}

void larder_remote_get_many(larder_object *object, zval *names, HashTable *found)
{
    wanted wanted = {.found = found};
    larder_traverse(object, names, add_name, &wanted);
    larder *cache = larder_cache_of(object->region);
    size_t capacity = VALUES_BYTES;
    // The second request has memory for all values that did not fit. It needs a third one only if
    // other clients have stored longer values since.
    while (EG(exception) == NULL && cache != NULL && wanted.count > 0) {
        struct wanted again = {.found = found};
        request(object, cache, &wanted, capacity, &again);
        forget(&wanted);
        wanted = again;
        capacity = again.value_bytes;
    }
    forget(&wanted);
}
