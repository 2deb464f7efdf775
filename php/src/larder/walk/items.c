// Larder\Items: iterates over the items of a cache.

#include "larder/larder_php.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"

typedef struct larder_items {
    larder_walker walker;
    zend_object *cache;
    zend_string *prefix;
    zend_string *name;
    zval value;
    bool has_begun;
    // True while the iterator reads a value. The value may run user code, such as __wakeup(), which
    // must not move the iterator.
    bool is_busy;
    zend_object std;
} larder_items;

static zend_class_entry *items_class;
static zend_object_handlers handlers;

static larder_items *items_of(zend_object *object)
{
    return (larder_items *)((char *)object - offsetof(larder_items, std));
}

static zend_object *create(zend_class_entry *class)
{
    larder_items *items = zend_object_alloc(sizeof *items, class);
    memset(items, 0, offsetof(larder_items, std));
    ZVAL_UNDEF(&items->value);
    zend_object_std_init(&items->std, class);
    object_properties_init(&items->std, class);
    items->std.handlers = &handlers;
    return &items->std;
}

static void forget_item(larder_items *items)
{
    zend_string *name = items->name;
    zval value;
    items->name = NULL;
    ZVAL_COPY_VALUE(&value, &items->value);
    ZVAL_UNDEF(&items->value);
    if (name != NULL) {
        zend_string_release(name);
    }
    zval_ptr_dtor(&value);
}

static void free_items(zend_object *object)
{
    larder_items *items = items_of(object);
    forget_item(items);
    if (items->cache != NULL) {
        larder_walk_end(&items->walker);
        larder_region_release(larder_object_of(items->cache)->region);
        OBJ_RELEASE(items->cache);
        zend_string_release(items->prefix);
    }
    zend_object_std_dtor(object);
}

void larder_items_begin(zval *value, zend_object *cache, zend_string *prefix)
{
    object_init_ex(value, items_class);
    larder_items *items = items_of(Z_OBJ_P(value));
    GC_ADDREF(cache);
    items->cache = cache;
    items->prefix = zend_string_copy(prefix);
    larder_region_hold(larder_object_of(cache)->region);
    larder_walk_begin(&items->walker, larder_object_of(cache), items->prefix);
}

// Finds the next item that still has a value.
static void find_next(larder_items *items)
{
    larder_object *cache = items->walker.object;
    forget_item(items);
    while (EG(exception) == NULL && (items->name = larder_walk_next(&items->walker)) != NULL) {
        apcu_key key;
        apcu_key_of(&key, items->name);
        if (larder_read(cache, &key, &items->value, NULL)) {
            return;
        }
        forget_item(items);
    }
}

static void advance(larder_items *items)
{
    items->has_begun = true;
    items->is_busy = true;
    find_next(items);
    items->is_busy = false;
}

// Returns the iterator of a method. Throws and returns null if it is in use.
static larder_items *idle_items(zend_execute_data *execute_data)
{
    larder_items *items = items_of(Z_OBJ_P(ZEND_THIS));
    if (items->is_busy) {
        larder_misuse("Cannot use the iterator while it reads a value");
        return NULL;
    }
    return items;
}

static larder_items *this_items(zend_execute_data *execute_data)
{
    larder_items *items = idle_items(execute_data);
    if (items != NULL && !items->has_begun && items->cache != NULL) {
        advance(items);
    }
    return items;
}

PHP_METHOD(Larder_Items, __construct)
{
    ZEND_PARSE_PARAMETERS_NONE();
}

PHP_METHOD(Larder_Items, current)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder_items *items = this_items(execute_data);
    if (items != NULL && items->name != NULL) {
        RETURN_COPY(&items->value);
    }
}

PHP_METHOD(Larder_Items, key)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder_items *items = this_items(execute_data);
    if (items != NULL && items->name != NULL) {
        RETURN_STR_COPY(items->name);
    }
}

PHP_METHOD(Larder_Items, next)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder_items *items = this_items(execute_data);
    if (items != NULL && items->name != NULL) {
        advance(items);
    }
}

PHP_METHOD(Larder_Items, rewind)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder_items *items = idle_items(execute_data);
    if (items != NULL && items->cache != NULL) {
        apcu_walk_restart(&items->walker.walk);
        advance(items);
    }
}

PHP_METHOD(Larder_Items, valid)
{
    ZEND_PARSE_PARAMETERS_NONE();
    larder_items *items = this_items(execute_data);
    RETURN_BOOL(items != NULL && items->name != NULL);
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_construct, 0, 0, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_current, 0, 0, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_key, 0, 0, IS_STRING, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_move, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_valid, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry methods[] = {
    PHP_ME(Larder_Items, __construct, arginfo_construct, ZEND_ACC_PRIVATE)
    PHP_ME(Larder_Items, current, arginfo_current, ZEND_ACC_PUBLIC)
    PHP_ME(Larder_Items, key, arginfo_key, ZEND_ACC_PUBLIC)
    PHP_ME(Larder_Items, next, arginfo_move, ZEND_ACC_PUBLIC)
    PHP_ME(Larder_Items, rewind, arginfo_move, ZEND_ACC_PUBLIC)
    PHP_ME(Larder_Items, valid, arginfo_valid, ZEND_ACC_PUBLIC)
    PHP_FE_END
};

void larder_items_register(void)
{
    zend_class_entry class;
    INIT_NS_CLASS_ENTRY(class, "Larder", "Items", methods);
    items_class = zend_register_internal_class(&class);
    items_class->ce_flags |=
        ZEND_ACC_FINAL | ZEND_ACC_NOT_SERIALIZABLE | ZEND_ACC_NO_DYNAMIC_PROPERTIES;
    items_class->create_object = create;
    zend_class_implements(items_class, 1, zend_ce_iterator);
    memcpy(&handlers, &std_object_handlers, sizeof handlers);
    handlers.offset = offsetof(larder_items, std);
    handlers.free_obj = free_items;
    handlers.clone_obj = NULL;
}
