// Clears a cache like APCu, after which the number of items is 0. larder_clear only hides the
// items: the cache still counts them until it removes them.

#include "values.h"

// One call of larder_maintain removes the items of a few segments. The limit ends the loop even if
// other processes store items so fast that the number never becomes 0.
#define STEPS_MAX 1000

larder_status apcu_clear(larder *cache)
{
    larder_status status = larder_clear(cache);
    uint64_t items = 0;
    for (int step = 0; status == LARDER_OK && step < STEPS_MAX; ++step) {
        if (larder_length(cache, &items) != LARDER_OK || items == 0) {
            break;
        }
        larder_maintain(cache);
    }
    return status;
}
