// The class Larder\Client: a cache on a server at a unix socket. Its methods are the functions of
// Larder\Cache, which treat the region of a server differently.

#include "larder/larder_php.h"
#include "larder/common_arginfo.h"

static zend_class_entry *client_class;

PHP_METHOD(Larder_Client, connect)
{
    char *socket;
    size_t socket_bytes;
    HashTable *given = (HashTable *)&zend_empty_array;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_PATH(socket, socket_bytes)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(given)
    ZEND_PARSE_PARAMETERS_END();
    uint32_t timeout_ms;
    larder_open_options options;
    if (!larder_client_options_take(given, &timeout_ms, &options)) {
        RETURN_THROWS();
    }
    zend_object *object = larder_object_create(client_class);
    larder_object_of(object)->region = larder_region_server(socket, timeout_ms);
    larder_object_of(object)->classes = options.classes;
    larder_object_of(object)->serializer = options.serializer;
    larder_cache_of(larder_object_of(object)->region);
    RETURN_OBJ(object);
}

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_connect, 0, 1, Larder\\Client, 0)
    ZEND_ARG_TYPE_INFO(0, socket, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, options, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

// Throws, in place of each method of Larder\Cache that a server cannot perform.
PHP_METHOD(Larder_Client, refuse)
{
    larder_misuse("Larder\\Client has no %s(): a server does not list its keys, and its statistics "
                  "and flush_all are for its administrator. Give the keys a version to delete them "
                  "all, or use Larder\\Cache with a file", get_active_function_name());
}

#define METHOD(name, arginfo) \
    ZEND_FENTRY(name, zim_Larder_Cache_##name, arginfo, ZEND_ACC_PUBLIC)
#define REFUSED(name, arginfo) \
    ZEND_FENTRY(name, zim_Larder_Client_refuse, arginfo, ZEND_ACC_PUBLIC)

static const zend_function_entry methods[] = {
    ZEND_FENTRY(__construct, zim_Larder_Cache___construct, arginfo_construct, ZEND_ACC_PRIVATE)
    PHP_ME(Larder_Client, connect, arginfo_connect, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    METHOD(get, arginfo_get)
    METHOD(getMany, arginfo_get_many)
    METHOD(set, arginfo_set)
    METHOD(setMany, arginfo_set_many)
    METHOD(add, arginfo_set)
    METHOD(replace, arginfo_set)
    METHOD(cas, arginfo_cas)
    METHOD(increment, arginfo_step)
    METHOD(decrement, arginfo_step)
    METHOD(delete, arginfo_of_key)
    METHOD(deleteMany, arginfo_delete_many)
    REFUSED(deletePrefix, arginfo_delete_prefix)
    METHOD(has, arginfo_of_key)
    METHOD(touch, arginfo_touch)
    METHOD(getOrCompute, arginfo_compute)
    REFUSED(iterate, arginfo_iterate)
    REFUSED(keys, arginfo_keys)
    REFUSED(clear, arginfo_clear)
    REFUSED(stats, arginfo_stats)
    PHP_FE_END
};

void larder_client_register(void)
{
    zend_class_entry class;
    INIT_NS_CLASS_ENTRY(class, "Larder", "Client", methods);
    client_class = zend_register_internal_class(&class);
    client_class->ce_flags |=
        ZEND_ACC_FINAL | ZEND_ACC_NOT_SERIALIZABLE | ZEND_ACC_NO_DYNAMIC_PROPERTIES;
    client_class->create_object = larder_object_create;
}
