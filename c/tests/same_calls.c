// The same calls for every kind of handle. behaviour.c runs them on a cache in the process and on a
// cache in a file, connected.c on a client of a server. The test fails if an outcome differs
// between them.
#include "check.h"

#include <string.h>

static char value[64];
static larder_item item;

// True if a key has this value for larder_get and larder_peek. Writes the attributes to `item`.
static int holds(const larder *cache, const char *key, const char *expected) {
    size_t key_bytes = strlen(key), bytes = strlen(expected);
    larder_item peeked;
    return larder_peek(cache, key, key_bytes, &peeked) == LARDER_OK &&
           larder_get(cache, key, key_bytes, value, sizeof value, &item) == LARDER_OK &&
           item.status == LARDER_OK && item.value_bytes == bytes && item.cas == peeked.cas &&
           peeked.value_bytes == bytes && memcmp(value, expected, bytes) == 0;
}

// True if an item expires in `secs` seconds, or a little less because time passes. A client sends
// more than 30 days as an absolute second, and the server's clock, which ticks once a second, may
// lag.
static int lives(uint32_t secs) {
    return item.ttl_secs <= secs + (secs > 30 * 86400) && item.ttl_secs + 5 >= secs;
}

static void reads(const larder *cache) {
    memset(&item, 0xff, sizeof item);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, &item) == LARDER_MISSING);
    CHECK(item.status == LARDER_MISSING && item.value_bytes == 0);
    CHECK(larder_peek(cache, TEXT("k"), &item) == LARDER_MISSING);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_MISSING);
    CHECK(larder_set(cache, TEXT("k"), TEXT("value"), 60, UINT32_MAX) == LARDER_OK);
    CHECK(holds(cache, "k", "value") && lives(60) && item.flags == UINT32_MAX);
    CHECK(larder_set(cache, TEXT("k"), TEXT("value"), 60, 0) == LARDER_OK);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_OK);
    CHECK(holds(cache, "k", "value") && lives(60) && item.flags == 0 && item.cas != 0);
    CHECK(larder_get(cache, TEXT("k"), value, sizeof value, NULL) == LARDER_OK);

    // The buffer is too short: it is unchanged, and the item contains the length.
    memset(value, '#', sizeof value);
    CHECK(larder_get(cache, TEXT("k"), value, 4, &item) == LARDER_TOO_SMALL);
    CHECK(item.value_bytes == 5 && value[0] == '#');

    // An empty value is a value.
    CHECK(larder_set(cache, TEXT("empty"), NULL, 0, 0, 0) == LARDER_OK);
    CHECK(larder_get(cache, TEXT("empty"), NULL, 0, &item) == LARDER_OK && item.value_bytes == 0);
    CHECK(lives(0));
}

static void stores(const larder *cache) {
    CHECK(larder_add(cache, TEXT("k"), TEXT("other"), 0, 0) == LARDER_EXISTS);
    CHECK(larder_add(cache, TEXT("added"), TEXT("a"), 100, 0) == LARDER_OK);
    CHECK(holds(cache, "added", "a") && lives(100));
    CHECK(larder_replace(cache, TEXT("none"), TEXT("other"), 0, 0) == LARDER_MISSING);
    CHECK(larder_replace(cache, TEXT("added"), TEXT("b"), 200, 0) == LARDER_OK);
    CHECK(holds(cache, "added", "b") && lives(200));
    CHECK(larder_append(cache, TEXT("none"), TEXT("x")) == LARDER_MISSING);
    CHECK(larder_prepend(cache, TEXT("none"), TEXT("x")) == LARDER_MISSING);
    CHECK(larder_append(cache, TEXT("added"), TEXT("c")) == LARDER_OK);
    CHECK(larder_prepend(cache, TEXT("added"), TEXT("a")) == LARDER_OK);
    CHECK(holds(cache, "added", "abc") && lives(200));

    uint64_t cas = 0, old = item.cas;
    CHECK(larder_compare_and_set(cache, TEXT("added"), TEXT("new"), 300, 0, old, &cas) ==
          LARDER_OK);
    CHECK(holds(cache, "added", "new") && lives(300) && item.cas == cas && cas != old);
    CHECK(larder_compare_and_set(cache, TEXT("added"), TEXT("x"), 0, 0, old, NULL) ==
          LARDER_CHANGED);
    CHECK(larder_compare_and_set(cache, TEXT("none"), TEXT("x"), 0, 0, 1, NULL) == LARDER_MISSING);
    CHECK(holds(cache, "added", "new"));
}

