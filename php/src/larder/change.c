// Changes that depend on the stored value: compare and set, and steps of a counter.

#include "larder_php.h"

// A change of an item that other processes change continuously fails after this many tries.
#define TRIES_MAX 1000

// A stored item during a change. larder_begin_load and larder_end_load make the change atomic: the
// second call fails if the item has changed since the first. So no lock is needed.
typedef struct larder_change {
    larder_load load;
    larder_item item;
    // The stored bytes, in request memory.
    zend_string *value;
    bool is_missing;
} larder_change;

static larder_status begin(larder *cache, const apcu_key *key, larder_change *change)
{
    larder_status status = larder_begin_load(cache, key->at, key->bytes, 1, &change->load);
    if (status != LARDER_OK) {
        return status;
    }
    change->item = (larder_item){.value_bytes = 64};
    do {
        size_t bytes = change->item.value_bytes;
        change->value = zend_string_alloc(bytes, 0);
        status = larder_get(cache, key->at, key->bytes, ZSTR_VAL(change->value), bytes,
                            &change->item);
        if (status != LARDER_OK) {
            zend_string_release(change->value);
            change->value = NULL;
        }
    } while (status == LARDER_TOO_SMALL);
    change->is_missing = status == LARDER_MISSING;
    if (status != LARDER_OK && status != LARDER_MISSING) {
        larder_cancel_load(cache, key->at, key->bytes, &change->load);
        return status;
    }
    return LARDER_OK;
}

static void forget(larder_change *change)
{
    if (change->value != NULL) {
        zend_string_release(change->value);
    }
}

static larder_status try_exchange(larder_object *object, larder *cache, const apcu_key *key,
                                  const apcu_encoded *expected, const apcu_encoded *encoded,
                                  uint32_t ttl, bool *is_over)
{
    larder_change change;
    *is_over = true;
    larder_status status = begin(cache, key, &change);
    if (status != LARDER_OK) {
        return status;
    }
    bool is_equal = !change.is_missing && !larder_is_stale(object->region, &change.item)
        && ((change.item.flags ^ expected->flags) & (LARDER_TAG_MASK | APCU_HAS_NAME)) == 0
        && change.item.value_bytes == expected->bytes
        && memcmp(ZSTR_VAL(change.value), expected->at, expected->bytes) == 0;
    forget(&change);
    if (!is_equal) {
        larder_cancel_load(cache, key->at, key->bytes, &change.load);
        return change.is_missing ? LARDER_MISSING : LARDER_CHANGED;
    }
    status = larder_end_load(cache, key->at, key->bytes, &change.load, encoded->at, encoded->bytes,
                             ttl, encoded->flags);
    *is_over = status != LARDER_CHANGED;
    return status;
}

bool larder_exchange(larder_object *object, const apcu_key *key, zval *expected, zval *value,
                     uint32_t ttl)
{
    apcu_encoded before, after;
    if (!larder_encode(object, &before, expected, key)) {
        return false;
    }
    if (!larder_encode(object, &after, value, key)) {
        apcu_encoded_free(&before);
        return false;
    }
    larder *cache = larder_cache_of(object->region);
    larder_status status = LARDER_CHANGED;
    bool is_over = cache == NULL;
    if (cache != NULL && object->region->is_server) {
        status = larder_remote_exchange(object, cache, key, &before, &after, ttl);
        is_over = true;
    }
    for (int tries = 0; tries < TRIES_MAX && !is_over; ++tries) {
        status = try_exchange(object, cache, key, &before, &after, ttl, &is_over);
    }
    apcu_encoded_free(&before);
    apcu_encoded_free(&after);
    larder_failed(object->region, status);
    return status == LARDER_OK;
}

// Tries once to change a counter that is stored under a hash. larder_add_i64 cannot do it, because
// the value begins with the name.
static larder_status try_step(larder_object *object, larder *cache, const apcu_key *key,
                              zend_long by, uint32_t ttl, zend_long *number, bool *is_over)
{
    larder_change change;
    *is_over = true;
    larder_status status = begin(cache, key, &change);
    if (status != LARDER_OK) {
        return status;
    }
    zval old;
    ZVAL_LONG(&old, 0);
    bool is_number = change.is_missing
        || ((change.item.flags & LARDER_TAG_MASK) == LARDER_TAG_LONG
            && larder_decode(object, &old, ZSTR_VAL(change.value), change.item.value_bytes,
                             change.item.flags, key));
    forget(&change);
    zval sum;
    apcu_encoded encoded;
    ZVAL_LONG(&sum, (zend_long)((zend_ulong)Z_LVAL(old) + (zend_ulong)by));
    if (!is_number || !larder_encode(object, &encoded, &sum, key)) {
        larder_cancel_load(cache, key->at, key->bytes, &change.load);
        return LARDER_NOT_A_NUMBER;
    }
    *number = Z_LVAL(sum);
    status = larder_end_load(cache, key->at, key->bytes, &change.load, encoded.at, encoded.bytes,
                             change.is_missing ? ttl : change.item.ttl_secs, encoded.flags);
    apcu_encoded_free(&encoded);
    *is_over = status != LARDER_CHANGED;
    return status;
}

bool larder_step(larder_object *object, const apcu_key *key, zend_long by, uint32_t ttl,
                 zend_long *number)
{
    larder *cache = larder_cache_of(object->region);
    larder_status status = LARDER_CHANGED;
    if (cache == NULL) {
        return false;
    }
    if (object->region->is_server) {
        status = larder_remote_step(cache, key, by, ttl, number);
    } else if (key->name == NULL) {
        int64_t sum;
        status = larder_add_i64(cache, key->at, key->bytes, by, ttl, &sum);
        *number = (zend_long)sum;
    } else {
        bool is_over = false;
        for (int tries = 0; tries < TRIES_MAX && !is_over; ++tries) {
            status = try_step(object, cache, key, by, ttl, number, &is_over);
        }
    }
    if (status == LARDER_NOT_A_NUMBER && EG(exception) == NULL) {
        larder_misuse("The value is not an integer");
    }
    larder_failed(object->region, status);
    return status == LARDER_OK;
}
