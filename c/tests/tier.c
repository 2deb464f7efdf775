// A cache with a disk tier: both modes are closed and opened again, invalid options are refused,
// and a child of a fork cannot use the tier.
#include "check.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[300];

// Opens a cache with this tier. Returns null, with the reason in `why`, if the options are refused.
static larder *open_tier(const larder_tier *tier, uint32_t flags, const char *path, char *why, size_t why_bytes) {
    larder_options options = {.struct_bytes = sizeof options,
                              .memory_bytes = 2 << 20,
                              .flags = flags,
                              .path = path,
                              .tier = tier};
    larder *cache = NULL;
    larder_status status = larder_open(&options, &cache, why, why_bytes);
    CHECK(status == LARDER_OK || (status == LARDER_NOT_OPENED && cache == NULL && why[0] != 0));
    return cache;
}

static larder *opened(const larder_tier *tier) {
    char why[300] = "";
    larder *cache = open_tier(tier, 0, NULL, why, sizeof why);
    if (cache == NULL) fprintf(stderr, "%s\n", why);
    CHECK(cache != NULL);
    return cache;
}

static void refused(const larder_tier *tier, uint32_t flags, const char *path, const char *part) {
    char why[300] = "";
    CHECK(open_tier(tier, flags, path, why, sizeof why) == NULL);
    if (strstr(why, part) == NULL) fprintf(stderr, "%s\n", why);
    CHECK(strstr(why, part) != NULL);
}

static void refusals(const larder_tier *tier) {
    larder_tier wrong = *tier;
    wrong.struct_bytes = 8;
    refused(&wrong, 0, NULL, "larder_tier.struct_bytes is 8");
    wrong = *tier;
    wrong.path = NULL;
    refused(&wrong, 0, NULL, "larder_tier.path is missing");
    wrong = *tier;
    wrong.bytes = 0;
    refused(&wrong, 0, NULL, "too small");
    wrong = *tier;
    wrong.mode = 7;
    refused(&wrong, 0, NULL, "larder_tier.mode is 7");
    wrong = *tier;
    wrong.durability = 7;
    refused(&wrong, 0, NULL, "larder_tier.durability is 7");
    wrong = *tier;
    wrong.admission = 7;
    refused(&wrong, 0, NULL, "larder_tier.admission is 7");
    wrong = *tier;
    wrong.path = "/proc/version";
    refused(&wrong, 0, NULL, "/proc/version");
    char path[320];
    sprintf(path, "%s.shared", directory);
    refused(tier, 0, path, "memory of one process");
    refused(tier, LARDER_SHARED_WITH_CHILDREN, NULL, "memory of one process");
}

static uint64_t statistic(const larder *cache, const char *name) {
    static larder_stat stats[200];
    size_t count = 0;
    CHECK(larder_stats(cache, stats, 200, &count) == LARDER_OK);
    for (size_t at = 0; at < count; at++) {
        if (strcmp(stats[at].name, name) == 0) return stats[at].value;
    }
    fprintf(stderr, "no statistic %s\n", name);
    exit(1);
}

enum { COUNT = 2000, VALUE_BYTES = 4000 };

static void fill(larder *cache) {
    char key[16], value[VALUE_BYTES];
    for (int number = 0; number < COUNT; number++) {
        size_t bytes = (size_t)sprintf(key, "k%d", number);
        memset(value, number % 251, sizeof value);
        CHECK(larder_set(cache, key, bytes, value, sizeof value, 0, 0) == LARDER_OK);
    }
}

// Every value is found, by larder_get and by larder_get_many with 50 keys.
static void check(const larder *cache) {
    static char values[50 * VALUE_BYTES];
    for (int first = 0; first < COUNT; first += 50) {
        char keys[50 * 16];
        uint32_t lengths[50];
        size_t bytes = 0;
        larder_item items[50];
        for (int at = 0; at < 50; at++) {
            lengths[at] = (uint32_t)sprintf(keys + bytes, "k%d", first + at);
            bytes += lengths[at];
        }
        CHECK(larder_get_many(cache, keys, lengths, 50, values, sizeof values, items) == LARDER_OK);
        for (int at = 0; at < 50; at++) {
            CHECK(items[at].status == LARDER_OK && items[at].value_bytes == VALUE_BYTES);
            CHECK(values[items[at].value_at] == (char)((first + at) % 251));
        }
        larder_item item;
        CHECK(larder_get(cache, keys, lengths[0], values, sizeof values, &item) == LARDER_OK);
        CHECK(values[0] == (char)(first % 251));
    }
}

static void count_progress(void *context, size_t done, size_t total) {
    CHECK(done <= total);
    ++*(size_t *)context;
}

