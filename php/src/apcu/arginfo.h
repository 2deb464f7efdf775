// The parameters of the functions, for reflection.

#ifndef LARDER_APCU_ARGINFO_H
#define LARDER_APCU_ARGINFO_H

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_info, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, limited, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_key_info, 0, 1, IS_ARRAY, 1)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_store, 0, 1, MAY_BE_ARRAY | MAY_BE_BOOL)
    ZEND_ARG_INFO(0, key)
    ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_step, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, step, IS_LONG, 0, "1")
    ZEND_ARG_INFO_WITH_DEFAULT_VALUE(1, success, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cas, 0, 3, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, old, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, new, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_fetch, 0, 1, IS_MIXED, 0)
    ZEND_ARG_INFO(0, key)
    ZEND_ARG_INFO_WITH_DEFAULT_VALUE(1, success, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_keys, 0, 1, MAY_BE_ARRAY | MAY_BE_BOOL)
    ZEND_ARG_INFO(0, key)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_entry, 0, 2, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, callback, IS_CALLABLE, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

#ifdef APC_DEBUG
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_inc_request_time, 0, 0, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, by, IS_LONG, 0, "1")
ZEND_END_ARG_INFO()
#endif

static const zend_function_entry apcu_functions[] = {
    PHP_FE(apcu_clear_cache, arginfo_bool)
    PHP_FE(apcu_cache_info, arginfo_info)
    PHP_FE(apcu_key_info, arginfo_key_info)
    PHP_FE(apcu_sma_info, arginfo_info)
    PHP_FE(apcu_enabled, arginfo_bool)
    PHP_FE(apcu_store, arginfo_store)
    PHP_FE(apcu_add, arginfo_store)
    PHP_FE(apcu_inc, arginfo_step)
    PHP_FE(apcu_dec, arginfo_step)
    PHP_FE(apcu_cas, arginfo_cas)
    PHP_FE(apcu_fetch, arginfo_fetch)
    PHP_FE(apcu_exists, arginfo_keys)
    PHP_FE(apcu_delete, arginfo_keys)
    PHP_FE(apcu_entry, arginfo_entry)
#ifdef APC_DEBUG
    PHP_FE(apcu_inc_request_time, arginfo_inc_request_time)
#endif
    PHP_FE_END
};

#endif
