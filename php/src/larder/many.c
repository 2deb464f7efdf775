// Methods of Larder\Cache for several items, and its statistics.

#include "larder_php.h"
#include "ext/spl/spl_iterators.h"

typedef struct traversal {
    larder_object *object;
    larder_each each;
    void *context;
} traversal;

static int visit(zend_object_iterator *iterator, void *argument)
{
    traversal *traversal = argument;
    zval *value = iterator->funcs->get_current_data(iterator);
    zval key;
    if (EG(exception) != NULL || value == NULL) {
        return ZEND_HASH_APPLY_STOP;
    }
    zval held;
    ZVAL_COPY_DEREF(&held, value);
    ZVAL_NULL(&key);
    if (iterator->funcs->get_current_key != NULL) {
        iterator->funcs->get_current_key(iterator, &key);
    }
    bool goes_on = EG(exception) == NULL
        && traversal->each(traversal->object, &key, &held, traversal->context);
    zval_ptr_dtor(&key);
    zval_ptr_dtor(&held);
    return goes_on && EG(exception) == NULL ? ZEND_HASH_APPLY_KEEP : ZEND_HASH_APPLY_STOP;
}

static void traverse_array(larder_object *object, HashTable *items, larder_each each,
                           void *context)
{
    zend_ulong index;
    zend_string *name;
    zval *value;
    ZEND_HASH_FOREACH_KEY_VAL(items, index, name, value) {
        zval key;
        if (name != NULL) {
            ZVAL_STR(&key, name);
        } else {
            ZVAL_LONG(&key, (zend_long)index);
        }
        // User code that runs during the call may change a value that is a reference.
        zval held;
        ZVAL_COPY_DEREF(&held, value);
        bool goes_on = each(object, &key, &held, context);
        zval_ptr_dtor(&held);
        if (!goes_on) {
            return;
        }
    } ZEND_HASH_FOREACH_END();
}

void larder_traverse(larder_object *object, zval *items, larder_each each, void *context)
{
    if (Z_TYPE_P(items) == IS_ARRAY) {
        traverse_array(object, Z_ARRVAL_P(items), each, context);
        return;
    }
    traversal traversal = {object, each, context};
    spl_iterator_apply(items, visit, &traversal);
}

zend_string *larder_name_of(zval *key)
{
    if (EXPECTED(Z_TYPE_P(key) == IS_STRING)) {
        return zend_string_copy(Z_STR_P(key));
    }
    if (Z_TYPE_P(key) == IS_LONG) {
        return zend_long_to_str(Z_LVAL_P(key));
    }
    larder_misuse("A key must be a string: %s given", zend_zval_type_name(key));
    return NULL;
}

static bool get_one(larder_object *object, zval *index, zval *name_value, void *context)
{
    zend_string *name = larder_name_of(name_value);
    apcu_key key;
    zval value;
    if (name == NULL) {
        return false;
    }
    bool is_key = larder_key_of(object, &key, name);
    if (is_key && larder_read(object, &key, &value, NULL)) {
        zend_symtable_update(context, name, &value);
    }
    zend_string_release(name);
    return is_key && EG(exception) == NULL;
}

static void get_array(larder_object *object, HashTable *array, HashTable *found)
{
    apcu_names names;
    bool goes_on = true;
    apcu_names_begin(&names, array);
    while (goes_on && apcu_names_next(&names, larder_cache_of(object->region)) > 0) {
        for (size_t at = 0; at < names.count && goes_on; ++at) {
            goes_on = get_one(object, NULL, &names.group[at], found);
        }
    }
    apcu_names_end(&names);
}

PHP_METHOD(Larder_Cache, getMany)
{
    zval *names;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ITERABLE(names)
    ZEND_PARSE_PARAMETERS_END();
    array_init(return_value);
    if (THIS_CACHE()->region->is_server) {
        larder_remote_get_many(THIS_CACHE(), names, Z_ARRVAL_P(return_value));
    } else if (Z_TYPE_P(names) == IS_ARRAY) {
        get_array(THIS_CACHE(), Z_ARRVAL_P(names), Z_ARRVAL_P(return_value));
    } else {
        larder_traverse(THIS_CACHE(), names, get_one, Z_ARRVAL_P(return_value));
    }
}

typedef struct stores {
    uint32_t ttl;
    bool are_stored;
} stores;

