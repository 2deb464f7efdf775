// The ini keys.

#include "larder/larder_php.h"
#include "php_ini.h"
#include "SAPI.h"

#define ENTRY(name, value, field) \
    STD_PHP_INI_ENTRY(name, value, PHP_INI_SYSTEM, OnUpdateString, field, zend_larder_globals, \
                      larder_globals)

// The largest number of seconds. A lease has its duration in milliseconds, as a 32-bit number.
#define SECONDS_MAX 1000000

static bool is_number_up_to(const zend_string *text, zend_long max)
{
    char *end;
    zend_long number = ZEND_STRTOL(ZSTR_VAL(text), &end, 10);
    return ZSTR_LEN(text) > 0 && *end == 0 && number >= 0 && number <= max;
}

static PHP_INI_MH(OnUpdateSeconds)
{
    return is_number_up_to(new_value, SECONDS_MAX)
        ? OnUpdateLong(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage) : FAILURE;
}

static PHP_INI_MH(OnUpdateProcesses)
{
    return is_number_up_to(new_value, APCU_PROCESSES_MAX)
        ? OnUpdateLong(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage) : FAILURE;
}

#define SECONDS(name, value, field) \
    STD_PHP_INI_ENTRY(name, value, PHP_INI_ALL, OnUpdateSeconds, field, zend_larder_globals, \
                      larder_globals)

PHP_INI_BEGIN()
    ENTRY("larder.memory", "32M", memory)
    ENTRY("larder.path", NULL, path)
    ENTRY("larder.owner", NULL, owner)
    ENTRY("larder.shared_group", NULL, shared_group)
    ENTRY("larder.unserialize_classes", NULL, unserialize_classes)
    ENTRY("larder.serializer", "php", serializer_name)
    STD_PHP_INI_BOOLEAN("larder.enable_cli", "0", PHP_INI_SYSTEM, OnUpdateBool, enable_cli,
                        zend_larder_globals, larder_globals)
    STD_PHP_INI_ENTRY("larder.processes", "0", PHP_INI_SYSTEM, OnUpdateProcesses, processes,
                      zend_larder_globals, larder_globals)
    SECONDS("larder.compute_wait", "10", compute_wait)
    SECONDS("larder.compute_lease", "60", compute_lease)
    SECONDS("larder.session_wait", "30", session_wait)
    SECONDS("larder.session_lease", "300", session_lease)
PHP_INI_END()

void larder_settings_register(int module_number)
{
    zend_register_ini_entries(ini_entries, module_number);
}

void larder_settings_unregister(int module_number)
{
    zend_unregister_ini_entries(module_number);
}

zend_long larder_quantity(const char *text, const char *name)
{
#if PHP_VERSION_ID >= 80200
    zend_string *value = zend_string_init(text, strlen(text), 0);
    zend_string *setting = zend_string_init(name, strlen(name), 0);
    zend_long number = zend_ini_parse_quantity_warn(value, setting);
    zend_string_release(value);
    zend_string_release(setting);
    return number;
#else
    return zend_atol(text, strlen(text));
#endif
}

uint64_t larder_memory_setting(void)
{
    zend_long bytes = LG(memory) != NULL ? larder_quantity(LG(memory), "larder.memory") : 0;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

bool larder_is_cli(void)
{
    return strcmp(sapi_module.name, "cli") == 0 || strcmp(sapi_module.name, "phpdbg") == 0;
}

HashTable *larder_classes_of(const char *list)
{
    HashTable *classes = zend_new_array(0);
    zval yes;
    ZVAL_TRUE(&yes);
    while (*list != 0) {
        size_t bytes = strcspn(list, ", \t");
        const char *name = list[0] == '\\' ? list + 1 : list;
        size_t name_bytes = bytes - (size_t)(name - list);
        if (name_bytes == 1 && name[0] == '*') {
            zend_array_destroy(classes);
            return NULL;
        }
        if (name_bytes > 0) {
            zend_string *lower = zend_string_alloc(name_bytes, 0);
            zend_str_tolower_copy(ZSTR_VAL(lower), name, name_bytes);
            zend_hash_update(classes, lower, &yes);
            zend_string_release(lower);
        }
        list += bytes + (list[bytes] != 0);
    }
    return classes;
}

HashTable *larder_classes_setting(bool is_named)
{
    if (LG(unserialize_classes) != NULL) {
        return larder_classes_of(LG(unserialize_classes));
    }
    return is_named ? zend_new_array(0) : NULL;
}
