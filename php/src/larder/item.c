// Single items: keys, times to live, reading and writing.

#include "larder_php.h"
#include "ext/date/php_date.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include <time.h>

bool larder_key_of(larder_object *object, apcu_key *key, zend_string *name)
{
    if (UNEXPECTED(ZSTR_LEN(name) == 0)) {
        larder_misuse("A key must have at least one byte");
        return false;
    }
    if (UNEXPECTED(object->region->is_server)) {
        // A server has other clients, which would not find an item under the hash of its name. So a
        // name that is too long is an error.
        *key = (apcu_key){.at = ZSTR_VAL(name), .bytes = ZSTR_LEN(name)};
        if (ZSTR_LEN(name) > LARDER_KEY_BYTES_MAX) {
            larder_misuse("A key on a server must have at most %d bytes", LARDER_KEY_BYTES_MAX);
            return false;
        }
        return true;
    }
    apcu_key_of(key, name);
    return true;
}

// Returns the length in seconds of an interval that begins now. It is computed with dates, because
// months and years have different lengths.
static zend_long seconds_of(zend_object *interval)
{
    zval now, argument, end, stamp;
    char text[32];
    time_t begin = time(NULL);
    snprintf(text, sizeof text, "@%lld", (long long)begin);
    object_init_ex(&now, php_date_get_immutable_ce());
    ZVAL_STRING(&argument, text);
    zend_call_method_with_1_params(Z_OBJ(now), php_date_get_immutable_ce(), NULL, "__construct",
                                   NULL, &argument);
    zval_ptr_dtor(&argument);
    ZVAL_OBJ(&argument, interval);
    ZVAL_UNDEF(&end);
    ZVAL_LONG(&stamp, (zend_long)begin);
    zend_call_method_with_1_params(Z_OBJ(now), php_date_get_immutable_ce(), NULL, "add", &end,
                                   &argument);
    if (Z_TYPE(end) == IS_OBJECT) {
        zend_call_method_with_0_params(Z_OBJ(end), php_date_get_immutable_ce(), NULL,
                                       "gettimestamp", &stamp);
    }
    zval_ptr_dtor(&end);
    zval_ptr_dtor(&now);
    return Z_LVAL(stamp) - (zend_long)begin;
}

bool larder_ttl_of(larder_ttl *ttl, uint32_t *seconds)
{
    if (ttl->interval != NULL) {
        ttl->seconds = seconds_of(ttl->interval);
    } else if (ttl->is_null) {
        *seconds = 0;
        return true;
    }
    if (EG(exception) != NULL) {
        return false;
    }
    if (ttl->seconds < 1) {
        larder_misuse("A time to live must be at least one second, or null: " ZEND_LONG_FMT
                      " given",
                      ttl->seconds);
        return false;
    }
    *seconds = ttl->seconds > LARDER_TTL_MAX ? 0 : (uint32_t)ttl->seconds;
    return true;
}

bool larder_encode(larder_object *object, apcu_encoded *encoded, zval *value, const apcu_key *key)
{
    LG(classes) = object->classes;
    LG(serializer) = object->serializer;
    bool is_encoded = UNEXPECTED(object->region->is_server) ? larder_remote_encode(encoded, value)
                                                            : apcu_encode(encoded, value, key);
    if (UNEXPECTED(!is_encoded)) {
        if (EG(exception) == NULL) {
            larder_misuse("The value cannot be stored: it is too large");
        } else if (EG(exception)->ce != larder_exception_class) {
            larder_misuse("The value cannot be serialized");
        }
        return false;
    }
    return true;
}

bool larder_decode(larder_object *object, zval *value, const char *at, size_t bytes,
                   uint32_t flags, const apcu_key *key)
{
    LG(classes) = object->classes;
    if (UNEXPECTED(object->region->is_server)) {
        return larder_remote_decode(value, at, bytes, flags);
    }
    return apcu_decode(value, at, bytes, flags & (LARDER_TAG_MASK | APCU_HAS_NAME), key);
}

// Reads a value into a string of `item->value_bytes`, its known or predicted length.
static larder_status read_long(larder *cache, const apcu_key *key, larder_item *item,
                               zend_string **text)
{
    larder_status status;
    do {
        *text = zend_string_alloc(item->value_bytes, 0);
        status = larder_get(cache, key->at, key->bytes, ZSTR_VAL(*text), ZSTR_LEN(*text), item);
        if (status != LARDER_OK) {
            zend_string_release_ex(*text, 0);
        }
    } while (status == LARDER_TOO_SMALL);
    return status;
}

// Decodes the string that `read_long` has filled.
static bool take_long(larder_object *object, const apcu_key *key, const larder_item *item,
                      zend_string *text, zval *value)
{
    if (item->value_bytes > APCU_ROOM_BYTES && key->name == NULL && !object->region->is_server
        && (item->flags & LARDER_TAG_MASK) == LARDER_TAG_STRING) {
        apcu_take_string(value, text, item->value_bytes);
        return true;
    }
    bool is_whole =
        larder_decode(object, value, ZSTR_VAL(text), item->value_bytes, item->flags, key);
    zend_string_release_ex(text, 0);
    return is_whole;
}

bool larder_read(larder_object *object, const apcu_key *key, zval *value, bool *is_stale)
{
    char room[APCU_ROOM_BYTES];
    larder_item item = {.value_bytes = LG(lengths).last};
    zend_string *text = NULL;
    larder *cache = larder_cache_of(object->region);
    if (UNEXPECTED(cache == NULL)) {
        return false;
    }
    // After two long values the next one is expected to be long, so this skips the larder_get that
    // only returns the length: see apcu_lengths.
    larder_status status = LG(lengths).long_in_row == 2
        ? LARDER_TOO_SMALL
        : larder_get(cache, key->at, key->bytes, room, sizeof room, &item);
    if (status == LARDER_TOO_SMALL) {
        status = read_long(cache, key, &item, &text);
    }
    if (UNEXPECTED(status != LARDER_OK)) {
        LG(lengths).long_in_row = 0;
        larder_failed(object->region, status);
        return false;
    }
    apcu_note_length(&LG(lengths), item.value_bytes);
    if (larder_is_stale(object->region, &item)) {
        if (is_stale == NULL) {
            if (text != NULL) {
                zend_string_release_ex(text, 0);
            }
            return false;
        }
        *is_stale = true;
    }
    return text != NULL ? take_long(object, key, &item, text, value)
                        : larder_decode(object, value, room, item.value_bytes, item.flags, key);
}

bool larder_write(larder_object *object, const apcu_key *key, zval *value, uint32_t ttl,
                  uint32_t stale, larder_store store)
{
    apcu_encoded encoded;
    larder *cache = larder_cache_of(object->region);
    // The index arrives from memory while the value is encoded.
    larder_prefetch_group(cache, key->at, key->bytes);
    if (!larder_encode(object, &encoded, value, key)) {
        return false;
    }
    // The serializer may have run code that has closed the cache.
    cache = larder_cache_of(object->region);
    larder_status status = LARDER_NOT_OPENED;
    if (EXPECTED(cache != NULL)) {
        status = store(cache, key->at, key->bytes, encoded.at, encoded.bytes, ttl + stale,
                       encoded.flags | larder_stale_flags(object->region, stale));
        larder_failed(object->region, status);
    }
    apcu_encoded_free(&encoded);
    return status == LARDER_OK;
}
