// A client of a server: the calls of same_calls.c, leases, and the functions that a client does not
// support.
#include "check.h"

// The lease of a client excludes other clients, and readers of its key do not find it.
static void leases(larder *cache, const char *socket) {
    larder *other = NULL;
    larder_lease_token lease, another;
    CHECK(larder_connect(socket, 1000, &other, NULL, 0) == LARDER_OK);
    CHECK(larder_lease(cache, TEXT("k"), 60000, &lease) == LARDER_OK);
    CHECK(larder_lease(other, TEXT("k"), 60000, &another) == LARDER_BUSY);
    CHECK(larder_release(other, TEXT("k"), &another) == LARDER_MISSING);
    CHECK(larder_contains(other, TEXT("k")) == LARDER_MISSING);
    CHECK(larder_release(cache, TEXT("k"), &lease) == LARDER_OK);
    CHECK(larder_lease(other, TEXT("k"), 60000, &another) == LARDER_OK);
    CHECK(larder_release(cache, TEXT("k"), &lease) == LARDER_MISSING);
    CHECK(larder_release(other, TEXT("k"), &another) == LARDER_OK);
    CHECK(larder_lease(cache, TEXT("k"), 60000, NULL) == LARDER_INVALID);
    larder_close(other);
}

void connected(const char *socket) {
    larder *cache = NULL;
    char why[256], value[16];
    larder_item item;
    CHECK(larder_connect(socket, 1000, &cache, why, sizeof why) == LARDER_OK);
    same_calls(cache);
    CHECK(larder_set(cache, TEXT("c"), TEXT("value"), 60, 0) == LARDER_OK);
    CHECK(larder_get(cache, TEXT("c"), value, sizeof value, &item) == LARDER_OK);
    CHECK(item.marks & LARDER_LOCAL);
    CHECK(larder_get(cache, NULL, 0, NULL, 0, &item) == LARDER_KEY);

    leases(cache, socket);
    larder_load load = {{0}};
    CHECK(larder_begin_load(cache, TEXT("c"), 10, &load) == LARDER_UNSUPPORTED);
    CHECK(larder_end_load(cache, TEXT("c"), &load, TEXT("v"), 0, 0) == LARDER_UNSUPPORTED);
    CHECK(larder_cancel_load(cache, TEXT("c"), &load) == LARDER_UNSUPPORTED);
    larder_key_walk *walk = NULL;
    CHECK(larder_keys(cache, NULL, 0, &walk) == LARDER_UNSUPPORTED && walk == NULL);
    larder_removals *queue = NULL;
    CHECK(larder_subscribe(cache, 1, &queue) == LARDER_UNSUPPORTED && queue == NULL);
    larder_memory memory;
    uint64_t count = 0;
    size_t stats = 0;
    CHECK(larder_stats(cache, NULL, 0, &stats) == LARDER_UNSUPPORTED);
    CHECK(larder_length(cache, &count) == LARDER_UNSUPPORTED);
    CHECK(larder_memory_of(cache, &memory) == LARDER_UNSUPPORTED);
    CHECK(larder_set_memory(cache, 4 << 20) == LARDER_UNSUPPORTED);
    CHECK(larder_remove_prefix(cache, TEXT("c"), &count) == LARDER_UNSUPPORTED);
    CHECK(larder_clear(cache) == LARDER_UNSUPPORTED);
    CHECK(larder_maintain(cache) == LARDER_UNSUPPORTED);
    CHECK(larder_sync(cache) == LARDER_UNSUPPORTED);
    CHECK(larder_stop(cache, &count) == LARDER_UNSUPPORTED);
    CHECK(larder_tier_trouble(cache, why, sizeof why) == LARDER_UNSUPPORTED);
    CHECK(larder_contains(cache, TEXT("c")) == LARDER_OK);
    larder_close(cache);
}
