// The module `larder`. PHP starts it before php-fpm and Apache fork, so that all workers share the
// cache that it opens.

#include "larder_php.h"
#include "ext/standard/info.h"
#include "ext/spl/spl_exceptions.h"
#include "php_ini.h"
#include "zend_exceptions.h"

ZEND_DECLARE_MODULE_GLOBALS(larder)

zend_class_entry *larder_exception_class;

static PHP_GINIT_FUNCTION(larder)
{
#if defined(ZTS) && defined(COMPILE_DL_LARDER)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    memset(larder_globals, 0, sizeof *larder_globals);
}

// PHP calls this at the end of each thread, and at the end of the process.
static PHP_GSHUTDOWN_FUNCTION(larder)
{
    larder_regions_forget(larder_globals);
}

static PHP_MINIT_FUNCTION(larder)
{
    zend_class_entry class;
    INIT_NS_CLASS_ENTRY(class, "Larder", "Exception", NULL);
    larder_exception_class = zend_register_internal_class_ex(&class, spl_ce_RuntimeException);
    larder_settings_register(module_number);
    larder_items_register();
    larder_cache_register();
    larder_client_register();
    larder_session_register();
    larder_regions_start();
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(larder)
{
    larder_regions_end();
    larder_settings_unregister(module_number);
    return SUCCESS;
}

static PHP_RINIT_FUNCTION(larder)
{
#if defined(ZTS) && defined(COMPILE_DL_LARDER)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    LG(held) = NULL;
    LG(shared) = NULL;
    LG(has_warned) = false;
    larder_regions_check();
    return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(larder)
{
    larder_release_held();
    if (LG(shared) != NULL) {
        OBJ_RELEASE(LG(shared));
        LG(shared) = NULL;
    }
    return SUCCESS;
}

static void print_region(const larder_region *region)
{
    char bytes[32];
    if (region->memory_bytes == 0) {
        php_info_print_table_row(2, "Shared cache", "none");
        return;
    }
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)region->memory_bytes);
    php_info_print_table_row(2, "Shared cache", region->path != NULL ? region->path : "anonymous");
    php_info_print_table_row(2, "Shared cache, bytes", bytes);
    php_info_print_table_row(2, "Shared cache, state",
                             region->cache != NULL ? "open"
                             : region->why[0] != 0 ? region->why : "not used yet");
}

static PHP_MINFO_FUNCTION(larder)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "Larder", "enabled");
    php_info_print_table_row(2, "Version", LARDER_PHP_VERSION);
    php_info_print_table_row(2, "Library", larder_version());
    print_region(larder_region_shared());
    php_info_print_table_end();
    display_ini_entries(zend_module);
}

static const zend_module_dep dependencies[] = {
    ZEND_MOD_REQUIRED("date")
    ZEND_MOD_REQUIRED("hash")
    ZEND_MOD_REQUIRED("spl")
    ZEND_MOD_OPTIONAL("session")
    ZEND_MOD_END
};

zend_module_entry larder_module_entry = {
    STANDARD_MODULE_HEADER_EX,
    NULL,
    dependencies,
    "larder",
    NULL,
    PHP_MINIT(larder),
    PHP_MSHUTDOWN(larder),
    PHP_RINIT(larder),
    PHP_RSHUTDOWN(larder),
    PHP_MINFO(larder),
    LARDER_PHP_VERSION,
    PHP_MODULE_GLOBALS(larder),
    PHP_GINIT(larder),
    PHP_GSHUTDOWN(larder),
    NULL,
    STANDARD_MODULE_PROPERTIES_EX
};

#ifdef COMPILE_DL_LARDER
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(larder)
#endif
