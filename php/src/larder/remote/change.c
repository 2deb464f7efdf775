// Changes on a server that depend on the stored value.

#include "larder/larder_php.h"

// A change of an item that other clients change continuously fails after this many tries.
#define TRIES_MAX 1000

// Reads a value, which the caller releases. It is null if the key does not exist.
static larder_status read_value(larder *cache, const apcu_key *key, larder_item *item,
                                zend_string **value)
{
    larder_status status;
    item->value_bytes = 64;
    do {
        size_t bytes = item->value_bytes;
        *value = zend_string_alloc(bytes, 0);
        status = larder_get(cache, key->at, key->bytes, ZSTR_VAL(*value), bytes, item);
        if (status != LARDER_OK) {
            zend_string_release(*value);
            *value = NULL;
        }
    } while (status == LARDER_TOO_SMALL);
    return status;
}

static larder_status try_exchange(larder_object *object, larder *cache, const apcu_key *key,
                                  const apcu_encoded *expected, const apcu_encoded *encoded,
                                  uint32_t ttl)
{
    larder_item item;
    zend_string *value;
    larder_status status = read_value(cache, key, &item, &value);
    if (status != LARDER_OK) {
        return status;
    }
    bool is_it = !larder_is_stale(object->region, &item)
        && larder_remote_is(expected, ZSTR_VAL(value), item.value_bytes, item.flags);
    zend_string_release(value);
    if (!is_it) {
        return LARDER_EXISTS;
    }
    return item.cas == 0 ? LARDER_NO_TOKENS
                         : larder_compare_and_set(cache, key->at, key->bytes, encoded->at,
                                                  encoded->bytes, ttl, encoded->flags, item.cas,
                                                  NULL);
}

larder_status larder_remote_exchange(larder_object *object, larder *cache, const apcu_key *key,
                                     const apcu_encoded *expected, const apcu_encoded *encoded,
                                     uint32_t ttl)
{
    larder_status status = LARDER_CHANGED;
    // LARDER_CHANGED means that another client stored the key between the read and the store. It
    // may have stored the expected value again, so the new value is compared as well.
    for (int tries = 0; tries < TRIES_MAX && status == LARDER_CHANGED; ++tries) {
        status = try_exchange(object, cache, key, expected, encoded, ttl);
    }
    return status;
}

larder_status larder_remote_step(larder *cache, const apcu_key *key, zend_long by, uint32_t ttl,
                                 zend_long *number)
{
    char text[24];
    uint64_t sum = 0;
    zend_ulong amount = by < 0 ? 0 - (zend_ulong)by : (zend_ulong)by;
    larder_status status = LARDER_MISSING;
    // Between the two requests another client can store the counter, so that the add fails, and
    // remove it again before the next increment.
    for (int tries = 0; tries < TRIES_MAX; ++tries) {
        status = (by < 0 ? larder_decrement : larder_increment)(cache, key->at, key->bytes, amount,
                                                                 &sum);
        *number = (zend_long)sum;
        if (status != LARDER_MISSING) {
            return status;
        }
        *number = MAX(by, 0);
        size_t bytes = apcu_long_text(text, *number);
        status = larder_add(cache, key->at, key->bytes, text, bytes, ttl, LARDER_TAG_LONG);
        if (status != LARDER_EXISTS) {
            return status;
        }
    }
    return status;
}
