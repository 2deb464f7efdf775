// Reading values from the cache.

#include "values.h"

typedef larder_status (*get_function)(const larder *, const void *, size_t, void *, size_t,
                                      larder_item *);

// Reads a value that does not fit on the stack. Its length can change until it is read.
static bool read_long(get_function get, const apcu_key *key, size_t bytes, zval *value)
{
    for (;;) {
        zend_string *text = zend_string_alloc(bytes, 0);
        larder_item item;
        larder_status status = get(apcu_cache, key->at, key->bytes, ZSTR_VAL(text), bytes, &item);
        if (status == LARDER_OK) {
            ZSTR_VAL(text)[item.value_bytes] = 0;
            if (item.value_bytes == bytes && item.flags == LARDER_TAG_STRING && bytes > 1
                && key->name == NULL) {
                ZVAL_NEW_STR(value, text);
                return true;
            }
            bool is_whole = apcu_decode(value, ZSTR_VAL(text), item.value_bytes, item.flags, key);
            zend_string_release_ex(text, 0);
            return is_whole;
        }
        zend_string_release_ex(text, 0);
        if (status != LARDER_TOO_SMALL) {
            apcu_failed(status);
            return false;
        }
        bytes = item.value_bytes;
    }
}

static zend_always_inline bool read_by(get_function get, const apcu_key *key, zval *value)
{
    char room[4096];
    larder_item item;
    larder_status status = get(apcu_cache, key->at, key->bytes, room, sizeof room, &item);
    if (EXPECTED(status == LARDER_OK)) {
        return apcu_decode(value, room, item.value_bytes, item.flags, key);
    }
    if (status == LARDER_TOO_SMALL) {
        return read_long(get, key, item.value_bytes, value);
    }
    apcu_failed(status);
    return false;
}

bool apcu_read(const apcu_key *key, zval *value)
{
    return read_by(larder_get, key, value);
}

bool apcu_look(const apcu_key *key, zval *value)
{
    return read_by(larder_look, key, value);
}
