// Removes all items, so that no counter includes them.

#include "values.h"

// A step of larder_maintain removes the items of a few segments. The limit ends the loop if other
// processes store items continuously.
#define STEPS_MAX 1000

larder_status apcu_clear(larder *cache)
{
    larder_status status = larder_clear(cache);
    uint64_t items = 0;
    for (int step = 0; status == LARDER_OK && step < STEPS_MAX; ++step) {
        // The cache counts cleared items until it removes them.
        if (larder_length(cache, &items) != LARDER_OK || items == 0) {
            break;
        }
        larder_maintain(cache);
    }
    return status;
}