static void stores(const larder_tier *tier) {
    larder *cache = opened(tier);
    fill(cache);
    CHECK(larder_sync(cache) == LARDER_OK && statistic(cache, "tier_dirty_bytes") == 0);
    check(cache);
    CHECK(statistic(cache, "tier_items") == COUNT && statistic(cache, "tier_reads") > 0);
    char why[100] = "?";
    CHECK(larder_tier_trouble(cache, why, sizeof why) == LARDER_OK && why[0] == 0);
    uint64_t removed = 0, left = 1;
    CHECK(larder_remove_prefix(cache, TEXT("none"), &removed) == LARDER_OK && removed == 0);
    CHECK(larder_set(cache, TEXT("k1"), TEXT("last"), 0, 0) == LARDER_OK);
    larder_key_walk *walk = NULL;
    CHECK(larder_keys(cache, TEXT("k"), &walk) == LARDER_OK);
    CHECK(larder_stop(cache, &left) == LARDER_OK && left == 0);
    CHECK(larder_set(cache, TEXT("k1"), TEXT("lost"), 0, 0) == LARDER_DISK_FAILED);
    CHECK(larder_clear(cache) == LARDER_DISK_FAILED);
    larder_close(cache);

    size_t calls = 0;
    larder_tier again = *tier;
    again.progress = count_progress;
    again.progress_context = &calls;
    cache = opened(&again);
    larder_keys_close(walk);
    char value[16];
    larder_item item;
    CHECK(calls > 0 && larder_get(cache, TEXT("k1"), value, sizeof value, &item) == LARDER_OK);
    CHECK(item.value_bytes == 4 && memcmp(value, "last", 4) == 0);
    refused(tier, 0, NULL, "another process uses this directory");
    CHECK(larder_clear(cache) == LARDER_OK && larder_contains(cache, TEXT("k1")) == LARDER_MISSING);
    larder_close(cache);
}

static void caches(const larder_tier *tier) {
    larder *cache = opened(tier);
    fill(cache);
    check(cache);
    CHECK(statistic(cache, "tier_items_evicted") > 0);
    larder_key_walk *walk = NULL;
    CHECK(larder_keys(cache, NULL, 0, &walk) == LARDER_OK);
    larder_close(cache);
    // The walk keeps the cache, but not the directory, in use.
    cache = opened(tier);
    larder_keys_close(walk);
    check(cache);
    larder_close(cache);
}

// Nothing is read before it is evicted, so nothing is admitted.
static void admission(const larder_tier *tier) {
    larder *cache = opened(tier);
    fill(cache);
    CHECK(statistic(cache, "tier_items_evicted") == 0);
    larder_close(cache);
}

// With LARDER_DURABILITY_SYNC a change is durable when the call returns.
static void syncs(const larder_tier *tier) {
    larder *cache = opened(tier);
    for (int times = 0; times < 20; times++) {
        uint64_t before = statistic(cache, "tier_syncs");
        CHECK(larder_set(cache, TEXT("k"), TEXT("v"), 0, 0) == LARDER_OK);
        CHECK(statistic(cache, "tier_syncs") > before);
    }
    larder_close(cache);
}

static void children(const larder_tier *tier) {
    larder *cache = opened(tier);
    CHECK(larder_set(cache, TEXT("k"), TEXT("v"), 0, 0) == LARDER_OK);
    pid_t child = fork();
    CHECK(child != -1);
    if (child == 0) {
        char value[16];
        larder_item item;
        CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_FORKED);
        CHECK(larder_contains(cache, TEXT("k")) == LARDER_FORKED);
        CHECK(larder_set(cache, TEXT("k"), TEXT("w"), 0, 0) == LARDER_FORKED);
        CHECK(larder_delete(cache, TEXT("absent")) == LARDER_FORKED);
        CHECK(larder_clear(cache) == LARDER_FORKED && larder_sync(cache) == LARDER_FORKED);
        larder_close(cache);
        _exit(0);
    }
    int status = 1;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    CHECK(status == 0 && larder_contains(cache, TEXT("k")) == LARDER_OK);
    CHECK(larder_set(cache, TEXT("k"), TEXT("w"), 0, 0) == LARDER_OK);
    larder_close(cache);
    cache = opened(tier);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_OK);
    larder_close(cache);
}

void tiers(const char *folder) {
    snprintf(directory, sizeof directory, "%s/tier-store", folder);
    // In this test LARDER_MODE_CACHE drops no items: the log has enough extents and memory for
    // everything that is evicted.
    larder_tier tier = {.struct_bytes = sizeof tier,
                        .path = directory,
                        .bytes = 1 << 28,
                        .dirty_bytes = 64 << 20,
                        .durability = LARDER_DURABILITY_ASYNC};
    refusals(&tier);
    stores(&tier);
    children(&tier);
    tier.durability = LARDER_DURABILITY_SYNC;
    children(&tier);
    syncs(&tier);
    snprintf(directory, sizeof directory, "%s/tier-cache", folder);
    tier.mode = LARDER_MODE_CACHE;
    tier.admission = LARDER_ADMIT_ALL;
    caches(&tier);
    children(&tier);
    snprintf(directory, sizeof directory, "%s/tier-reused", folder);
    tier.admission = LARDER_ADMIT_REUSED;
    admission(&tier);
}
