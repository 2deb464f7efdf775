// A page of memory that processes and threads share in addition to the cache. It contains data that
// APCu has in its header: when the cache began, and the last key that was stored, for slam defense.
// Slam defense (apc.slam_defense) refuses a store if another thread or process has just stored the
// same key.
//
// This file also gives the cache the time of the request, for apc.use_request_time.

#include "larder_apcu.h"
#include "SAPI.h"
#include <sys/mman.h>
#include <time.h>

// The last store. Its fields may be inconsistent with each other while another thread writes them.
// Then slam defense may decide wrongly, which is acceptable: it is a guess in APCu as well.
typedef struct last_store {
    _Atomic zend_ulong hash;
    _Atomic size_t key_bytes;
    _Atomic zend_long at;
    // The id of the thread that stored, which may be in another process.
    _Atomic pid_t thread;
} last_store;

static struct page {
    _Atomic zend_long started_at;
    last_store last;
} *page;

bool apcu_page_open(void)
{
    void *at = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return false;
    }
    page = at;
    page->started_at = (zend_long)time(NULL);
    return true;
}

void apcu_page_close(void)
{
    if (page != NULL) {
        munmap(page, sizeof *page);
        page = NULL;
    }
}

void apcu_page_restart(void)
{
    page->started_at = apcu_now();
    page->last.hash = 0;
    page->last.key_bytes = 0;
}

zend_long apcu_started_at(void)
{
    return page->started_at;
}

zend_long apcu_now(void)
{
    if (!APCUG(use_request_time)) {
        return (zend_long)time(NULL);
    }
    if (APCUG(request_time) == 0) {
        APCUG(request_time) = (zend_long)sapi_get_request_time();
    }
    return APCUG(request_time);
}

void apcu_use_request_time(void)
{
    larder_set_now(apcu_cache, apcu_now());
    APCUG(is_time_set) = true;
}

void apcu_forget_time(void)
{
    if (APCUG(is_time_set)) {
        larder_set_now(apcu_cache, 0);
        APCUG(is_time_set) = false;
    }
}

bool apcu_is_slam(zend_string *name)
{
    zend_ulong hash = ZSTR_HASH(name);
    zend_long now = apcu_now();
    pid_t thread = gettid();
    last_store *last = &page->last;
    if (last->hash == hash && last->key_bytes == ZSTR_LEN(name) && last->at == now
        && last->thread != thread) {
        return true;
    }
    last->hash = hash;
    last->key_bytes = ZSTR_LEN(name);
    last->at = now;
    last->thread = thread;
    return false;
}

#ifdef APC_DEBUG
// Moves the time of the request. APCu's tests of times to live call it instead of waiting.
PHP_FUNCTION(apcu_inc_request_time)
{
    zend_long by = 1;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(by)
    ZEND_PARSE_PARAMETERS_END();
    if (!APCUG(use_request_time)) {
        php_error_docref(NULL, E_WARNING,
                         "Trying to increment request time while use_request_time is disabled");
        return;
    }
    APCUG(request_time) = apcu_now() + by;
    apcu_use_request_time();
}
#endif
