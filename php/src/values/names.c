// Reads the names in an array in groups, and prefetches the items of each group.

#include "values.h"

void apcu_names_begin(apcu_names *names, HashTable *array)
{
    *names = (apcu_names){.array = array};
    zend_hash_internal_pointer_reset_ex(array, &names->position);
}

static void forget_group(apcu_names *names)
{
    size_t count = names->count;
    names->count = 0;
    for (size_t at = 0; at < count; ++at) {
        zval_ptr_dtor(&names->group[at]);
    }
}

// Passes the names as keys, although some may be stored under a hash. The items of these few names
// are not prefetched.
static void prefetch(const apcu_names *names, const larder *cache)
{
    larder_slice slices[APCU_NAMES_GROUP];
    size_t count = 0;
    for (size_t at = 0; at < names->count; ++at) {
        const zval *name = &names->group[at];
        if (Z_TYPE_P(name) == IS_STRING) {
            slices[count++] = (larder_slice){Z_STRVAL_P(name), Z_STRLEN_P(name)};
        }
    }
    if (count > 1) {
        larder_prefetch(cache, slices, count);
    }
}

size_t apcu_names_next(apcu_names *names, const larder *cache)
{
    zval *name;
    forget_group(names);
    while (names->count < APCU_NAMES_GROUP
           && (name = zend_hash_get_current_data_ex(names->array, &names->position)) != NULL) {
        ZVAL_COPY_DEREF(&names->group[names->count++], name);
        zend_hash_move_forward_ex(names->array, &names->position);
    }
    if (cache != NULL) {
        prefetch(names, cache);
    }
    return names->count;
}

void apcu_names_end(apcu_names *names)
{
    forget_group(names);
}
