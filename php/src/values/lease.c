// Leases. The process that holds the lease of a key computes its value. The others wait, and read
// the value from time to time, because the cache does not notify them.

#include "values.h"
#include <unistd.h>

// The pause between two reads. It begins with the minimum, and doubles up to the maximum.
#define PAUSE_MIN_US 200
#define PAUSE_MAX_US 10000

bool apcu_is_held_here(const apcu_held *list, const apcu_held *wanted)
{
    for (const apcu_held *held = list; held != NULL; held = held->next) {
        if (held->process == getpid() && held->place == wanted->place
            && zend_string_equals(held->name, wanted->name)) {
            return true;
        }
    }
    return false;
}

void apcu_held_begin(apcu_held **list, apcu_held *held)
{
    held->process = getpid();
    held->next = *list;
    *list = held;
}

bool apcu_held_end(apcu_held **list, apcu_held *held, const larder *cache)
{
    bool is_listed = false;
    for (apcu_held **at = list; *at != NULL; at = &(*at)->next) {
        if (*at == held) {
            *at = held->next;
            is_listed = true;
            break;
        }
    }
    if (held->has_lease && held->process == getpid() && cache != NULL) {
        larder_release(cache, held->key->at, held->key->bytes, &held->lease);
    }
    held->has_lease = false;
    return is_listed;
}

bool apcu_lease_take(apcu_held *held, const larder *cache, uint32_t ms)
{
    larder_status status =
        larder_lease(cache, held->key->at, held->key->bytes, ms, &held->lease);
    held->has_lease = status == LARDER_OK;
    // Other failures, such as a full cache, must not prevent the computation: each process then
    // computes the value without a lease.
    return status != LARDER_BUSY;
}

bool apcu_lease_wait(apcu_held *held, const larder *cache, const apcu_lease_times *times,
                     apcu_held_read read, zval *value)
{
    useconds_t pause = PAUSE_MIN_US;
    uint64_t waited = 0;
    while (!apcu_lease_take(held, cache, times->lease_ms)) {
        if (waited >= times->wait_us) {
            return false;
        }
        usleep(pause);
        waited += pause;
        pause = MIN(2 * pause, PAUSE_MAX_US);
        if (read(held, value)) {
            return true;
        }
    }
    // The previous holder may have stored the value between the last read and the end of its lease.
    return read(held, value);
}

void apcu_call(zend_fcall_info *callback, zend_fcall_info_cache *cached, zend_string *name,
               zval *value)
{
    zval parameter;
    ZVAL_STR_COPY(&parameter, name);
    callback->retval = value;
    callback->param_count = 1;
    callback->params = &parameter;
    zend_call_function(callback, cached);
    zval_ptr_dtor(&parameter);
    if (Z_TYPE_P(value) != IS_UNDEF && EG(exception) == NULL && Z_ISREF_P(value)) {
        zend_unwrap_reference(value);
    }
}
