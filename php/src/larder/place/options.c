// The options of Larder\Cache::open().

#include "larder/larder_php.h"

static bool is_one_of(const zend_string *name, const char *const *names)
{
    while (*names != NULL && strcmp(ZSTR_VAL(name), *names) != 0) {
        ++names;
    }
    return *names != NULL;
}

// Throws if an option is not in the null-terminated list of names.
static bool check_names(HashTable *options, const char *const *names, const char *list)
{
    zend_string *name;
    ZEND_HASH_FOREACH_STR_KEY(options, name) {
        if (name == NULL || !is_one_of(name, names)) {
            larder_misuse("Unknown option %s: the options are %s",
                          name != NULL ? ZSTR_VAL(name) : "without a name", list);
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

// Reads a number: an integer, or a string such as `64M`.
static bool take_number(HashTable *options, const char *name, uint64_t least, uint64_t most,
                        uint64_t *number)
{
    zval *value = zend_hash_str_find(options, name, strlen(name));
    if (value == NULL) {
        return true;
    }
    ZVAL_DEREF(value);
    zend_long given = -1;
    if (Z_TYPE_P(value) == IS_LONG) {
        given = Z_LVAL_P(value);
    } else if (Z_TYPE_P(value) == IS_STRING) {
        given = larder_quantity(Z_STRVAL_P(value), name);
    }
    if (given < 0 || (uint64_t)given < least || (uint64_t)given > most) {
        larder_misuse("The option %s must be a number from %llu to %llu", name,
                      (unsigned long long)least, (unsigned long long)most);
        return false;
    }
    *number = (uint64_t)given;
    return true;
}

static bool take_classes(HashTable *options, bool is_named, HashTable **classes)
{
    zval *value = zend_hash_str_find(options, "classes", sizeof "classes" - 1);
    zval *name;
    if (value == NULL) {
        *classes = larder_classes_setting(is_named);
        return true;
    }
    ZVAL_DEREF(value);
    if (Z_TYPE_P(value) == IS_STRING) {
        *classes = larder_classes_of(Z_STRVAL_P(value));
        return true;
    }
    if (Z_TYPE_P(value) != IS_ARRAY) {
        larder_misuse("The option classes must be a list of class names, or '*'");
        return false;
    }
    *classes = zend_new_array(0);
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(value), name) {
        zend_string *text = zval_get_string(name);
        HashTable *one = larder_classes_of(ZSTR_VAL(text));
        zend_string_release(text);
        if (one != NULL) {
            zend_hash_merge(*classes, one, NULL, true);
            zend_array_destroy(one);
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

bool larder_serializer_of(const char *name, uint32_t *tag)
{
    *tag = strcmp(name, "igbinary") == 0 ? LARDER_TAG_IGBINARY : LARDER_TAG_PHP;
    if (*tag == LARDER_TAG_PHP && strcmp(name, "php") != 0) {
        larder_misuse("Unknown serializer %s: larder.serializer must be php or igbinary", name);
        return false;
    }
    if (*tag == LARDER_TAG_IGBINARY && !larder_igbinary_is_loaded()) {
        larder_misuse("The serializer igbinary needs the extension igbinary, which PHP has not "
                      "loaded");
        return false;
    }
    return true;
}

static bool take_serializer(HashTable *options, uint32_t *tag)
{
    zval *value = zend_hash_str_find(options, "serializer", sizeof "serializer" - 1);
    if (value == NULL) {
        return larder_serializer_of(LG(serializer_name), tag);
    }
    ZVAL_DEREF(value);
    if (Z_TYPE_P(value) != IS_STRING) {
        larder_misuse("The option serializer must be 'php' or 'igbinary'");
        return false;
    }
    return larder_serializer_of(Z_STRVAL_P(value), tag);
}

bool larder_options_take(HashTable *given, bool is_named, larder_open_options *options)
{
    static const uint64_t MIB = 1 << 20;
    static const char *const names[] = {"memory", "itemLimit", "permissions", "classes",
                                        "serializer", NULL};
    uint64_t permissions = 0600;
    options->memory_bytes = 32 * MIB;
    options->item_bytes_max = 0;
    bool is_well = check_names(given, names, "memory, itemLimit, permissions, classes "
                                            "and serializer")
        && take_number(given, "memory", MIB, MIB << 20, &options->memory_bytes)
        && take_number(given, "itemLimit", 1, options->memory_bytes, &options->item_bytes_max)
        && take_number(given, "permissions", 0600, 0777, &permissions)
        && take_serializer(given, &options->serializer)
        && take_classes(given, is_named, &options->classes);
    options->permissions = (uint32_t)permissions;
    return is_well;
}

bool larder_client_options_take(HashTable *given, uint32_t *timeout_ms,
                                larder_open_options *options)
{
    static const char *const names[] = {"timeoutMs", "classes", "serializer", NULL};
    uint64_t timeout = 5000;
    bool is_well = check_names(given, names, "timeoutMs, classes and serializer")
        && take_number(given, "timeoutMs", 1, INT32_MAX, &timeout)
        && take_serializer(given, &options->serializer)
        && take_classes(given, true, &options->classes);
    *timeout_ms = (uint32_t)timeout;
    return is_well;
}
