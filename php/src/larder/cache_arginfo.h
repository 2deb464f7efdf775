// The parameters of the methods of Larder\Cache, for reflection.

#ifndef LARDER_CACHE_ARGINFO_H
#define LARDER_CACHE_ARGINFO_H

#include "common_arginfo.h"
ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_open, 0, 0, Larder\\Cache, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, path, IS_STRING, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, options, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_shared, 0, 0, Larder\\Cache, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_count, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

PHP_METHOD(Larder_Cache, open);
PHP_METHOD(Larder_Cache, shared);
PHP_METHOD(Larder_Cache, iterate);
PHP_METHOD(Larder_Cache, clear);
PHP_METHOD(Larder_Cache, count);

#define METHOD(name, arginfo) PHP_ME(Larder_Cache, name, arginfo, ZEND_ACC_PUBLIC)

static const zend_function_entry cache_methods[] = {
    PHP_ME(Larder_Cache, __construct, arginfo_construct, ZEND_ACC_PRIVATE)
    PHP_ME(Larder_Cache, open, arginfo_open, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    PHP_ME(Larder_Cache, shared, arginfo_shared, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
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
    METHOD(deletePrefix, arginfo_delete_prefix)
    METHOD(has, arginfo_of_key)
    METHOD(touch, arginfo_touch)
    METHOD(getOrCompute, arginfo_compute)
    METHOD(iterate, arginfo_iterate)
    METHOD(keys, arginfo_keys)
    METHOD(clear, arginfo_clear)
    METHOD(stats, arginfo_stats)
    METHOD(count, arginfo_count)
    PHP_FE_END
};

#undef METHOD

#endif
