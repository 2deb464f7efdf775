// getOrCompute(): one process computes a value. The others wait for it, or return the stale value:
// a value whose time to live has ended, but that is kept for `staleFor` more seconds.

#include "larder_php.h"

struct larder_held {
    // The first member, so that a pointer in the list is also a pointer to this struct.
    apcu_held held;
    larder_object *object;
    apcu_key key;
};

static void begin_held(larder_held *held)
{
    apcu_held_begin(&LG(held), &held->held);
    larder_region_hold(held->object->region);
}

static void end_held(larder_held *held)
{
    larder_region *region = held->object->region;
    if (apcu_held_end(&LG(held), &held->held, region->cache)) {
        larder_region_release(region);
    }
}

void larder_release_held(void)
{
    while (LG(held) != NULL) {
        end_held((larder_held *)LG(held));
    }
}

static bool read_held(apcu_held *held, zval *value)
{
    return larder_read(((larder_held *)held)->object, held->key, value, NULL);
}

// Returns the times for a call that is already the first in the list. If the list contains another
// call, this one is inside the callback of the other.
static apcu_lease_times times_of_settings(const larder_held *held)
{
    uint64_t wait_us = (uint64_t)LG(compute_wait) * 1000000;
    return (apcu_lease_times){
        .lease_ms = (uint32_t)MAX(LG(compute_lease), 1) * 1000,
        .wait_us = held->held.next != NULL ? MIN(wait_us, APCU_NESTED_WAIT_US) : wait_us,
    };
}

// Takes the lease, or waits for the value. True if another process has stored it. False if this
// process must compute it.
static bool wait_for_value(larder_held *held, zval *value)
{
    larder *cache = larder_cache_of(held->object->region);
    apcu_lease_times times = times_of_settings(held);
    return cache != NULL && apcu_lease_wait(&held->held, cache, &times, read_held, value);
}

// Takes the lease to compute a stale value again. False if another process is already doing this.
static bool take_lease(larder_held *held)
{
    larder *cache = larder_cache_of(held->object->region);
    return cache == NULL || apcu_lease_take(&held->held, cache, times_of_settings(held).lease_ms);
}

static void call_and_store(larder_held *held, zend_fcall_info *callback,
                           zend_fcall_info_cache *cached, uint32_t ttl, uint32_t stale, zval *value)
{
    ZVAL_UNDEF(value);
    apcu_call(callback, cached, held->held.name, value);
    if (Z_TYPE_P(value) == IS_UNDEF || EG(exception) != NULL) {
        // The callback has thrown, or called exit().
        return;
    }
    larder_write(held->object, &held->key, value, ttl, stale, larder_set);
}

// Computes the value, unless another process does. In this case `value` stays the stale value if
// there is one; otherwise it becomes the result of the other process. A recursive call takes no
// lease, because its process already holds it: it returns the stale value, or computes.
static void compute(larder_held *held, zend_fcall_info *callback, zend_fcall_info_cache *cached,
                    uint32_t ttl, uint32_t stale, zval *value)
{
    bool has_stale = Z_TYPE_P(value) != IS_UNDEF;
    bool is_nested = apcu_is_held_here(LG(held), &held->held);
    begin_held(held);
    zend_try {
        bool is_done = has_stale
            ? is_nested || !take_lease(held)
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
    larder_held held = {.object = object};
    held.held = (apcu_held){.place = object->region, .name = name, .key = &held.key};
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
