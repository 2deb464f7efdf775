// Checks signed counters, walks with metadata, leases, and the time of a handle.
#include "check.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static larder *open_cache(uint32_t flags) {
    larder_options options = {
        .struct_bytes = sizeof options, .memory_bytes = 8 << 20, .flags = flags};
    larder *cache = NULL;
    CHECK(larder_open(&options, &cache, NULL, 0) == LARDER_OK);
    return cache;
}

static void counters(void) {
    larder *cache = open_cache(0);
    larder_item item;
    char value[32];
    int64_t number = 0;
    CHECK(larder_cas_i64(cache, TEXT("n"), 0, 1) == LARDER_MISSING);
    CHECK(larder_add_i64(cache, TEXT("n"), -5, 100, &number) == LARDER_OK && number == -5);
    CHECK(larder_add_i64(cache, TEXT("n"), 12, 0, &number) == LARDER_OK && number == 7);
    CHECK(larder_get(cache, TEXT("n"), value, sizeof value, &item) == LARDER_OK);
    CHECK(item.value_bytes == 1 && value[0] == '7' && item.ttl_secs > 90);
    CHECK((item.flags & LARDER_TAG_MASK) == LARDER_TAG_LONG);
    CHECK(larder_cas_i64(cache, TEXT("n"), 6, 1) == LARDER_CHANGED);
    CHECK(larder_cas_i64(cache, TEXT("n"), 7, INT64_MAX) == LARDER_OK);
    CHECK(larder_add_i64(cache, TEXT("n"), 1, 0, &number) == LARDER_OK && number == INT64_MIN);
    CHECK(larder_set(cache, TEXT("n"), TEXT("7"), 0, LARDER_TAG_STRING) == LARDER_OK);
    CHECK(larder_add_i64(cache, TEXT("n"), 1, 0, NULL) == LARDER_NOT_A_NUMBER);
    CHECK(larder_cas_i64(cache, TEXT("n"), 7, 8) == LARDER_NOT_A_NUMBER);
    CHECK(larder_add_i64(cache, NULL, 0, 1, 0, NULL) == LARDER_KEY);
    larder_close(cache);
}

static void walks(void) {
    larder *cache = open_cache(0);
    char name[16];
    for (int number = 0; number < 3000; number++) {
        int bytes = sprintf(name, "%c%d", number % 3 ? 'a' : 'b', number);
        uint32_t ttl = number % 2 ? 50 : 0;
        CHECK(larder_set(cache, name, (size_t)bytes, TEXT("value"), ttl, 7) == LARDER_OK);
    }
    time_t now = time(NULL);
    static larder_entry entries[64];
    static char bytes[16 << 10], seen[3000];
    larder_cursor cursor = {{0}};
    size_t count = 1;
    CHECK(larder_walk(cache, &cursor, TEXT("a"), entries, 0, bytes, sizeof bytes, &count) ==
          LARDER_TOO_SMALL);
    CHECK(cursor.words[0] == 0 && count == 0);
    larder_status status;
    int found = 0;
    while ((status = larder_walk(cache, &cursor, TEXT("a"), entries, 64, bytes, sizeof bytes,
                                 &count)) == LARDER_OK) {
        for (size_t at = 0; at < count; at++) {
            larder_entry *entry = &entries[at];
            memcpy(name, bytes + entry->key_at, entry->key_bytes);
            name[entry->key_bytes] = 0;
            int number = atoi(name + 1);
            CHECK(name[0] == 'a' && number % 3 != 0);
            found += !seen[number]++;
            CHECK(entry->value_bytes == 5 && entry->flags == 7 && entry->reads == 0);
            CHECK(entry->memory_bytes >= 16 && entry->memory_bytes <= 40 && entry->marks == 0);
            CHECK(entry->stored_at >= now - 4 && entry->stored_at <= now + 1);
            CHECK(entry->used_at == entry->stored_at);
            CHECK(number % 2 ? entry->expires_at >= now + 46 && entry->expires_at <= now + 51
                             : entry->expires_at == 0);
        }
    }
    CHECK(status == LARDER_END && count == 0 && found == 2000);

    larder_entry entry;
    CHECK(larder_contains(cache, TEXT("b0")) == LARDER_OK);
    CHECK(larder_get(cache, TEXT("b0"), name, sizeof name, NULL) == LARDER_OK);
    CHECK(larder_describe(cache, TEXT("b0"), &entry) == LARDER_OK && entry.key_bytes == 2);
    CHECK(entry.reads >= 1 && (entry.marks & LARDER_FETCHED) && (entry.marks & LARDER_STORED_ABOUT));
    CHECK(larder_describe(cache, TEXT("none"), &entry) == LARDER_MISSING);

    larder_slice keys[] = {{"b0", 2}, {NULL, 0}, {"none", 4}};
    CHECK(larder_prefetch(cache, keys, 3) == LARDER_OK);
    CHECK(larder_prefetch(cache, NULL, 0) == LARDER_OK);
    larder_prefetch_group(cache, TEXT("b0"));
    larder_prefetch_group(cache, NULL, 4);
    larder_prefetch_group(NULL, TEXT("b0"));
    larder_stat stats[128];
    CHECK(larder_reset_stats(cache) == LARDER_OK);
    CHECK(larder_stats(cache, stats, 128, &count) == LARDER_OK);
    for (size_t at = 0; at < count; at++) {
        if (strcmp(stats[at].name, "get_hits") == 0) CHECK(stats[at].value == 0);
        if (strcmp(stats[at].name, "curr_items") == 0) CHECK(stats[at].value == 3000);
    }
    larder_close(cache);
}

