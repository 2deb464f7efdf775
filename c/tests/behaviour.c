// Checks the contracts of larder.h from C. Exits with 0, or names the first check that fails.
//
//     behaviour FOLDER [SOCKET]
//
// FOLDER is empty. SOCKET is the socket of a larderd without items that was started with
// --local-readers.
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];

static larder *open_cache(uint32_t flags, const char *path) {
    larder_options options = {
        .struct_bytes = sizeof options, .memory_bytes = 8 << 20, .flags = flags, .path = path};
    char why[256];
    larder *cache = NULL;
    if (larder_open(&options, &cache, why, sizeof why) != LARDER_OK) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    return cache;
}

// Flags of changed items, and operations on many items, which only a cache in memory supports.
static void flags_and_removals(void) {
    larder *cache = open_cache(LARDER_CAS, NULL);
    larder_item item;
    char value[64];
    CHECK(larder_set(cache, TEXT("k"), TEXT("value"), 60, 7) == LARDER_OK);
    CHECK(larder_append(cache, TEXT("k"), TEXT(" and more")) == LARDER_OK);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_OK);
    CHECK(item.value_bytes == 14 && memcmp(value, "value and more", 14) == 0 && item.flags == 7);
    CHECK(larder_compare_and_set(cache, TEXT("k"), TEXT("v"), 0, 9, item.cas, NULL) == LARDER_OK);
    CHECK(larder_peek(cache, TEXT("k"), &item) == LARDER_OK && item.flags == 9);

    CHECK(larder_set(cache, TEXT("empty"), NULL, 0, 0, 0) == LARDER_OK);
    CHECK(larder_set(cache, TEXT("n"), TEXT("10"), 0, 0) == LARDER_OK);
    CHECK(larder_delete(cache, TEXT("k")) == LARDER_OK);
    uint64_t items = 0, removed = 0;
    CHECK(larder_length(cache, &items) == LARDER_OK && items == 2);
    CHECK(larder_remove_prefix(cache, TEXT("em"), &removed) == LARDER_OK && removed == 1);
    CHECK(larder_clear(cache) == LARDER_OK && larder_contains(cache, TEXT("n")) == LARDER_MISSING);
    larder_close(cache);
}

static void walks(void) {
    larder *cache = open_cache(0, NULL);
    char name[16];
    for (int number = 0; number < 40; number++) {
        int bytes = sprintf(name, "k%d", number);
        if (number % 3 != 0) {
            CHECK(larder_set(cache, name, (size_t)bytes, TEXT("v"), 0, 0) == LARDER_OK);
        }
    }
    larder_key_walk *walk = NULL;
    size_t key_bytes = 0;
    int seen = 0;
    char key[LARDER_KEY_BYTES_MAX];
    CHECK(larder_keys(cache, TEXT("k1"), &walk) == LARDER_OK);
    while (larder_keys_next(walk, key, &key_bytes) == LARDER_OK) {
        CHECK(key_bytes >= 2 && memcmp(key, "k1", 2) == 0);
        seen++;
    }
    // k1, k10, k11, k13, k14, k16, k17, k19.
    CHECK(seen == 8 && larder_keys_next(walk, key, &key_bytes) == LARDER_END);
    // A walk may outlive the cache's handle.
    larder_close(cache);
    CHECK(larder_keys_next(walk, key, &key_bytes) == LARDER_END);
    larder_keys_close(walk);
}

static void removals(void) {
    larder *cache = open_cache(0, NULL);
    larder_removals *queue = NULL;
    char key[LARDER_KEY_BYTES_MAX], value[16];
    size_t key_bytes = 0;
    uint64_t value_bytes = 0, lost = 0;
    uint32_t reason = 0;
    CHECK(larder_subscribe(cache, 2, &queue) == LARDER_OK);
    CHECK(larder_set(cache, TEXT("k"), TEXT("first"), 0, 0) == LARDER_OK);
    CHECK(larder_set(cache, TEXT("k"), TEXT("second"), 0, 0) == LARDER_OK);
    CHECK(larder_delete(cache, TEXT("k")) == LARDER_OK);
    // The buffer is too short: the next call returns the same item.
    CHECK(larder_removals_next(queue, 0, key, &key_bytes, value, 2, &value_bytes, &reason) ==
          LARDER_TOO_SMALL);
    CHECK(larder_removals_next(queue, 0, key, &key_bytes, value, sizeof value, &value_bytes,
                               &reason) == LARDER_OK);
    CHECK(reason == LARDER_REPLACED && value_bytes == 5 && memcmp(value, "first", 5) == 0);
    CHECK(larder_removals_next(queue, 0, key, &key_bytes, value, sizeof value, &value_bytes,
                               &reason) == LARDER_OK);
    CHECK(reason == LARDER_DELETED && key_bytes == 1 && key[0] == 'k');
    CHECK(larder_removals_next(queue, 1, key, &key_bytes, value, sizeof value, &value_bytes,
                               &reason) == LARDER_END);
    CHECK(larder_removals_lost(queue, &lost) == LARDER_OK && lost == 0);
    larder_removals_close(queue);
    larder_close(cache);
}

