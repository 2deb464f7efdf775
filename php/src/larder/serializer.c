// Serializers for objects and for arrays that contain objects or references: PHP's or igbinary.
// src/values calls these functions.

#include "larder_php.h"
#include "ext/standard/php_incomplete_class.h"
#include "zend_smart_str.h"

// No cache of PHP stores a longer value.
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

// True if serialize() would fail because an exception is pending.
bool apcu_serializes_as_php(void)
{
    return true;
}

bool apcu_serializes_in_full(void)
{
    return LG(serializer) == LARDER_TAG_PHP;
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

// Returns the class of the first object in a value whose class is not in `classes`, or null. Runs
// no user code.
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

// igbinary cannot restrict the classes when it reads, so a cache with a list of classes writes
// objects with PHP's serializer.
static bool uses_igbinary(zval *value, const HashTable *classes)
{
    return LG(serializer) == LARDER_TAG_IGBINARY
        && (classes == NULL || refused_of(value, &zend_empty_array) == NULL);
}

static bool serialize_as_php(apcu_writer *writer, zval *value)
{
    smart_str text = {0};
    bool fits =
        apcu_native_serialize(&text, value) && apcu_reserve(writer, ZSTR_LEN(text.s));
    if (fits) {
        memcpy(writer->at, ZSTR_VAL(text.s), ZSTR_LEN(text.s));
        writer->at += ZSTR_LEN(text.s);
    }
    smart_str_free(&text);
    return fits;
}

bool apcu_serialize(apcu_encoded *encoded, zval *value)
{
    const HashTable *classes = LG(classes);
    zend_class_entry *refused = classes == NULL ? NULL : refused_of(value, classes);
    if (refused != NULL) {
        larder_misuse("Objects of the class %s are not allowed: see larder.unserialize_classes",
                      ZSTR_VAL(refused->name));
        return false;
    }
    ZVAL_DEREF(value);
    bool is_igbinary = uses_igbinary(value, classes);
    encoded->flags |= is_igbinary ? LARDER_TAG_IGBINARY : LARDER_TAG_PHP;
    return is_igbinary ? larder_igbinary_serialize(&encoded->writer, value)
                       : serialize_as_php(&encoded->writer, value);
}

// Warns about a stored value that cannot be read.
static bool miss(const char *why)
{
    larder_warn_once(why);
    return false;
}

static bool unserialize(zval *value, const char *at, size_t bytes, uint32_t tag)
{
    HashTable *classes = LG(classes);
    const unsigned char *begin = (const unsigned char *)at;
    if (tag == LARDER_TAG_PHP) {
        return apcu_native_unserialize(value, &begin, begin + bytes, classes)
            && EG(exception) == NULL;
    }
    if (tag != LARDER_TAG_IGBINARY) {
        return false;
    }
    if (!larder_igbinary_is_loaded()) {
        return miss("A stored value needs igbinary, which PHP has not loaded, so its key misses");
    }
    if (classes != NULL && larder_igbinary_has_objects(at, bytes)) {
        return miss("A stored object was written by igbinary, which cannot restrict the classes to "
                    "larder.unserialize_classes, so its key misses");
    }
    return larder_igbinary_unserialize(value, at, bytes);
}

bool apcu_unserialize(zval *value, const char *at, size_t bytes, uint32_t tag)
{
    HashTable *classes = LG(classes);
    ZVAL_NULL(value);
    bool is_whole = unserialize(value, at, bytes, tag);
    // PHP has turned an object of a class that is not allowed into a __PHP_Incomplete_Class, so no
    // code of its class has run. This class is not allowed either, so the value misses.
    if (is_whole && classes != NULL && refused_of(value, classes) != NULL) {
        is_whole = miss("A stored object has a class that larder.unserialize_classes does not "
                        "allow, so its key misses");
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
