// Larder\Cache.

#include "larder_php.h"
#include "cache_arginfo.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"

zend_class_entry *larder_cache_class;
static zend_object_handlers handlers;

zend_object *larder_object_create(zend_class_entry *class)
{
    larder_object *object = zend_object_alloc(sizeof *object, class);
    memset(object, 0, offsetof(larder_object, std));
    zend_object_std_init(&object->std, class);
    object_properties_init(&object->std, class);
    object->std.handlers = &handlers;
    return &object->std;
}

static void free_object(zend_object *std)
{
    larder_object *object = larder_object_of(std);
    if (object->owns_region) {
        larder_region_free(object->region);
    }
    if (object->classes != NULL) {
        zend_array_destroy(object->classes);
    }
    zend_object_std_dtor(std);
}

static zend_object *new_object(larder_region *region, HashTable *classes, uint32_t serializer)
{
    zend_object *std = larder_object_create(larder_cache_class);
    larder_object_of(std)->region = region;
    larder_object_of(std)->classes = classes;
    larder_object_of(std)->serializer = serializer;
    return std;
}

PHP_METHOD(Larder_Cache, __construct)
{
    ZEND_PARSE_PARAMETERS_NONE();
}

// Returns the region of a file. Throws and returns null if open_basedir excludes the file.
static larder_region *open_named(const char *path, const larder_open_options *options)
{
    // Does not resolve a symbolic link, so that it is refused later.
    char *full = expand_filepath_with_mode(path, NULL, NULL, 0, CWD_EXPAND);
    larder_region *region = NULL;
    if (full != NULL && php_check_open_basedir_ex(full, 0) == 0) {
        region = larder_region_named(full, options->memory_bytes, options->item_bytes_max,
                                     options->permissions);
    } else {
        larder_misuse("The file %s is not within open_basedir", path);
    }
    if (full != NULL) {
        efree(full);
    }
    return region;
}

PHP_METHOD(Larder_Cache, open)
{
    char *path = NULL;
    size_t path_bytes;
    HashTable *given = (HashTable *)&zend_empty_array;
    ZEND_PARSE_PARAMETERS_START(0, 2)
        Z_PARAM_OPTIONAL
        Z_PARAM_PATH_OR_NULL(path, path_bytes)
        Z_PARAM_ARRAY_HT(given)
    ZEND_PARSE_PARAMETERS_END();
    larder_open_options options;
    if (!larder_options_take(given, path != NULL, &options)) {
        RETURN_THROWS();
    }
    larder_region *region = path != NULL
        ? open_named(path, &options)
        : larder_region_private(options.memory_bytes, options.item_bytes_max);
    if (region == NULL) {
        options.classes != NULL ? zend_array_destroy(options.classes) : (void)0;
        RETURN_THROWS();
    }
    zend_object *object = new_object(region, options.classes, options.serializer);
    larder_object_of(object)->owns_region = path == NULL;
    larder_cache_of(region);
    RETURN_OBJ(object);
}

PHP_METHOD(Larder_Cache, shared)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (LG(shared) == NULL) {
        uint32_t serializer;
        if (!larder_serializer_of(LG(serializer_name), &serializer)) {
            RETURN_THROWS();
        }
        larder_region *region = larder_region_shared();
        HashTable *classes = larder_classes_setting(region->path != NULL);
        LG(shared) = new_object(region, classes, serializer);
    }
    RETURN_OBJ_COPY(LG(shared));
}

PHP_METHOD(Larder_Cache, get)
{
    zend_string *name;
    zval *missing = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(missing)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key;
    if (UNEXPECTED(!larder_key_of(THIS_CACHE(), &key, name))) {
        RETURN_THROWS();
    }
    if (!larder_read(THIS_CACHE(), &key, return_value, NULL) && missing != NULL) {
        RETURN_COPY(missing);
    }
}

