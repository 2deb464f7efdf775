// The handler of sessions, for `session.save_handler = larder`. session.save_path names the file of
// a cache. If it is empty, or a directory like PHP's default, sessions are in the shared cache. A
// request holds the lease of its session's key from the start of the session to its end, so that
// requests with the same session run one after the other.

#include "larder_php.h"
#include "ext/session/php_session.h"
#include "php_ini.h"
#include <dlfcn.h>
#include <unistd.h>

#define PREFIX "larder.session."

#define PAUSE_MIN_US 500
#define PAUSE_MAX_US 20000

typedef struct session {
    larder_region *region;
    zend_string *locked;
    larder_lease_token lease;
} session;

PS_FUNCS_UPDATE_TIMESTAMP(larder);

static const ps_module handler = {PS_MOD_UPDATE_TIMESTAMP(larder)};

// php_session_create_id of the session module. PHP may load that module after this one, or not at
// all, so its functions are looked up by name when this module starts. If the linker resolved them,
// a missing one would be null, or would end the process at its first use.
static zend_string *(*create_id)(PS_CREATE_SID_ARGS);

static bool is_wanted(void)
{
    // The setting belongs to the session module. Without that module, only the ini files contain
    // it.
    const char *name = zend_ini_string_ex(ZEND_STRL("session.save_handler"), 0, NULL);
    char *in_files = NULL;
    if (name == NULL && cfg_get_string("session.save_handler", &in_files) == SUCCESS) {
        name = in_files;
    }
    return name != NULL && strcmp(name, "larder") == 0;
}

// The module's dependencies make PHP start this module after the session module, if it loads both.
void larder_session_register(void)
{
    zend_result (*add)(const ps_module *) = dlsym(RTLD_DEFAULT, "php_session_register_module");
    create_id = dlsym(RTLD_DEFAULT, "php_session_create_id");
    bool has_module = add != NULL && create_id != NULL;
    if ((!has_module || add(&handler) != SUCCESS) && is_wanted()) {
        zend_error(E_CORE_WARNING, "larder: session.save_handler cannot be larder: %s",
                   has_module ? "PHP's table of session handlers is full"
                              : "PHP's module session is not loaded");
    }
}

// Returns the key of a session. The key of a long id contains its first bytes and its hash.
static zend_string *key_of(const zend_string *id)
{
    zend_string *name =
        zend_string_concat2(PREFIX, sizeof PREFIX - 1, ZSTR_VAL(id), ZSTR_LEN(id));
    if (ZSTR_LEN(name) <= LARDER_KEY_BYTES_MAX) {
        return name;
    }
    apcu_key key;
    apcu_key_hash(&key, name);
    zend_string *hashed = zend_string_init(key.at, key.bytes, 0);
    zend_string_release(name);
    return hashed;
}

static void unlock(session *session)
{
    larder *cache = session->region->cache;
    if (session->locked == NULL) {
        return;
    }
    if (cache != NULL) {
        larder_release(cache, ZSTR_VAL(session->locked), ZSTR_LEN(session->locked),
                       &session->lease);
    }
    zend_string_release(session->locked);
    session->locked = NULL;
}

static bool lock(session *session, larder *cache, zend_string *key)
{
    useconds_t pause = PAUSE_MIN_US;
    uint64_t wait_us = (uint64_t)LG(session_wait) * 1000000;
    // A request that takes longer than its lease loses the lock. It may then overwrite data that
    // the next request has stored.
    uint32_t lease_ms = (uint32_t)MAX(LG(session_lease), 1) * 1000;
    if (session->locked != NULL && zend_string_equals(session->locked, key)) {
        return true;
    }
    unlock(session);
    larder_status status;
    uint64_t waited = 0;
    do {
        status = larder_lease(cache, ZSTR_VAL(key), ZSTR_LEN(key), lease_ms, &session->lease);
        if (status == LARDER_BUSY && waited < wait_us) {
            usleep(pause);
            waited += pause;
            pause = MIN(2 * pause, PAUSE_MAX_US);
        }
    } while (status == LARDER_BUSY && waited < wait_us);
    if (status != LARDER_OK) {
        php_error_docref(NULL, E_WARNING, "The session cannot be locked: %s",
                         larder_status_text(status));
        return false;
    }
    session->locked = zend_string_copy(key);
    return true;
}

static larder_region *region_of(const char *save_path)
{
    struct stat found;
    if (*save_path == 0 || (stat(save_path, &found) == 0 && S_ISDIR(found.st_mode))) {
        return larder_region_shared();
    }
    return larder_region_named(save_path, larder_memory_setting(), 0, 0600);
}