// A load stores its value unless the item was changed since the load began.
static void loads(uint32_t flags) {
    larder *cache = open_cache(flags, NULL);
    larder_load load;
    larder_item item;
    char value[16];

    // Readers of a reserved key report a miss and do not wait.
    CHECK(larder_begin_load(cache, TEXT("k"), 10, &load) == LARDER_OK);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_MISSING);
    CHECK(larder_end_load(cache, TEXT("k"), &load, TEXT("loaded"), 60, 7) == LARDER_OK);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_OK);
    CHECK(item.value_bytes == 6 && memcmp(value, "loaded", 6) == 0);
    CHECK(item.flags == 7 && item.ttl_secs >= 59);

    // A load ends once.
    CHECK(larder_end_load(cache, TEXT("k"), &load, TEXT("again"), 0, 0) == LARDER_CHANGED);

    // A newer value and a delete take precedence over the load.
    CHECK(larder_begin_load(cache, TEXT("k"), 10, &load) == LARDER_OK);
    CHECK(larder_set(cache, TEXT("k"), TEXT("newer"), 0, 0) == LARDER_OK);
    CHECK(larder_end_load(cache, TEXT("k"), &load, TEXT("older"), 0, 0) == LARDER_CHANGED);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_OK);
    CHECK(item.value_bytes == 5 && memcmp(value, "newer", 5) == 0);
    CHECK(larder_begin_load(cache, TEXT("k"), 10, &load) == LARDER_OK);
    CHECK(larder_delete(cache, TEXT("k")) == LARDER_OK);
    CHECK(larder_end_load(cache, TEXT("k"), &load, TEXT("older"), 0, 0) == LARDER_CHANGED);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_MISSING);

    // A cancelled load leaves no item, and its end stores nothing.
    CHECK(larder_begin_load(cache, TEXT("k"), 10, &load) == LARDER_OK);
    CHECK(larder_cancel_load(cache, TEXT("k"), &load) == LARDER_OK);
    CHECK(larder_end_load(cache, TEXT("k"), &load, TEXT("late"), 0, 0) == LARDER_CHANGED);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_MISSING);

    CHECK(larder_begin_load(cache, TEXT("k"), 10, NULL) == LARDER_INVALID);
    CHECK(larder_begin_load(cache, NULL, 0, 10, &load) == LARDER_KEY);
    CHECK(larder_end_load(cache, TEXT("k"), NULL, TEXT("v"), 0, 0) == LARDER_INVALID);
    CHECK(larder_end_load(cache, TEXT("k"), &load, NULL, 1, 0, 0) == LARDER_INVALID);
    CHECK(larder_cancel_load(cache, TEXT("k"), NULL) == LARDER_INVALID);

    // Arbitrary words count as a load that has ended.
    memset(&load, 0xff, sizeof load);
    CHECK(larder_end_load(cache, TEXT("k"), &load, TEXT("v"), 0, 0) == LARDER_CHANGED);
    CHECK(larder_cancel_load(cache, TEXT("k"), &load) == LARDER_OK);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_MISSING);
    larder_close(cache);
}

