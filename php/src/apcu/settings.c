// The ini keys of APCu, with its defaults.

#include "larder_apcu.h"
#include "php_ini.h"

#define MIB (Z_L(1) << 20)

static PHP_INI_MH(on_shm_segments)
{
    if (ZEND_STRTOL(ZSTR_VAL(new_value), NULL, 10) != 1) {
        php_error_docref(NULL, E_WARNING, "apc.shm_segments setting ignored in MMAP mode");
    }
    APCUG(shm_segments) = 1;
    return SUCCESS;
}

static zend_long quantity(zend_string *text, zend_string *name)
{
#if PHP_VERSION_ID >= 80200
    return zend_ini_parse_quantity_warn(text, name);
#else
    return zend_atol(ZSTR_VAL(text), ZSTR_LEN(text));
#endif
}

static PHP_INI_MH(on_shm_size)
{
    zend_long bytes = quantity(new_value, entry->name);
    if (bytes <= 0) {
        return FAILURE;
    }
    if (bytes < MIB) {
        php_error_docref(NULL, E_WARNING,
                         "apc.shm_size now uses M/G suffixes, please update your ini files");
        bytes *= MIB;
    }
    APCUG(shm_size) = bytes;
    return SUCCESS;
}

static PHP_INI_MH(on_use_request_time)
{
    int result = OnUpdateBool(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
    apcu_forget_time();
    return result;
}

#define ENTRY(name, value, scope, handler, field) \
    STD_PHP_INI_ENTRY(name, value, scope, handler, field, zend_larder_apcu_globals, \
                      larder_apcu_globals)
#define FLAG(name, value, scope, handler, field) \
    STD_PHP_INI_BOOLEAN(name, value, scope, handler, field, zend_larder_apcu_globals, \
                        larder_apcu_globals)

// apc.gc_ttl, apc.ttl, apc.smart, apc.mmap_file_mask and apc.coredump_unmap have no effect.
PHP_INI_BEGIN()
    FLAG("apc.enabled", "1", PHP_INI_SYSTEM, OnUpdateBool, enabled)
    ENTRY("apc.shm_segments", "1", PHP_INI_SYSTEM, on_shm_segments, shm_segments)
    ENTRY("apc.shm_size", "32M", PHP_INI_SYSTEM, on_shm_size, shm_size)
    ENTRY("apc.entries_hint", "4096", PHP_INI_SYSTEM, OnUpdateLong, entries_hint)
    ENTRY("apc.gc_ttl", "3600", PHP_INI_SYSTEM, OnUpdateLong, gc_ttl)
    ENTRY("apc.ttl", "0", PHP_INI_SYSTEM, OnUpdateLong, ttl)
    ENTRY("apc.smart", "0", PHP_INI_SYSTEM, OnUpdateLong, smart)
    ENTRY("apc.mmap_file_mask", NULL, PHP_INI_SYSTEM, OnUpdateString, mmap_file_mask)
    FLAG("apc.enable_cli", "0", PHP_INI_SYSTEM, OnUpdateBool, enable_cli)
    FLAG("apc.slam_defense", "0", PHP_INI_SYSTEM, OnUpdateBool, slam_defense)
    ENTRY("apc.preload_path", NULL, PHP_INI_SYSTEM, OnUpdateString, preload_path)
    FLAG("apc.coredump_unmap", "0", PHP_INI_SYSTEM, OnUpdateBool, coredump_unmap)
    FLAG("apc.use_request_time", "0", PHP_INI_ALL, on_use_request_time, use_request_time)
    ENTRY("apc.serializer", "php", PHP_INI_SYSTEM, OnUpdateStringUnempty, serializer_name)
PHP_INI_END()

void apcu_settings_register(int module_number)
{
    zend_register_ini_entries(ini_entries, module_number);
}

void apcu_settings_unregister(int module_number)
{
    zend_unregister_ini_entries(module_number);
}
