// apcu_entry: one process computes a value, and the others wait for it. See lease.c in src/values.

// How long a lease lasts, and how long a process waits before it computes the value itself.
#include "larder_apcu.h"

#define LEASE_MS 30000
#define WAIT_US 2000000

void apcu_release_held(void)
{
    while (APCUG(held) != NULL) {
        apcu_held_end(&APCUG(held), APCUG(held), apcu_cache);
    }
}

// A waiting process calls this function repeatedly. It looks for the key first, which does not
// count in the statistics, because each failed read would count as a miss.
static bool read_held(apcu_held *held, zval *value)
{
    return larder_contains(apcu_cache, held->key->at, held->key->bytes) == LARDER_OK
        && apcu_read(held->key, value);
}

static void compute(zend_string *name, const apcu_key *key, zend_fcall_info *callback,
                    zend_fcall_info_cache *cached, zend_long ttl, zval *value)
{
    apcu_held held = {.name = name, .key = key};
    bool is_nested = apcu_is_held_here(APCUG(held), &held);
    apcu_lease_times times = {
        .lease_ms = LEASE_MS,
        .wait_us = APCUG(held) != NULL ? APCU_NESTED_WAIT_US : WAIT_US,
    };
    apcu_held_begin(&APCUG(held), &held);
    zend_try {
        if (is_nested || !apcu_lease_wait(&held, apcu_cache, &times, read_held, value)) {
            apcu_call(callback, cached, name, value);
            if (Z_TYPE_P(value) != IS_UNDEF && EG(exception) == NULL) {
                apcu_store_name(name, value, ttl, true);
            }
        }
    } zend_catch {
        apcu_held_end(&APCUG(held), &held, apcu_cache);
        zend_bailout();
    } zend_end_try();
    apcu_held_end(&APCUG(held), &held, apcu_cache);
}

PHP_FUNCTION(apcu_entry)
{
    zend_string *name;
    zend_fcall_info callback;
    zend_fcall_info_cache cached;
    zend_long ttl = 0;
    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(name)
        Z_PARAM_FUNC(callback, cached)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(ttl)
    ZEND_PARSE_PARAMETERS_END();
    if (apcu_cache == NULL) {
        return;
    }
    apcu_prepare_time();
    apcu_key key;
    apcu_key_of(&key, name);
    if (!apcu_read(&key, return_value)) {
        compute(name, &key, &callback, &cached, ttl, return_value);
    }
}