static void wrong_arguments(void) {
    char why[256] = "", text[4];
    larder *cache = NULL;
    larder_options options = {.struct_bytes = 3};
    CHECK(larder_open(&options, &cache, why, sizeof why) == LARDER_NOT_OPENED);
    CHECK(cache == NULL && strstr(why, "struct_bytes is 3") != NULL);
    options.struct_bytes = sizeof options;
    options.flags = 1u << 31;
    CHECK(larder_open(&options, &cache, why, sizeof why) == LARDER_NOT_OPENED);
    CHECK(strstr(why, "0x80000000") != NULL);
    options.flags = 0;
    options.memory_bytes = 1;
    CHECK(larder_open(&options, &cache, text, sizeof text) == LARDER_NOT_OPENED);
    CHECK(strlen(text) == 3);
    options.memory_bytes = 0;
    options.path = "/nowhere/at/all";
    CHECK(larder_open(&options, &cache, why, sizeof why) == LARDER_NOT_OPENED);
    CHECK(strstr(why, "/nowhere/at/all") != NULL);
    CHECK(larder_open(NULL, NULL, why, sizeof why) == LARDER_INVALID);
    CHECK(larder_connect("/nowhere/at/all", 0, &cache, why, sizeof why) == LARDER_UNREACHABLE);
    CHECK(larder_connect(NULL, 0, &cache, why, sizeof why) == LARDER_INVALID);
    CHECK(larder_open(NULL, &cache, NULL, 0) == LARDER_OK);

    larder_item item;
    CHECK(larder_get(NULL, TEXT("k"), NULL, 0, &item) == LARDER_INVALID);
    CHECK(larder_get(cache, NULL, 0, NULL, 0, &item) == LARDER_MISSING);
    CHECK(larder_compare_and_set(cache, TEXT("k"), TEXT("v"), 0, 0, 1, NULL) == LARDER_NO_TOKENS);
    CHECK(larder_set_memory(cache, 1) == LARDER_INVALID);
    larder_close(cache);
    larder_close(NULL);
    larder_keys_close(NULL);
    larder_removals_close(NULL);
    CHECK(strstr(larder_status_text(LARDER_KEY), "1 to 250 bytes") != NULL);
    CHECK(strcmp(larder_status_text(4711), "no such status") == 0);
}

static void statistics(void) {
    larder *cache = open_cache(0, NULL);
    char value[8];
    CHECK(larder_set(cache, TEXT("k"), TEXT("v"), 0, 0) == LARDER_OK);
    // The statistics do not count a get whose value does not fit.
    CHECK(larder_get(cache, TEXT("k"), NULL, 0, NULL) == LARDER_TOO_SMALL);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, NULL) == LARDER_OK);
    larder_stat stats[200];
    size_t count = 0;
    CHECK(larder_stats(cache, NULL, 0, &count) == LARDER_TOO_SMALL && count > 10 && count <= 200);
    CHECK(larder_stats(cache, stats, 200, &count) == LARDER_OK);
    int found = 0;
    for (size_t at = 0; at < count; at++) {
        CHECK(strlen(stats[at].name) > 0 && strlen(stats[at].meaning) > 0);
        if (strcmp(stats[at].name, "get_hits") == 0) found += stats[at].value == 1;
        if (strcmp(stats[at].name, "curr_items") == 0) found += stats[at].value == 1;
    }
    CHECK(found == 2);
    larder_memory memory;
    CHECK(larder_memory_of(cache, &memory) == LARDER_OK);
    CHECK(memory.limit == 8 << 20 && memory.used < memory.limit && memory.items > 0);
    CHECK(larder_maintain(cache) == LARDER_OK && larder_set_memory(cache, 4 << 20) == LARDER_OK);
    larder_close(cache);
}

static void *store_many(void *argument) {
    larder *cache = argument;
    char key[32], value[32], found[32];
    for (int round = 0; round < 20000; round++) {
        int bytes = sprintf(key, "%d", round % 500);
        CHECK(larder_set(cache, key, (size_t)bytes, key, (size_t)bytes, 0, 0) == LARDER_OK);
        larder_item item;
        larder_status status = larder_get(cache, key, (size_t)bytes, found, sizeof found, &item);
        CHECK(status == LARDER_OK || status == LARDER_MISSING);
        if (status == LARDER_OK) {
            sprintf(value, "%.*s", (int)item.value_bytes, found);
            CHECK(strcmp(key, value) == 0);
        }
    }
    return NULL;
}

static void threads(void) {
    larder *cache = open_cache(LARDER_MAINTAINER, NULL);
    pthread_t thread[4];
    for (int at = 0; at < 4; at++) {
        CHECK(pthread_create(&thread[at], NULL, store_many, cache) == 0);
    }
    for (int at = 0; at < 4; at++) CHECK(pthread_join(thread[at], NULL) == 0);
    larder_close(cache);
}

static void children(void) {
    larder *cache = open_cache(LARDER_SHARED_WITH_CHILDREN, NULL);
    CHECK(larder_set(cache, TEXT("of the parent"), TEXT("1"), 0, 0) == LARDER_OK);
    pid_t child = fork();
    CHECK(child != -1);
    if (child == 0) {
        CHECK(larder_contains(cache, TEXT("of the parent")) == LARDER_OK);
        CHECK(larder_set(cache, TEXT("of the child"), TEXT("2"), 0, 0) == LARDER_OK);
        _exit(0);
    }
    int status = 1;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    CHECK(status == 0 && larder_contains(cache, TEXT("of the child")) == LARDER_OK);
    larder_close(cache);
}

