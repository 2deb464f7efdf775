// Walks through the names of a cache. If the cache cannot be used, the walk is empty.

#include "larder/larder_php.h"

void larder_walk_begin(larder_walker *walker, larder_object *object, zend_string *prefix)
{
    walker->object = object;
    apcu_walk_begin(&walker->walk, prefix);
}

void larder_walk_end(larder_walker *walker)
{
    apcu_walk_end(&walker->walk);
}

zend_string *larder_walk_next(larder_walker *walker)
{
    larder_region *region = walker->object->region;
    larder *cache = larder_cache_of(region);
    const larder_entry *entry;
    zend_string *name;
    if (cache == NULL) {
        return NULL;
    }
    larder_status status = apcu_walk_next(&walker->walk, cache, &entry, &name);
    larder_failed(region, status);
    return status == LARDER_OK ? name : NULL;
}
