// Removes all items, so that nothing counts them any longer.

#include "values.h"

// A step of larder_maintain finds the items of a few segments. The limit ends the loop if other
// processes store items all the time.
#define STEPS_MAX 1000

larder_status apcu_clear(larder *cache)
{
    larder_status status = larder_clear(cache);
    uint64_t items = 0;
    for (int step = 0; status == LARDER_OK && step < STEPS_MAX; ++step) {
        // The cache counts cleared items until it finds them.
        if (larder_length(cache, &items) != LARDER_OK || items == 0) {
            break;
        }
        larder_maintain(cache);
    }
    return status;
}
