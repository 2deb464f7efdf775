// getOrCompute: one process computes a value, and the others wait for it or get the stale one.

#include "larder_php.h"
#include <unistd.h>

// The callback of a process that does not end holds others up no longer than this.
#define LEASE_MS 60000

// How long a process waits for the value of another, before it computes the value itself.
#define WAIT_US 10000000
#define PAUSE_MIN_US 200
#define PAUSE_MAX_US 10000

struct larder_held {
    larder_held *next;
    larder_object *object;
    zend_string *name;
    apcu_key key;
    pid_t process;
    bool has_lease;
    larder_lease_token lease;
};

// True if a callback of this process already computes the value: then it calls itself.
static bool is_held_here(const larder_held *wanted)
{
    for (const larder_held *held = LG(held); held != NULL; held = held->next) {
        if (held->process == wanted->process && held->object->region == wanted->object->region
            && zend_string_equals(held->name, wanted->name)) {
            return true;
        }
    }
    return false;
}

static void begin_held(larder_held *held)
{
    held->next = LG(held);
    LG(held) = held;
    larder_region_hold(held->object->region);
}

// Removes `held` from the list. Fibers end their calls in any order, so it may be anywhere.
static void end_held(larder_held *held)
{
    for (larder_held **at = &LG(held); *at != NULL; at = &(*at)->next) {
        if (*at == held) {
            *at = held->next;
            larder_region_release(held->object->region);
            break;
        }
    }
    larder *cache = held->object->region->cache;
    if (held->has_lease && held->process == getpid() && cache != NULL) {
        larder_release(cache, held->key.at, held->key.bytes, &held->lease);
    }
    held->has_lease = false;
}

void larder_release_held(void)
{
    while (LG(held) != NULL) {
        end_held(LG(held));
    }
}

static bool take_lease(larder_held *held, larder *cache)
{
    larder_status status =
        larder_lease(cache, held->key.at, held->key.bytes, LEASE_MS, &held->lease);
    held->has_lease = status == LARDER_OK;
    // Without leases, as in a full cache, each process computes for itself.
    return status != LARDER_BUSY;
}

// Takes the lease. True if the value has arrived instead.
static bool wait_for_value(larder_held *held, zval *value)
{
    larder *cache = larder_cache_of(held->object->region);
    useconds_t pause = PAUSE_MIN_US;
    for (useconds_t waited = 0; waited < WAIT_US && cache != NULL; waited += pause) {
        if (take_lease(held, cache)) {
            // The process that held the lease until now may have stored the value.
            return larder_read(held->object, &held->key, value, NULL);
        }
        usleep(pause);
        pause = MIN(2 * pause, PAUSE_MAX_US);
        if (larder_read(held->object, &held->key, value, NULL)) {
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

static void call_and_store(larder_held *held, zend_fcall_info *callback,
                           zend_fcall_info_cache *cached, uint32_t ttl, uint32_t stale, zval *value)
{
    ZVAL_UNDEF(value);
    call(callback, cached, held->name, value);
    if (Z_TYPE_P(value) == IS_UNDEF || EG(exception) != NULL) {
        // An exception, or exit().
        return;
    }
    if (Z_ISREF_P(value)) {
        zend_unwrap_reference(value);
    }
    larder_write(held->object, &held->key, value, ttl, stale, larder_set);
}

// Computes the value, unless another process does: then `value` is that of the other one, or stays
// the stale value.
static void compute(larder_held *held, zend_fcall_info *callback, zend_fcall_info_cache *cached,
                    uint32_t ttl, uint32_t stale, zval *value)
{
    bool has_stale = Z_TYPE_P(value) != IS_UNDEF;
    bool is_nested = is_held_here(held);
    begin_held(held);
    zend_try {
        bool is_done = has_stale
            ? is_nested || !take_lease(held, larder_cache_of(held->object->region))
            : !is_nested && wait_for_value(held, value);
        if (!is_done && EG(exception) == NULL) {
            zval_ptr_dtor(value);
            call_and_store(held, callback, cached, ttl, stale, value);
        }
    } zend_catch {
        end_held(held);
        zend_bailout();
    } zend_end_try();
    end_held(held);
}

void larder_compute(larder_object *object, zend_string *name, zend_fcall_info *callback,
                    zend_fcall_info_cache *cached, uint32_t ttl, uint32_t stale, zval *value)
{
    larder_held held = {.object = object, .name = name, .process = getpid()};
    bool is_stale = false;
    ZVAL_UNDEF(value);
    if (!larder_key_of(object, &held.key, name)) {
        return;
    }
    bool is_found = larder_read(object, &held.key, value, &is_stale);
    if (!is_found) {
        ZVAL_UNDEF(value);
    }
    if ((!is_found || is_stale) && EG(exception) == NULL) {
        compute(&held, callback, cached, ttl, stale, value);
    }
    if (Z_TYPE_P(value) == IS_UNDEF) {
        ZVAL_NULL(value);
    }
}
