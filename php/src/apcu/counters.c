// apcu_inc, apcu_dec and apcu_cas.

#include "larder_apcu.h"

// The length of a buffer on the stack for a counter that is stored under a hash, whose value begins
// with the name. A longer value is read into request memory.
#define ROOM 4096

// A counter that other processes change continuously fails after this many tries.
#define TRIES_MAX 1000

// A change of a counter.
typedef struct change {
    // True for apcu_inc and apcu_dec, false for apcu_cas.
    bool is_step;
    // The number to add, or the expected number of the counter.
    zend_long operand;
    zend_long new_number;
    uint32_t expires;
    zend_long result;
} change;

static larder_status apply(change *change, bool is_missing, zend_long old)
{
    if (is_missing && !change->is_step) {
        return LARDER_MISSING;
    }
    if (!change->is_step && old != change->operand) {
        return LARDER_CHANGED;
    }
    change->result = change->is_step ? (zend_long)((zend_ulong)old + (zend_ulong)change->operand)
                                     : change->new_number;
    return LARDER_OK;
}

// Tries once to change a counter that is stored under a hash. larder_add_i64 cannot do it, because
// the value begins with the name. larder_begin_load and larder_end_load make the change atomic: the
// second call fails if the item has changed since the first.
static larder_status try_hashed(const apcu_key *key, change *change, char *value, size_t capacity,
                                bool *is_over)
{
    larder_load load;
    larder_item item;
    *is_over = true;
    larder_status status =
        larder_begin_load(apcu_cache, key->at, key->bytes, 1, &load);
    if (status != LARDER_OK) {
        return status;
    }
    status = larder_look(apcu_cache, key->at, key->bytes, value, capacity, &item);
    bool is_missing = status == LARDER_MISSING;
    zval old;
    ZVAL_LONG(&old, 0);
    if (!is_missing && (status != LARDER_OK || (item.flags & LARDER_TAG_MASK) != LARDER_TAG_LONG
            || !apcu_decode(&old, value, item.value_bytes, item.flags, key))) {
        larder_cancel_load(apcu_cache, key->at, key->bytes, &load);
        return LARDER_NOT_A_NUMBER;
    }
    status = apply(change, is_missing, Z_LVAL(old));
    if (status != LARDER_OK) {
        larder_cancel_load(apcu_cache, key->at, key->bytes, &load);
        return status;
    }
    zval number;
    ZVAL_LONG(&number, change->result);
    apcu_encoded encoded;
    if (!apcu_encode(&encoded, &number, key)) {
        larder_cancel_load(apcu_cache, key->at, key->bytes, &load);
        return LARDER_TOO_LARGE;
    }
    status = larder_end_load(apcu_cache, key->at, key->bytes, &load, encoded.at, encoded.bytes,
                             is_missing ? change->expires : item.ttl_secs, encoded.flags);
    apcu_encoded_free(&encoded);
    *is_over = status != LARDER_CHANGED;
    return status;
}

static larder_status change_hashed(const apcu_key *key, change *change)
{
    size_t capacity = ZSTR_LEN(key->name) + 64;
    char room[ROOM];
    char *value = capacity > sizeof room ? emalloc(capacity) : room;
    larder_status status = LARDER_CHANGED;
    bool is_over = false;
    for (int tries = 0; tries < TRIES_MAX && !is_over; ++tries) {
        status = try_hashed(key, change, value, capacity, &is_over);
    }
    if (value != room) {
        efree(value);
    }
    return status;
}

static larder_status step_counter(const apcu_key *key, change *change)
{
    if (key->name != NULL) {
        return change_hashed(key, change);
    }
    int64_t number;
    larder_status status = larder_add_i64(apcu_cache, key->at, key->bytes, change->operand,
                                          change->expires, &number);
    change->result = (zend_long)number;
    return status;
}

static bool step_name(zend_string *name, zend_long by, zend_long ttl, zend_long *number)
{
    if (apcu_cache == NULL) {
        return false;
    }
    apcu_prepare_time();
    apcu_key key;
    apcu_key_of(&key, name);
    int32_t seconds = (int32_t)ttl;
    if (seconds < 0 && larder_contains(apcu_cache, key.at, key.bytes) != LARDER_OK) {
        // The function would create a counter that has already expired.
        return false;
    }
    change change = {
        .is_step = true,
        .operand = by,
        .expires = seconds > 0 ? (uint32_t)seconds + 1 : 0,
    };
    larder_status status = step_counter(&key, &change);
    apcu_failed(status);
    *number = change.result;
    return status == LARDER_OK;
}

static void step(INTERNAL_FUNCTION_PARAMETERS, bool is_down)
{
    zend_string *key;
    zend_long by = 1;
    zval *success = NULL;
    zend_long ttl = 0;
    ZEND_PARSE_PARAMETERS_START(1, 4)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(by)
        Z_PARAM_ZVAL(success)
        Z_PARAM_LONG(ttl)
    ZEND_PARSE_PARAMETERS_END();
    zend_long number = 0;
    bool is_changed = step_name(key, is_down ? (zend_long)(0 - (zend_ulong)by) : by, ttl, &number);
    if (success != NULL) {
        ZEND_TRY_ASSIGN_REF_BOOL(success, is_changed);
    }
    if (!is_changed) {
        RETURN_FALSE;
    }
    RETURN_LONG(number);
}

PHP_FUNCTION(apcu_inc)
{
    step(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

PHP_FUNCTION(apcu_dec)
{
    step(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

PHP_FUNCTION(apcu_cas)
{
    zend_string *name;
    zend_long old;
    zend_long new_number;
    ZEND_PARSE_PARAMETERS_START(3, 3)
        Z_PARAM_STR(name)
        Z_PARAM_LONG(old)
        Z_PARAM_LONG(new_number)
    ZEND_PARSE_PARAMETERS_END();
    if (apcu_cache == NULL) {
        RETURN_FALSE;
    }
    apcu_prepare_time();
    apcu_key key;
    apcu_key_of(&key, name);
    larder_status status;
    if (key.name != NULL) {
        change change = {.operand = old, .new_number = new_number};
        status = change_hashed(&key, &change);
    } else {
        status = larder_cas_i64(apcu_cache, key.at, key.bytes, old, new_number);
    }
    apcu_failed(status);
    RETURN_BOOL(status == LARDER_OK);
}