// If processes_max processes use the cache, a child cannot join it: larder_usable returns the
// reason.
static void too_many_processes(void) {
    char why[256] = "unchanged", value[8];
    larder_options options = {.struct_bytes = sizeof options,
                              .memory_bytes = 8 << 20,
                              .flags = LARDER_SHARED_WITH_CHILDREN | LARDER_NO_SUBSTITUTE,
                              .processes_max = 1};
    larder *cache = NULL;
    CHECK(larder_open(&options, &cache, why, sizeof why) == LARDER_OK);
    CHECK(larder_usable(cache, why, sizeof why) == LARDER_OK && why[0] == 0);
    CHECK(larder_set(cache, TEXT("k"), TEXT("v"), 0, 0) == LARDER_OK);
    pid_t child = fork();
    CHECK(child != -1);
    if (child == 0) {
        CHECK(larder_usable(cache, why, sizeof why) == LARDER_NOT_OPENED);
        CHECK(strstr(why, "1 processes use the cache") != NULL);
        CHECK(larder_usable(cache, NULL, 0) == LARDER_NOT_OPENED);
        larder_item item;
        uint64_t number;
        larder_key_walk *walk = NULL;
        larder_load load;
        CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_OK);
        CHECK(item.value_bytes == 1 && value[0] == 'v');
        CHECK(larder_get(cache, TEXT("none"), value, sizeof value, &item) == LARDER_MISSING);
        CHECK(larder_set(cache, TEXT("k"), TEXT("w"), 0, 0) == LARDER_NOT_OPENED);
        CHECK(larder_delete(cache, TEXT("k")) == LARDER_NOT_OPENED);
        CHECK(larder_increment(cache, TEXT("k"), 1, &number) == LARDER_NOT_OPENED);
        CHECK(larder_contains(cache, TEXT("k")) == LARDER_OK);
        CHECK(larder_length(cache, &number) == LARDER_NOT_OPENED);
        CHECK(larder_clear(cache) == LARDER_NOT_OPENED);
        CHECK(larder_keys(cache, NULL, 0, &walk) == LARDER_NOT_OPENED);
        CHECK(larder_begin_load(cache, TEXT("k"), 1, &load) == LARDER_NOT_OPENED);
        _exit(0);
    }
    int status = 1;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    CHECK(status == 0 && larder_contains(cache, TEXT("k")) == LARDER_OK);
    larder_close(cache);
    options.processes_max = 4097;
    CHECK(larder_open(&options, &cache, why, sizeof why) == LARDER_NOT_OPENED);
    CHECK(strstr(why, "at most 4096 processes") != NULL);
}

static void files(void) {
    char path[300];
    sprintf(path, "%s/scene", folder);
    larder *scene = open_cache(LARDER_CAS, path);
    same_calls(scene);
    larder_close(scene);
    sprintf(path, "%s/cache", folder);
    larder *one = open_cache(0, path), *other = open_cache(0, path);
    CHECK(larder_set(one, TEXT("k"), TEXT("v"), 0, 0) == LARDER_OK);
    CHECK(larder_contains(other, TEXT("k")) == LARDER_OK);
    larder_close(one);
    larder_close(other);
    other = open_cache(0, path);
    CHECK(larder_contains(other, TEXT("k")) == LARDER_OK);
    larder_options options = {.struct_bytes = sizeof options,
                              .memory_bytes = 8 << 20,
                              .flags = LARDER_ALONE,
                              .path = path};
    char why[256] = "";
    larder *alone = NULL;
    CHECK(larder_open(&options, &alone, why, sizeof why) == LARDER_NOT_OPENED);
    CHECK(alone == NULL && strstr(why, "in use by process") != NULL);
    larder_close(other);
}

int main(int count, char **arguments) {
    CHECK(count >= 2);
    snprintf(folder, sizeof folder, "%s", arguments[1]);
    CHECK(larder_abi_version() == LARDER_ABI_VERSION && strlen(larder_version()) > 0);
    larder *cache = open_cache(LARDER_CAS, NULL);
    same_calls(cache);
    larder_close(cache);
    flags_and_removals();
    walks();
    removals();
    loads(0);
    loads(LARDER_CAS);
    wrong_arguments();
    statistics();
    threads();
    children();
    too_many_processes();
    files();
    reports();
    tiers(folder);
    if (count > 2) connected(arguments[2]);
    puts("all is so");
    return 0;
}
