// apcu_store, apcu_add, apcu_fetch, apcu_exists and apcu_delete.

#include "larder_apcu.h"

#define EXPECTS_STRINGS "expects a string or array of strings."
#define DELETE_EXPECTS \
    "apc_delete() expects a string, array of strings, or APCIterator instance"

PHP_FUNCTION(apcu_enabled)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(apcu_cache != NULL);
}

// Stores a value that has already expired. This is the meaning of a negative time to live.
static larder_status store_expired(const apcu_key *key, bool is_add)
{
    if (is_add && larder_contains(apcu_cache, key->at, key->bytes) == LARDER_OK) {
        return LARDER_EXISTS;
    }
    if (!is_add) {
        larder_delete(apcu_cache, key->at, key->bytes);
    }
    return LARDER_OK;
}

bool apcu_store_name(zend_string *name, zval *value, zend_long ttl, bool is_add)
{
    if (UNEXPECTED(apcu_cache == NULL) || (APCUG(slam_defense) && apcu_is_slam(name))) {
        return false;
    }
    apcu_key key;
    apcu_encoded encoded;
    apcu_key_of(&key, name);
    // The index arrives from memory while the value is encoded.
    larder_prefetch_group(apcu_cache, key.at, key.bytes);
    if (!apcu_encode(&encoded, value, &key)) {
        return false;
    }
    apcu_prepare_time();
    // APCu stores 32 bits of a time to live. Its items are still valid in the second in which they
    // end, so the cache receives one second more.
    int32_t seconds = (int32_t)ttl;
    uint32_t expires = seconds > 0 ? (uint32_t)seconds + 1 : 0;
    larder_status status;
    if (UNEXPECTED(seconds < 0)) {
        status = store_expired(&key, is_add);
    } else {
        status = (is_add ? larder_add : larder_set)(apcu_cache, key.at, key.bytes, encoded.at,
                                                    encoded.bytes, expires, encoded.flags);
    }
    apcu_encoded_free(&encoded);
    if (UNEXPECTED(status != LARDER_OK)) {
        apcu_failed(status);
    }
    return status == LARDER_OK;
}

static void store_array(HashTable *items, zend_long ttl, bool is_add, zval *failed)
{
    zend_ulong index;
    zend_string *name;
    zval *value;
    zval code;
    ZVAL_LONG(&code, -1);
    array_init(failed);
    ZEND_HASH_FOREACH_KEY_VAL(items, index, name, value) {
        // An element of the array may be a reference. User code that runs during the store may
        // change the variable and so free the value, unless these copies hold it.
        zval held, array;
        ZVAL_COPY(&held, value);
        ZVAL_COPY_DEREF(&array, value);
        name = name != NULL ? zend_string_copy(name) : zend_long_to_str((zend_long)index);
        if (!apcu_store_name(name, &held, ttl, is_add)) {
            zend_symtable_update(Z_ARRVAL_P(failed), name, &code);
        }
        zend_string_release(name);
        zval_ptr_dtor(&array);
        zval_ptr_dtor(&held);
    } ZEND_HASH_FOREACH_END();
}