static void store(INTERNAL_FUNCTION_PARAMETERS, larder_store function)
{
    zend_string *name;
    zval *value;
    larder_ttl ttl = NO_TTL;
    uint32_t seconds;
    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(name)
        Z_PARAM_ZVAL(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_TTL(ttl)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key;
    if (UNEXPECTED(!larder_key_of(THIS_CACHE(), &key, name) || !larder_ttl_of(&ttl, &seconds))) {
        RETURN_THROWS();
    }
    RETURN_BOOL(larder_write(THIS_CACHE(), &key, value, seconds, 0, function));
}

PHP_METHOD(Larder_Cache, set)
{
    store(INTERNAL_FUNCTION_PARAM_PASSTHRU, larder_set);
}

PHP_METHOD(Larder_Cache, add)
{
    store(INTERNAL_FUNCTION_PARAM_PASSTHRU, larder_add);
}

PHP_METHOD(Larder_Cache, replace)
{
    store(INTERNAL_FUNCTION_PARAM_PASSTHRU, larder_replace);
}

PHP_METHOD(Larder_Cache, cas)
{
    zend_string *name;
    zval *expected;
    zval *value;
    larder_ttl ttl = NO_TTL;
    uint32_t seconds;
    ZEND_PARSE_PARAMETERS_START(3, 4)
        Z_PARAM_STR(name)
        Z_PARAM_ZVAL(expected)
        Z_PARAM_ZVAL(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_TTL(ttl)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key;
    if (!larder_key_of(THIS_CACHE(), &key, name) || !larder_ttl_of(&ttl, &seconds)) {
        RETURN_THROWS();
    }
    RETURN_BOOL(larder_exchange(THIS_CACHE(), &key, expected, value, seconds));
}

static void step(INTERNAL_FUNCTION_PARAMETERS, bool is_down)
{
    zend_string *name;
    zend_long by = 1;
    larder_ttl ttl = NO_TTL;
    uint32_t seconds;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(by)
        Z_PARAM_TTL(ttl)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key;
    if (!larder_key_of(THIS_CACHE(), &key, name) || !larder_ttl_of(&ttl, &seconds)) {
        RETURN_THROWS();
    }
    zend_long number;
    by = is_down ? (zend_long)(0 - (zend_ulong)by) : by;
    if (larder_step(THIS_CACHE(), &key, by, seconds, &number)) {
        RETURN_LONG(number);
    }
    RETURN_FALSE;
}

PHP_METHOD(Larder_Cache, increment)
{
    step(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

PHP_METHOD(Larder_Cache, decrement)
{
    step(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

// Returns the cache, and the stored form of the key that is the only parameter. Null if the cache
// cannot be used, or after an exception.
static larder *begin_of_key(zend_string *name, larder_object *object, apcu_key *key)
{
    return larder_key_of(object, key, name) ? larder_cache_of(object->region) : NULL;
}

PHP_METHOD(Larder_Cache, delete)
{
    zend_string *name;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(name)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key;
    larder *cache = begin_of_key(name, THIS_CACHE(), &key);
    if (cache == NULL) {
        RETURN_FALSE;
    }
    larder_status status = larder_delete(cache, key.at, key.bytes);
    larder_failed(THIS_CACHE()->region, status);
    RETURN_BOOL(status == LARDER_OK);
}

PHP_METHOD(Larder_Cache, has)
{
    zend_string *name;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(name)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key;
    larder *cache = begin_of_key(name, THIS_CACHE(), &key);
    if (cache == NULL) {
        RETURN_FALSE;
    }
    larder_item item;
    larder_status status = larder_peek(cache, key.at, key.bytes, &item);
    larder_failed(THIS_CACHE()->region, status);
    RETURN_BOOL(status == LARDER_OK && !larder_is_stale(THIS_CACHE()->region, &item));
}

static larder_status touch(larder *cache, const larder_region *region, const apcu_key *key,
                           uint32_t seconds)
{
    larder_item item;
    larder_status status = larder_peek(cache, key->at, key->bytes, &item);
    if (status != LARDER_OK || larder_is_stale(region, &item)) {
        return status == LARDER_OK ? LARDER_MISSING : status;
    }
    // The item remains as a stale one after its time to live.
    seconds += seconds != 0 ? larder_stale_of(region, item.flags) : 0;
    return larder_touch(cache, key->at, key->bytes, seconds);
}

PHP_METHOD(Larder_Cache, touch)
{
    zend_string *name;
    larder_ttl ttl = NO_TTL;
    uint32_t seconds;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_TTL(ttl)
    ZEND_PARSE_PARAMETERS_END();
    if (!larder_ttl_of(&ttl, &seconds)) {
        RETURN_THROWS();
    }
    apcu_key key;
    larder *cache = begin_of_key(name, THIS_CACHE(), &key);
    if (cache == NULL) {
        RETURN_FALSE;
    }
    larder_status status = touch(cache, THIS_CACHE()->region, &key, seconds);
    larder_failed(THIS_CACHE()->region, status);
    RETURN_BOOL(status == LARDER_OK);
}

PHP_METHOD(Larder_Cache, getOrCompute)
{
    zend_string *name;
    zend_fcall_info callback;
    zend_fcall_info_cache cached;
    larder_ttl ttl = NO_TTL;
    zend_long stale = 0;
    uint32_t seconds;
    ZEND_PARSE_PARAMETERS_START(2, 4)
        Z_PARAM_STR(name)
        Z_PARAM_FUNC(callback, cached)
        Z_PARAM_OPTIONAL
        Z_PARAM_TTL(ttl)
        Z_PARAM_LONG(stale)
    ZEND_PARSE_PARAMETERS_END();
    if (!larder_ttl_of(&ttl, &seconds)) {
        RETURN_THROWS();
    }
    zend_long stale_max =
        THIS_CACHE()->region->is_server ? LARDER_REMOTE_STALE_MAX : LARDER_STALE_MAX;
    if (stale < 0 || stale > stale_max || (stale != 0 && seconds == 0)) {
        larder_misuse("staleFor must be 0 to " ZEND_LONG_FMT
                      " seconds, and needs a time to live", stale_max);
        RETURN_THROWS();
    }
    larder_compute(THIS_CACHE(), name, &callback, &cached, seconds, (uint32_t)stale, return_value);
}

PHP_METHOD(Larder_Cache, iterate)
{
    zend_string *prefix = ZSTR_EMPTY_ALLOC();
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR(prefix)
    ZEND_PARSE_PARAMETERS_END();
    larder_items_begin(return_value, Z_OBJ_P(ZEND_THIS), prefix);
}

PHP_METHOD(Larder_Cache, clear)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder *cache = larder_cache_of(THIS_CACHE()->region);
    if (cache == NULL) {
        RETURN_FALSE;
    }
    larder_status status = apcu_clear(cache);
    larder_failed(THIS_CACHE()->region, status);
    RETURN_BOOL(status == LARDER_OK);
}

PHP_METHOD(Larder_Cache, count)
{
    ZEND_PARSE_PARAMETERS_NONE();
    uint64_t items = 0;
    larder *cache = larder_cache_of(THIS_CACHE()->region);
    if (cache != NULL) {
        larder_failed(THIS_CACHE()->region, larder_length(cache, &items));
    }
    RETURN_LONG((zend_long)items);
}

void larder_cache_register(void)
{
    zend_class_entry class;
    INIT_NS_CLASS_ENTRY(class, "Larder", "Cache", cache_methods);
    larder_cache_class = zend_register_internal_class(&class);
    larder_cache_class->ce_flags |=
        ZEND_ACC_FINAL | ZEND_ACC_NOT_SERIALIZABLE | ZEND_ACC_NO_DYNAMIC_PROPERTIES;
    larder_cache_class->create_object = larder_object_create;
    zend_class_implements(larder_cache_class, 1, zend_ce_countable);
    memcpy(&handlers, &std_object_handlers, sizeof handlers);
    handlers.offset = offsetof(larder_object, std);
    handlers.free_obj = free_object;
    handlers.clone_obj = NULL;
}