static void times(const larder *cache) {
    const uint32_t forty_days = 40 * 86400;
    CHECK(larder_set(cache, TEXT("t"), TEXT("v"), forty_days, 0) == LARDER_OK);
    CHECK(holds(cache, "t", "v") && lives(forty_days));
    CHECK(larder_touch(cache, TEXT("t"), 50) == LARDER_OK && holds(cache, "t", "v") && lives(50));
    CHECK(larder_touch(cache, TEXT("t"), 0) == LARDER_OK && holds(cache, "t", "v") && lives(0));
    CHECK(larder_touch(cache, TEXT("none"), 50) == LARDER_MISSING);
    CHECK(larder_get_and_touch(cache, TEXT("t"), 70, value, sizeof value, &item) == LARDER_OK);
    CHECK(item.value_bytes == 1 && value[0] == 'v' && item.ttl_secs == 70);
    CHECK(holds(cache, "t", "v") && lives(70));
    CHECK(larder_get_and_touch(cache, TEXT("t"), 90, NULL, 0, &item) == LARDER_TOO_SMALL);
    CHECK(holds(cache, "t", "v") && lives(90));
    CHECK(larder_get_and_touch(cache, TEXT("none"), 70, NULL, 0, NULL) == LARDER_MISSING);
}

static void counts(const larder *cache) {
    uint64_t number = 0;
    CHECK(larder_increment(cache, TEXT("n"), 1, &number) == LARDER_MISSING);
    CHECK(larder_decrement(cache, TEXT("n"), 1, &number) == LARDER_MISSING);
    CHECK(larder_set(cache, TEXT("n"), TEXT("10"), 60, 0) == LARDER_OK);
    CHECK(larder_increment(cache, TEXT("n"), 5, &number) == LARDER_OK && number == 15);
    CHECK(larder_decrement(cache, TEXT("n"), 3, &number) == LARDER_OK && number == 12);
    CHECK(holds(cache, "n", "12") && lives(60));
    CHECK(larder_decrement(cache, TEXT("n"), 100, &number) == LARDER_OK && number == 0);
    CHECK(larder_increment(cache, TEXT("n"), UINT64_MAX, NULL) == LARDER_OK);
    CHECK(larder_increment(cache, TEXT("n"), 2, &number) == LARDER_OK && number == 1);
    CHECK(larder_increment(cache, TEXT("k"), 1, &number) == LARDER_NOT_A_NUMBER);
    CHECK(larder_decrement(cache, TEXT("k"), 1, NULL) == LARDER_NOT_A_NUMBER);
}

static void several_keys(const larder *cache) {
    char keys[40 * 8], name[16], expected[16], values[256];
    uint32_t lengths[40];
    size_t filled = 0;
    for (int key = 0; key < 40; key++) {
        lengths[key] = (uint32_t)sprintf(name, "k%d", key);
        memcpy(keys + filled, name, lengths[key]);
        filled += lengths[key];
        int bytes = sprintf(expected, "v%d", key);
        if (key % 3 != 0) {
            CHECK(larder_set(cache, name, lengths[key], expected, (size_t)bytes, 60,
                             (uint32_t)key) == LARDER_OK);
        }
    }
    larder_item items[40];
    CHECK(larder_get_many(cache, keys, lengths, 40, values, sizeof values, items) == LARDER_OK);
    for (int key = 0; key < 40; key++) {
        int bytes = sprintf(expected, "v%d", key);
        CHECK(items[key].status == (key % 3 == 0 ? LARDER_MISSING : LARDER_OK));
        CHECK(key % 3 == 0 || (items[key].flags == (uint32_t)key && items[key].cas != 0));
        CHECK(key % 3 == 0 || (items[key].ttl_secs > 50 && items[key].ttl_secs <= 60));
        CHECK(key % 3 == 0 || (items[key].value_bytes == (uint64_t)bytes &&
                               memcmp(values + items[key].value_at, expected, (size_t)bytes) == 0));
    }
    // The buffer is too short for all values: it contains the values that fit.
    CHECK(larder_get_many(cache, keys, lengths, 40, values, 4, items) == LARDER_OK);
    CHECK(items[0].status == LARDER_MISSING && items[3].status == LARDER_MISSING);
    CHECK(items[1].status == LARDER_OK && items[1].value_at == 0);
    CHECK(items[2].status == LARDER_OK && items[2].value_at == 2);
    CHECK(items[4].status == LARDER_TOO_SMALL && items[4].value_bytes == 2);
    CHECK(memcmp(values, "v1v2", 4) == 0);
    CHECK(larder_get_many(cache, NULL, NULL, 0, NULL, 0, NULL) == LARDER_OK);
}

