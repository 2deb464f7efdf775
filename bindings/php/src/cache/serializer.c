// PHP's serializer, for objects and for arrays that contain objects or references. The functions
// are those that src/values calls.

#include "larder_php.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_incomplete_class.h"
#include "ext/standard/php_var.h"
#include "zend_smart_str.h"

// A stored value of more bytes does not fit into any cache that PHP can fill.
#define VALUE_BYTES_MAX ((size_t)1 << 31)

size_t apcu_value_limit(void)
{
    return VALUE_BYTES_MAX;
}

bool apcu_refuse_resource(bool is_nested)
{
    larder_misuse("The value cannot be stored: it %s a resource", is_nested ? "contains" : "is");
    return true;
}

// True if serialize() fails because an exception is on its way.
bool apcu_serializes_as_php(void)
{
    return true;
}

bool apcu_serializes_in_full(void)
{
    return true;
}

static zend_class_entry *refused_of(zval *value, const HashTable *classes);

static zend_class_entry *refused_in(HashTable *items, const HashTable *classes)
{
    zend_class_entry *refused = NULL;
    zval *item;
    if (GC_IS_RECURSIVE(items)) {
        return NULL;
    }
    GC_TRY_PROTECT_RECURSION(items);
    ZEND_HASH_FOREACH_VAL(items, item) {
        if (Z_TYPE_P(item) == IS_INDIRECT) {
            item = Z_INDIRECT_P(item);
        }
        refused = refused_of(item, classes);
        if (refused != NULL) {
            break;
        }
    } ZEND_HASH_FOREACH_END();
    GC_TRY_UNPROTECT_RECURSION(items);
    return refused;
}

static zend_class_entry *refused_in_object(zend_object *object, const HashTable *classes)
{
    zend_class_entry *refused = NULL;
    zend_string *lower = zend_string_tolower(object->ce->name);
    bool is_allowed = zend_hash_exists(classes, lower);
    zend_string_release(lower);
    if (!is_allowed) {
        return object->ce;
    }
    if (GC_IS_RECURSIVE(object)) {
        return NULL;
    }
    GC_PROTECT_RECURSION(object);
    for (int at = 0; at < object->ce->default_properties_count && refused == NULL; ++at) {
        refused = refused_of(&object->properties_table[at], classes);
    }
    if (refused == NULL && object->properties != NULL) {
        refused = refused_in(object->properties, classes);
    }
    GC_UNPROTECT_RECURSION(object);
    return refused;
}

// Returns the class of the first object that the classes do not allow. No code of users runs.
static zend_class_entry *refused_of(zval *value, const HashTable *classes)
{
    ZVAL_DEREF(value);
    switch (Z_TYPE_P(value)) {
        case IS_ARRAY:
            return refused_in(Z_ARRVAL_P(value), classes);
        case IS_OBJECT:
            return refused_in_object(Z_OBJ_P(value), classes);
        default:
            return NULL;
    }
}

// Code of users that runs meanwhile can use the cache: `serialize_lock` gives its calls a state of
// their own.
static bool serialize(smart_str *text, zval *value)
{
    php_serialize_data_t state;
    BG(serialize_lock)++;
    PHP_VAR_SERIALIZE_INIT(state);
    php_var_serialize(text, value, &state);
    PHP_VAR_SERIALIZE_DESTROY(state);
    BG(serialize_lock)--;
    return EG(exception) == NULL && text->s != NULL;
}

bool apcu_serialize(apcu_encoded *encoded, zval *value)
{
    const HashTable *classes = LG(classes);
    zend_class_entry *refused = classes == NULL ? NULL : refused_of(value, classes);
    if (refused != NULL) {
        larder_misuse("The cache stores no objects of the class %s: see larder.unserialize_classes",
                      ZSTR_VAL(refused->name));
        return false;
    }
    smart_str text = {0};
    ZVAL_DEREF(value);
    bool fits = serialize(&text, value) && apcu_reserve(&encoded->writer, ZSTR_LEN(text.s));
    if (fits) {
        memcpy(encoded->writer.at, ZSTR_VAL(text.s), ZSTR_LEN(text.s));
        encoded->writer.at += ZSTR_LEN(text.s);
        encoded->flags |= LARDER_TAG_PHP;
    }
    smart_str_free(&text);
    return fits;
}

static bool unserialize(zval *value, const unsigned char *at, size_t bytes, HashTable *classes)
{
    php_unserialize_data_t state;
    BG(serialize_lock)++;
    PHP_VAR_UNSERIALIZE_INIT(state);
    php_var_unserialize_set_allowed_classes(state, classes);
    bool is_whole = php_var_unserialize(value, &at, at + bytes, &state);
    PHP_VAR_UNSERIALIZE_DESTROY(state);
    BG(serialize_lock)--;
    return is_whole && EG(exception) == NULL;
}

bool apcu_unserialize(zval *value, const char *at, size_t bytes, uint32_t tag)
{
    HashTable *classes = LG(classes);
    if (tag != LARDER_TAG_PHP) {
        return false;
    }
    ZVAL_NULL(value);
    bool is_whole = unserialize(value, (const unsigned char *)at, bytes, classes);
    // An object of a class that is not allowed is one of __PHP_Incomplete_Class, whose code is
    // PHP's own.
    if (is_whole && classes != NULL && refused_of(value, classes) != NULL) {
        larder_warn_once("A stored object has a class that larder.unserialize_classes does not "
                         "allow, so its key misses");
        is_whole = false;
    }
    if (!is_whole) {
        zval_ptr_dtor(value);
        ZVAL_NULL(value);
        return false;
    }
    if (Z_ISREF_P(value)) {
        zend_unwrap_reference(value);
    }
    return true;
}