PS_OPEN_FUNC(larder)
{
#if PHP_VERSION_ID >= 80600
    larder_region *region = region_of(ZSTR_VAL(save_path));
#else
    larder_region *region = region_of(save_path);
#endif
    if (larder_cache_of(region) == NULL) {
        if (region->why[0] == 0) {
            php_error_docref(NULL, E_WARNING, "The shared cache is disabled: see larder.memory");
        }
        return FAILURE;
    }
    session *session = ecalloc(1, sizeof *session);
    session->region = region;
    // The file stays attached until the session ends.
    larder_region_hold(region);
    PS_SET_MOD_DATA(session);
    return SUCCESS;
}

PS_CLOSE_FUNC(larder)
{
    session *session = PS_GET_MOD_DATA();
    if (session != NULL) {
        unlock(session);
        larder_region_release(session->region);
        efree(session);
        PS_SET_MOD_DATA(NULL);
    }
    return SUCCESS;
}

// Reads the data of a locked session. PHP expects an empty string for a session that does not
// exist.
static zend_result read_locked(larder *cache, const zend_string *key, zend_string **value)
{
    larder_item item = {.value_bytes = 1024};
    larder_status status;
    do {
        size_t bytes = item.value_bytes;
        *value = zend_string_alloc(bytes, 0);
        status = larder_get(cache, ZSTR_VAL(key), ZSTR_LEN(key), ZSTR_VAL(*value), bytes, &item);
        if (status == LARDER_OK) {
            *value = zend_string_truncate(*value, item.value_bytes, 0);
            ZSTR_VAL(*value)[item.value_bytes] = 0;
            return SUCCESS;
        }
        zend_string_release(*value);
    } while (status == LARDER_TOO_SMALL);
    *value = ZSTR_EMPTY_ALLOC();
    return status == LARDER_MISSING ? SUCCESS : FAILURE;
}

PS_READ_FUNC(larder)
{
    session *session = PS_GET_MOD_DATA();
    larder *cache = larder_cache_of(session->region);
    zend_string *id = key_of(key);
    zend_result result = FAILURE;
    if (cache != NULL && lock(session, cache, id)) {
        result = read_locked(cache, id, val);
    }
    zend_string_release(id);
    return result;
}

static uint32_t ttl_of(zend_long maxlifetime)
{
    return maxlifetime <= 0 || maxlifetime > LARDER_TTL_MAX ? 0 : (uint32_t)maxlifetime;
}

PS_WRITE_FUNC(larder)
{
    session *session = PS_GET_MOD_DATA();
    larder *cache = larder_cache_of(session->region);
    zend_string *id = key_of(key);
    larder_status status = LARDER_NOT_OPENED;
    if (cache != NULL) {
        status = larder_set(cache, ZSTR_VAL(id), ZSTR_LEN(id), ZSTR_VAL(val), ZSTR_LEN(val),
                            ttl_of(maxlifetime), LARDER_TAG_STRING);
        larder_failed(session->region, status);
    }
    zend_string_release(id);
    return status == LARDER_OK ? SUCCESS : FAILURE;
}

PS_UPDATE_TIMESTAMP_FUNC(larder)
{
    session *session = PS_GET_MOD_DATA();
    larder *cache = larder_cache_of(session->region);
    zend_string *id = key_of(key);
    larder_status status = LARDER_NOT_OPENED;
    if (cache != NULL) {
        status = larder_touch(cache, ZSTR_VAL(id), ZSTR_LEN(id), ttl_of(maxlifetime));
    }
    zend_string_release(id);
    // PHP calls this if the data of the session did not change. If the cache has evicted the
    // session since, it must be stored again.
    return status == LARDER_MISSING ? ps_write_larder(mod_data, key, val, maxlifetime)
                                    : (status == LARDER_OK ? SUCCESS : FAILURE);
}

PS_DESTROY_FUNC(larder)
{
    session *session = PS_GET_MOD_DATA();
    larder *cache = larder_cache_of(session->region);
    if (cache == NULL) {
        return FAILURE;
    }
    zend_string *id = key_of(key);
    larder_delete(cache, ZSTR_VAL(id), ZSTR_LEN(id));
    if (session->locked != NULL && zend_string_equals(session->locked, id)) {
        unlock(session);
    }
    zend_string_release(id);
    return SUCCESS;
}

// Does nothing, because the cache removes expired sessions itself.
PS_GC_FUNC(larder)
{
    *nrdels = 0;
    return 0;
}

PS_CREATE_SID_FUNC(larder)
{
    return create_id(mod_data);
}

PS_VALIDATE_SID_FUNC(larder)
{
    session *session = PS_GET_MOD_DATA();
    larder *cache = larder_cache_of(session->region);
    zend_string *id = key_of(key);
    bool is_known = cache != NULL
        && larder_contains(cache, ZSTR_VAL(id), ZSTR_LEN(id)) == LARDER_OK;
    zend_string_release(id);
    return is_known ? SUCCESS : FAILURE;
}
