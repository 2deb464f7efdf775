// Reading values from the cache.

#include "larder_apcu.h"

typedef larder_status (*get_function)(const larder *, const void *, size_t, void *, size_t,
                                      larder_item *);

// Reads a value into a string of `bytes`, its known or predicted length.
static bool read_long(get_function get, const apcu_key *key, size_t bytes, zval *value)
{
    for (;;) {
        zend_string *text = zend_string_alloc(bytes, 0);
        larder_item item;
        larder_status status = get(apcu_cache, key->at, key->bytes, ZSTR_VAL(text), bytes, &item);
        if (status == LARDER_OK) {
            apcu_note_length(&APCUG(lengths), item.value_bytes);
            if (item.flags == LARDER_TAG_STRING && key->name == NULL
                && item.value_bytes > APCU_ROOM_BYTES) {
                apcu_take_string(value, text, item.value_bytes);
                return true;
            }
            bool is_whole = apcu_decode(value, ZSTR_VAL(text), item.value_bytes, item.flags, key);
            zend_string_release_ex(text, 0);
            return is_whole;
        }
        zend_string_release_ex(text, 0);
        if (status != LARDER_TOO_SMALL) {
            APCUG(lengths).long_in_row = 0;
            apcu_failed(status);
            return false;
        }
        bytes = item.value_bytes;
    }
}

// Reads a value to a buffer on the stack. If it does not fit, this only returns its length, and a
// second call reads it to a string. After two long values the next one is expected to be long, so
// the first call is skipped: see apcu_lengths.
static zend_always_inline bool read_by(get_function get, const apcu_key *key, zval *value)
{
    char room[APCU_ROOM_BYTES];
    larder_item item;
    if (UNEXPECTED(APCUG(lengths).long_in_row == 2)) {
        return read_long(get, key, APCUG(lengths).last, value);
    }
    larder_status status = get(apcu_cache, key->at, key->bytes, room, sizeof room, &item);
    if (EXPECTED(status == LARDER_OK)) {
        apcu_note_length(&APCUG(lengths), item.value_bytes);
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
