// Warns about failures of the cache. Outcomes such as a miss, or a value that is too large, are not
// failures: the functions report them by their results, as APCu does.

#include "larder_apcu.h"

static bool is_outcome(larder_status status)
{
    switch (status) {
        case LARDER_OK:
        case LARDER_MISSING:
        case LARDER_EXISTS:
        case LARDER_CHANGED:
        case LARDER_TOO_SMALL:
        case LARDER_END:
        case LARDER_TOO_LARGE:
        case LARDER_NO_MEMORY:
        case LARDER_NOT_A_NUMBER:
            return true;
        default:
            return false;
    }
}

void apcu_failed(larder_status status)
{
    if (EXPECTED(is_outcome(status))) {
        return;
    }
    static _Atomic pid_t warned_by;
    char why[320];
    if (status != LARDER_NOT_OPENED || larder_usable(apcu_cache, why, sizeof why) == LARDER_OK) {
        if (apcu_is_first(&warned_by)) {
            php_error_docref(NULL, E_WARNING, "The cache failed: %s", larder_status_text(status));
        }
    } else if (!APCUG(has_warned)) {
        APCUG(has_warned) = true;
        php_error_docref(NULL, E_WARNING, "This process cannot change the cache: %s", why);
    }
}