static void leases(void) {
    larder *cache = open_cache(LARDER_SHARED_WITH_CHILDREN);
    larder_lease_token lease, other;
    CHECK(larder_lease(cache, TEXT("k"), 60000, &lease) == LARDER_OK);
    CHECK(larder_lease(cache, TEXT("k"), 60000, &other) == LARDER_BUSY);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_MISSING);
    CHECK(larder_add(cache, TEXT("k"), TEXT("v"), 0, 0) == LARDER_OK);
    CHECK(larder_release(cache, TEXT("k"), &other) == LARDER_MISSING);
    CHECK(larder_release(cache, TEXT("k"), &lease) == LARDER_OK);
    CHECK(larder_release(cache, TEXT("k"), &lease) == LARDER_MISSING);
    CHECK(larder_lease(cache, TEXT("k"), 60000, NULL) == LARDER_INVALID);
    pid_t child = fork();
    CHECK(child != -1);
    if (child == 0) _exit(larder_lease(cache, TEXT("k"), 60000, &lease) != LARDER_OK);
    int status = 1;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    CHECK(status == 0);
    // The process that held the lease is dead.
    CHECK(larder_lease(cache, TEXT("k"), 60000, &lease) == LARDER_OK);
    larder_close(cache);
}

static void times(void) {
    larder *cache = open_cache(LARDER_HANDLE_TIME), *systems = open_cache(0), *request = NULL;
    time_t now = time(NULL);
    CHECK(larder_share(cache, &request) == LARDER_OK);
    CHECK(larder_share(cache, NULL) == LARDER_INVALID);
    CHECK(larder_set(cache, TEXT("k"), TEXT("v"), 60, 0) == LARDER_OK);
    CHECK(larder_set(systems, TEXT("k"), TEXT("v"), 60, 0) == LARDER_OK);
    larder_set_now(request, now + 30);
    larder_set_now(systems, now + 63);
    larder_set_now(NULL, now);
    larder_item item;
    CHECK(larder_peek(request, TEXT("k"), &item) == LARDER_OK);
    CHECK(item.ttl_secs >= 27 && item.ttl_secs <= 31);
    CHECK(larder_peek(cache, TEXT("k"), &item) == LARDER_OK && item.ttl_secs >= 57);
    CHECK(larder_contains(systems, TEXT("k")) == LARDER_OK);
    larder_set_now(request, now + 63);
    CHECK(larder_contains(request, TEXT("k")) == LARDER_MISSING);
    CHECK(larder_set(request, TEXT("k"), TEXT("v"), 60, 0) == LARDER_OK);
    larder_close(request);
    CHECK(larder_peek(cache, TEXT("k"), &item) == LARDER_OK && item.ttl_secs >= 117);
    larder_close(cache);
    larder_close(systems);
}

void reports(void) {
    counters();
    walks();
    leases();
    times();
}