static void store(INTERNAL_FUNCTION_PARAMETERS, bool is_add)
{
    zval *key;
    zval *value = NULL;
    zend_long ttl = 0;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_ZVAL(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(value)
        Z_PARAM_LONG(ttl)
    ZEND_PARSE_PARAMETERS_END();
    if (EXPECTED(Z_TYPE_P(key) == IS_STRING)) {
        RETURN_BOOL(value != NULL && apcu_store_name(Z_STR_P(key), value, ttl, is_add));
    }
    if (Z_TYPE_P(key) == IS_ARRAY) {
        store_array(Z_ARRVAL_P(key), ttl, is_add, return_value);
        return;
    }
    php_error_docref(NULL, E_WARNING,
        "apc_store expects key parameter to be a string or an array of key/value pairs.");
    RETURN_FALSE;
}

PHP_FUNCTION(apcu_store)
{
    store(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

PHP_FUNCTION(apcu_add)
{
    store(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

bool apcu_fetch_name(zend_string *name, zval *value)
{
    if (UNEXPECTED(apcu_cache == NULL)) {
        return false;
    }
    apcu_prepare_time();
    apcu_key key;
    apcu_key_of(&key, name);
    return apcu_read(&key, value);
}

static void fetch_one(zval *name, HashTable *found)
{
    zval value;
    ZVAL_UNDEF(&value);
    if (Z_TYPE_P(name) != IS_STRING) {
        php_error_docref(NULL, E_WARNING, "apc_fetch() " EXPECTS_STRINGS);
    } else if (apcu_fetch_name(Z_STR_P(name), &value)) {
        zend_hash_update(found, Z_STR_P(name), &value);
    }
}

static void fetch_array(HashTable *array, zval *found)
{
    apcu_names names;
    array_init(found);
    apcu_names_begin(&names, array);
    while (apcu_names_next(&names, apcu_cache) > 0) {
        for (size_t at = 0; at < names.count; ++at) {
            fetch_one(&names.group[at], Z_ARRVAL_P(found));
        }
    }
    apcu_names_end(&names);
}

PHP_FUNCTION(apcu_fetch)
{
    zval *key;
    zval *success = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ZVAL(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(success)
    ZEND_PARSE_PARAMETERS_END();
    if (Z_TYPE_P(key) != IS_STRING && Z_TYPE_P(key) != IS_ARRAY) {
        convert_to_string(key);
    }
    bool is_found = true;
    if (EXPECTED(Z_TYPE_P(key) == IS_STRING)) {
        is_found = apcu_fetch_name(Z_STR_P(key), return_value);
    } else {
        fetch_array(Z_ARRVAL_P(key), return_value);
    }
    if (success != NULL) {
        ZEND_TRY_ASSIGN_REF_BOOL(success, is_found);
    }
    if (!is_found) {
        RETURN_FALSE;
    }
}

static bool exists(zend_string *name)
{
    if (apcu_cache == NULL) {
        return false;
    }
    apcu_prepare_time();
    apcu_key key;
    apcu_key_of(&key, name);
    larder_status status = larder_contains(apcu_cache, key.at, key.bytes);
    apcu_failed(status);
    return status == LARDER_OK;
}

static void exist_array(HashTable *array, zval *found)
{
    apcu_names names;
    zval is_found;
    ZVAL_TRUE(&is_found);
    array_init(found);
    apcu_names_begin(&names, array);
    while (apcu_names_next(&names, apcu_cache) > 0) {
        for (size_t at = 0; at < names.count; ++at) {
            zval *name = &names.group[at];
            if (Z_TYPE_P(name) != IS_STRING) {
                php_error_docref(NULL, E_WARNING, "apc_exists() " EXPECTS_STRINGS);
            } else if (exists(Z_STR_P(name))) {
                zend_hash_update(Z_ARRVAL_P(found), Z_STR_P(name), &is_found);
            }
        }
    }
    apcu_names_end(&names);
}

PHP_FUNCTION(apcu_exists)
{
    zval *key;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ZVAL(key)
    ZEND_PARSE_PARAMETERS_END();
    if (Z_TYPE_P(key) != IS_STRING && Z_TYPE_P(key) != IS_ARRAY) {
        convert_to_string(key);
    }
    if (Z_TYPE_P(key) == IS_STRING) {
        RETURN_BOOL(exists(Z_STR_P(key)));
    }
    exist_array(Z_ARRVAL_P(key), return_value);
}

bool apcu_delete_name(zend_string *name)
{
    if (apcu_cache == NULL) {
        return false;
    }
    apcu_prepare_time();
    apcu_key key;
    apcu_key_of(&key, name);
    larder_status status = larder_delete(apcu_cache, key.at, key.bytes);
    apcu_failed(status);
    return status == LARDER_OK;
}

static void delete_array(HashTable *array, zval *kept)
{
    apcu_names names;
    array_init(kept);
    apcu_names_begin(&names, array);
    while (apcu_names_next(&names, apcu_cache) > 0) {
        for (size_t at = 0; at < names.count; ++at) {
            zval *name = &names.group[at];
            if (Z_TYPE_P(name) != IS_STRING) {
                php_error_docref(NULL, E_WARNING, DELETE_EXPECTS);
            } else if (apcu_delete_name(Z_STR_P(name))) {
                continue;
            }
            Z_TRY_ADDREF_P(name);
            add_next_index_zval(kept, name);
        }
    }
    apcu_names_end(&names);
}

PHP_FUNCTION(apcu_delete)
{
    zval *key;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ZVAL(key)
    ZEND_PARSE_PARAMETERS_END();
    switch (Z_TYPE_P(key)) {
        case IS_STRING:
            RETURN_BOOL(apcu_delete_name(Z_STR_P(key)));
        case IS_ARRAY:
            delete_array(Z_ARRVAL_P(key), return_value);
            return;
        case IS_OBJECT:
            RETURN_BOOL(apcu_iterator_delete(key));
        default:
            php_error_docref(NULL, E_WARNING, DELETE_EXPECTS);
            RETURN_FALSE;
    }
}
