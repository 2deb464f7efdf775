// Misuse of the interface throws an exception. Failures of the cache are warnings, once per
// process. A process that cannot change the cache warns once per request, because its deletes and
// stores are lost.

#include "larder_php.h"
#include "zend_exceptions.h"
#include <stdarg.h>

static bool is_outcome(larder_status status)
{
    switch (status) {
        case LARDER_OK:
        case LARDER_MISSING:
        case LARDER_EXISTS:
        case LARDER_CHANGED:
        case LARDER_TOO_SMALL:
        case LARDER_END:
        case LARDER_BUSY:
        case LARDER_NOT_A_NUMBER:
            return true;
        default:
            return false;
    }
}

void larder_warn_once(const char *why)
{
    static _Atomic pid_t warned_by;
    if (apcu_is_first(&warned_by)) {
        php_error_docref(NULL, E_WARNING, "%s", why);
    }
}

void larder_failed(larder_region *region, larder_status status)
{
    if (EXPECTED(is_outcome(status))) {
        return;
    }
    char text[512];
    char why[320] = "";
    if (status != LARDER_NOT_OPENED
        || larder_usable(region->cache, why, sizeof why) == LARDER_OK) {
        snprintf(text, sizeof text, "The cache failed: %s", larder_status_text(status));
        larder_warn_once(text);
    } else if (!LG(has_warned)) {
        LG(has_warned) = true;
        php_error_docref(NULL, E_WARNING, "This process cannot change the cache: %s", why);
    }
}

void larder_misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    zend_string *message = zend_vstrpprintf(0, format, arguments);
    va_end(arguments);
    // If an exception is pending, PHP makes it the `previous` of the new one.
    zend_throw_exception(larder_exception_class, ZSTR_VAL(message), 0);
    zend_string_release(message);
}
