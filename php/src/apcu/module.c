// The module `apcu`. PHP starts it before php-fpm and Apache fork, so that all workers share the
// cache that it opens.

#include "larder_apcu.h"
#include "arginfo.h"
#include "ext/standard/info.h"
#include "php_ini.h"
#include "SAPI.h"
#include "zend_smart_str.h"

ZEND_DECLARE_MODULE_GLOBALS(larder_apcu)

larder *apcu_opened;

// The memory that APCu takes from apc.shm_size for each slot of its hash table and, about, for its
// header.
#define SLOT_BYTES 8
#define HEADER_BYTES 300

static PHP_GINIT_FUNCTION(larder_apcu)
{
#if defined(ZTS) && defined(COMPILE_DL_LARDER_APCU)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    memset(larder_apcu_globals, 0, sizeof *larder_apcu_globals);
}

// APCu refuses to start if its slots do not fit. Larder has no such slots, but hosts rely on the
// refusal.
static void check_hint(void)
{
    size_t bytes = HEADER_BYTES + (size_t)apcu_slots() * SLOT_BYTES;
    if (bytes >= (size_t)APCUG(shm_size)) {
        zend_error_noreturn(E_CORE_ERROR,
            "Unable to allocate %zu bytes of shared memory for cache structures. "
            "Either apc.shm_size is too small or apc.entries_hint too large", bytes);
    }
}

static void open_cache(void)
{
    larder_options options = {
        .struct_bytes = sizeof options,
        .memory_bytes = (uint64_t)APCUG(shm_size),
        .item_bytes_max = (uint64_t)APCUG(shm_size) / 2,
        .flags = LARDER_SHARED_WITH_CHILDREN | LARDER_NO_SUBSTITUTE | LARDER_HANDLE_TIME,
        .processes_max = APCU_PROCESSES_MAX,
    };
    char why[256] = "no memory";
    if (!apcu_page_open() || larder_open(&options, &apcu_opened, why, sizeof why) != LARDER_OK) {
        zend_error_noreturn(E_CORE_ERROR,
            "apc_mmap: Failed to mmap %zu bytes. Is your apc.shm_size too large? (%s)",
            (size_t)APCUG(shm_size), why);
    }
    apcu_cache = apcu_opened;
}

static void start(int module_number)
{
    check_hint();
    open_cache();
    apcu_serializers_register(module_number);
    APCUG(serializer) = apcu_serializer_named(APCUG(serializer_name));
    if (APCUG(preload_path) != NULL) {
        apcu_preload(APCUG(preload_path));
    }
}

static PHP_MINIT_FUNCTION(larder_apcu)
{
    apcu_settings_register(module_number);
    if (APCUG(enabled) && (APCUG(enable_cli) || strcmp(sapi_module.name, "cli") != 0)) {
        start(module_number);
    }
    apcu_iterator_register(module_number);
    apcu_info_register();
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(larder_apcu)
{
    larder_close(apcu_opened);
    apcu_opened = apcu_cache = NULL;
    apcu_page_close();
    apcu_serializers_forget();
    apcu_settings_unregister(module_number);
    return SUCCESS;
}

// Warns in the first request of a worker that cannot use the cache.
static void check_process(void)
{
    static _Atomic pid_t checked;
    if (apcu_is_first(&checked)) {
        char why[256];
        apcu_failed(larder_usable(apcu_cache, why, sizeof why));
    }
}

static PHP_GSHUTDOWN_FUNCTION(larder_apcu)
{
    // Closes the handle of this thread. The main thread's handle is the one of the process, which
    // MSHUTDOWN closes.
    if (larder_apcu_globals->cache != apcu_opened) {
        larder_close(larder_apcu_globals->cache);
    }
}

static PHP_RINIT_FUNCTION(larder_apcu)
{
#if defined(ZTS) && defined(COMPILE_DL_LARDER_APCU)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    APCUG(request_time) = 0;
    APCUG(held) = NULL;
    APCUG(has_warned) = false;
#ifdef ZTS
    if (apcu_cache == NULL && apcu_opened != NULL) {
        apcu_failed(larder_share(apcu_opened, &apcu_cache));
    }
#endif
    // The time of the last request may still be set: a session handler, for example, may use the
    // cache after this module has ended the request. Before the first request a preload may have
    // set a time.
    apcu_forget_time();
    if (apcu_cache == NULL) {
        return SUCCESS;
    }
    check_process();
    if (APCUG(serializer) == NULL) {
        // The name was unknown when this module started. A module that started later may have
        // registered it.
        APCUG(serializer) = apcu_serializer_named(APCUG(serializer_name));
    }
    return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(larder_apcu)
{
    apcu_release_held();
    apcu_forget_time();
    return SUCCESS;
}

static void print_serializers(void)
{
    if (apcu_cache == NULL) {
        php_info_print_table_row(2, "Serialization Support", "Disabled");
        return;
    }
    smart_str names = {0};
    apcu_serializer_names(&names);
    php_info_print_table_row(2, "Serialization Support", ZSTR_VAL(names.s));
    smart_str_free(&names);
}

static PHP_MINFO_FUNCTION(larder_apcu)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "APCu Support", apcu_cache != NULL ? "Enabled" : "Disabled");
    php_info_print_table_row(2, "Version", APCU_VERSION);
#ifdef APC_DEBUG
    php_info_print_table_row(2, "APCu Debugging", "Enabled");
#else
    php_info_print_table_row(2, "APCu Debugging", "Disabled");
#endif
    php_info_print_table_row(2, "MMAP Support", "Enabled");
    php_info_print_table_row(2, "MMAP File Mask", APCUG(mmap_file_mask));
    print_serializers();
    php_info_print_table_row(2, "Larder", larder_version());
    php_info_print_table_row(2, "Build Date", __DATE__ " " __TIME__);
    php_info_print_table_end();
    display_ini_entries(zend_module);
}

static const zend_module_dep dependencies[] = {
    ZEND_MOD_REQUIRED("hash")
    ZEND_MOD_REQUIRED("pcre")
    ZEND_MOD_END
};

zend_module_entry larder_apcu_module_entry = {
    STANDARD_MODULE_HEADER_EX,
    NULL,
    dependencies,
    "apcu",
    apcu_functions,
    PHP_MINIT(larder_apcu),
    PHP_MSHUTDOWN(larder_apcu),
    PHP_RINIT(larder_apcu),
    PHP_RSHUTDOWN(larder_apcu),
    PHP_MINFO(larder_apcu),
    APCU_VERSION,
    PHP_MODULE_GLOBALS(larder_apcu),
    PHP_GINIT(larder_apcu),
    PHP_GSHUTDOWN(larder_apcu),
    NULL,
    STANDARD_MODULE_PROPERTIES_EX
};

#ifdef COMPILE_DL_LARDER_APCU
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(larder_apcu)
#endif