static void large_values(const larder *cache) {
    enum { BYTES = 700000 };
    char *stored = malloc(BYTES), *found = malloc(BYTES), *huge = calloc(1, 2 << 20);
    CHECK(stored != NULL && found != NULL && huge != NULL);
    for (int at = 0; at < BYTES; at++) stored[at] = (char)(at * 31 + at / 251);
    CHECK(larder_set(cache, TEXT("large"), stored, BYTES, 0, 0) == LARDER_OK);
    CHECK(larder_peek(cache, TEXT("large"), &item) == LARDER_OK && item.value_bytes == BYTES);
    CHECK(larder_get(cache, TEXT("large"), found, BYTES - 1, &item) == LARDER_TOO_SMALL);
    CHECK(larder_get(cache, TEXT("large"), found, BYTES, &item) == LARDER_OK);
    CHECK(memcmp(stored, found, BYTES) == 0);
    // A failed store removes the item that it should have replaced.
    CHECK(larder_set(cache, TEXT("large"), huge, 2 << 20, 0, 0) == LARDER_TOO_LARGE);
    CHECK(larder_contains(cache, TEXT("large")) == LARDER_MISSING);
    free(huge);
    free(stored);
    free(found);
}

static void wrong_arguments(const larder *cache) {
    char long_key[251];
    memset(long_key, 'k', sizeof long_key);
    CHECK(larder_set(cache, NULL, 0, TEXT("v"), 0, 0) == LARDER_KEY);
    CHECK(larder_set(cache, long_key, 251, TEXT("v"), 0, 0) == LARDER_KEY);
    CHECK(larder_set(cache, long_key, 250, TEXT("v"), 0, 0) == LARDER_OK);
    CHECK(larder_delete(cache, long_key, 250) == LARDER_OK);
    CHECK(larder_get(cache, NULL, 1, NULL, 0, &item) == LARDER_INVALID);
    CHECK(larder_get(cache, TEXT("k"), NULL, 1, &item) == LARDER_INVALID);
    CHECK(larder_set(cache, NULL, 1, TEXT("v"), 0, 0) == LARDER_INVALID);
    CHECK(larder_set(cache, TEXT("k"), NULL, 1, 0, 0) == LARDER_INVALID);
    CHECK(larder_set(cache, TEXT("k"), "v", SIZE_MAX, 0, 0) == LARDER_INVALID);
    CHECK(larder_begin_load(cache, TEXT("k"), 10, NULL) == LARDER_INVALID);
    CHECK(larder_keys(cache, NULL, 0, NULL) == LARDER_INVALID);
    CHECK(larder_subscribe(cache, 1, NULL) == LARDER_INVALID);
    uint32_t too_much[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    larder_item items[3];
    CHECK(larder_get_many(cache, NULL, too_much, 3, NULL, 0, items) == LARDER_INVALID);
    CHECK(larder_get_many(cache, "k", (uint32_t[]){1}, 1, NULL, 0, NULL) == LARDER_INVALID);
    CHECK(holds(cache, "k", "value"));
}

void same_calls(const larder *cache) {
    reads(cache);
    stores(cache);
    times(cache);
    counts(cache);
    several_keys(cache);
    large_values(cache);
    wrong_arguments(cache);
    CHECK(larder_delete(cache, TEXT("k")) == LARDER_OK);
    CHECK(larder_delete(cache, TEXT("k")) == LARDER_MISSING);
    CHECK(larder_contains(cache, TEXT("k")) == LARDER_MISSING);
}