static bool set_one(larder_object *object, zval *name_value, zval *value, void *context)
{
    stores *stores = context;
    zend_string *name = larder_name_of(name_value);
    apcu_key key;
    if (name == NULL) {
        return false;
    }
    bool is_key = larder_key_of(object, &key, name);
    if (is_key && !larder_write(object, &key, value, stores->ttl, 0, larder_set)) {
        stores->are_stored = false;
    }
    zend_string_release(name);
    return is_key && EG(exception) == NULL;
}

PHP_METHOD(Larder_Cache, setMany)
{
    zval *items;
    larder_ttl ttl = NO_TTL;
    stores stores = {.are_stored = true};
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ITERABLE(items)
        Z_PARAM_OPTIONAL
        Z_PARAM_TTL(ttl)
    ZEND_PARSE_PARAMETERS_END();
    if (!larder_ttl_of(&ttl, &stores.ttl)) {
        RETURN_THROWS();
    }
    larder_traverse(THIS_CACHE(), items, set_one, &stores);
    RETURN_BOOL(stores.are_stored);
}

static bool delete_name(larder_object *object, zend_string *name, zend_long *deleted)
{
    apcu_key key;
    larder *cache = larder_cache_of(object->region);
    if (!larder_key_of(object, &key, name)) {
        return false;
    }
    if (cache != NULL) {
        larder_status status = larder_delete(cache, key.at, key.bytes);
        larder_failed(object->region, status);
        *deleted += status == LARDER_OK;
    }
    return true;
}

static bool delete_one(larder_object *object, zval *index, zval *name_value, void *context)
{
    zend_string *name = larder_name_of(name_value);
    if (name == NULL) {
        return false;
    }
    bool is_key = delete_name(object, name, context);
    zend_string_release(name);
    return is_key;
}

PHP_METHOD(Larder_Cache, deleteMany)
{
    zval *names;
    zend_long deleted = 0;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ITERABLE(names)
    ZEND_PARSE_PARAMETERS_END();
    larder_traverse(THIS_CACHE(), names, delete_one, &deleted);
    RETURN_LONG(deleted);
}

// Deletes by names, one at a time. larder_remove_prefix compares keys, and the key of a long name
// contains only its first bytes.
static zend_long delete_by_names(larder_object *object, zend_string *prefix)
{
    larder_walker walker;
    zend_string *name;
    zend_long deleted = 0;
    larder_walk_begin(&walker, object, prefix);
    while ((name = larder_walk_next(&walker)) != NULL) {
        delete_name(object, name, &deleted);
        zend_string_release(name);
    }
    larder_walk_end(&walker);
    return deleted;
}

PHP_METHOD(Larder_Cache, deletePrefix)
{
    zend_string *prefix;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(prefix)
    ZEND_PARSE_PARAMETERS_END();
    larder_object *object = THIS_CACHE();
    larder *cache = larder_cache_of(object->region);
    if (cache == NULL) {
        RETURN_LONG(0);
    }
    if (ZSTR_LEN(prefix) > APCU_PLAIN_KEY_MAX
        || (ZSTR_LEN(prefix) > 0 && (unsigned char)ZSTR_VAL(prefix)[0] == APCU_HASH_MARK)) {
        RETURN_LONG(delete_by_names(object, prefix));
    }
    uint64_t removed = 0;
    larder_failed(object->region,
                  larder_remove_prefix(cache, ZSTR_VAL(prefix), ZSTR_LEN(prefix), &removed));
    RETURN_LONG((zend_long)removed);
}

PHP_METHOD(Larder_Cache, keys)
{
    zend_string *prefix = ZSTR_EMPTY_ALLOC();
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR(prefix)
    ZEND_PARSE_PARAMETERS_END();
    larder_walker walker;
    zend_string *name;
    array_init(return_value);
    larder_walk_begin(&walker, THIS_CACHE(), prefix);
    while ((name = larder_walk_next(&walker)) != NULL) {
        add_next_index_str(return_value, name);
    }
    larder_walk_end(&walker);
}

PHP_METHOD(Larder_Cache, stats)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder *cache = larder_cache_of(THIS_CACHE()->region);
    size_t count = 0;
    array_init(return_value);
    if (cache == NULL) {
        return;
    }
    larder_status status = larder_stats(cache, NULL, 0, &count);
    larder_stat *stats = safe_emalloc(count, sizeof *stats, 0);
    if (status == LARDER_TOO_SMALL) {
        status = larder_stats(cache, stats, count, &count);
    }
    for (size_t at = 0; status == LARDER_OK && at < count; ++at) {
        add_assoc_long(return_value, stats[at].name, (zend_long)stats[at].value);
    }
    efree(stats);
    larder_failed(THIS_CACHE()->region, status);
}
