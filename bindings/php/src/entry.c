// apcu_entry: one process computes a value, and the others wait for it.

#include "values/values.h"
#include <unistd.h>

// The callback of a process that does not end holds others up no longer than this.
#define LEASE_MS 30000

// How long a process waits for the value of another, before it computes the value itself.
#define WAIT_US 2000000
#define PAUSE_MIN_US 200
#define PAUSE_MAX_US 10000

struct apcu_held {
    apcu_held *next;
    zend_string *name;
    const apcu_key *key;
    pid_t process;
    bool has_lease;
    larder_lease_token lease;
};

// True if a callback of this process already computes the value: then it calls itself.
static bool is_held_here(zend_string *name)
{
    for (const apcu_held *held = APCUG(held); held != NULL; held = held->next) {
        if (held->process == getpid() && zend_string_equals(held->name, name)) {
            return true;
        }
    }
    return false;
}

// Removes `held` from the list. Fibers end their calls in any order, so it may be anywhere.
static void end_held(apcu_held *held)
{
    for (apcu_held **at = &APCUG(held); *at != NULL; at = &(*at)->next) {
        if (*at == held) {
            *at = held->next;
            break;
        }
    }
    if (held->has_lease && held->process == getpid()) {
        larder_release(apcu_cache, held->key->at, held->key->bytes, &held->lease);
    }
    held->has_lease = false;
}

void apcu_release_held(void)
{
    while (APCUG(held) != NULL) {
        end_held(APCUG(held));
    }
}

// Reads the value if there is one now. A missing one does not count as a miss once more.
static bool has_arrived(const apcu_held *held, zval *value)
{
    return larder_contains(apcu_cache, held->key->at, held->key->bytes) == LARDER_OK
        && apcu_read(held->key, value);
}

// Takes the lease. True if the value has arrived instead.
static bool wait_for_value(apcu_held *held, zval *value)
{
    useconds_t pause = PAUSE_MIN_US;
    if (is_held_here(held->name)) {
        return false;
    }
    for (useconds_t waited = 0; waited < WAIT_US; waited += pause) {
        larder_status status = larder_lease(apcu_cache, held->key->at, held->key->bytes, LEASE_MS,
                                            &held->lease);
        held->has_lease = status == LARDER_OK;
        if (status != LARDER_BUSY) {
            // The process that held the lease until now may have stored the value.
            return has_arrived(held, value);
        }
        usleep(pause);
        pause = MIN(2 * pause, PAUSE_MAX_US);
        if (has_arrived(held, value)) {
            return true;
        }
    }
    return false;
}

static void call(zend_fcall_info *callback, zend_fcall_info_cache *cached, zend_string *name,
                 zval *value)
{
    zval parameter;
    ZVAL_STR_COPY(&parameter, name);
    callback->retval = value;
    callback->param_count = 1;
    callback->params = &parameter;
    zend_call_function(callback, cached);
    zval_ptr_dtor(&parameter);
}

static void compute(zend_string *name, const apcu_key *key, zend_fcall_info *callback,
                    zend_fcall_info_cache *cached, zend_long ttl, zval *value)
{
    apcu_held held = {.name = name, .key = key, .process = getpid()};
    if (wait_for_value(&held, value)) {
        end_held(&held);
        return;
    }
    held.next = APCUG(held);
    APCUG(held) = &held;
    zend_try {
        call(callback, cached, name, value);
        if (Z_TYPE_P(value) != IS_UNDEF && EG(exception) == NULL) {
            if (Z_ISREF_P(value)) {
                zend_unwrap_reference(value);
            }
            apcu_store_name(name, value, ttl, true);
        }
    } zend_catch {
        end_held(&held);
        zend_bailout();
    } zend_end_try();
    end_held(&held);
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
