// Reads in the memory of a larderd with a disk tier while writers recycle that memory. Exits with
// 0, or names the first check that fails.
//
//     beside_disk FOLDER SOCKET
//
// SOCKET is the socket of a larderd without items that was started with --local-readers,
// --tier-path and 4 MiB of memory. FOLDER is not used. If its name ends with "cache", items may be
// missing: in cache mode items are lost if the disk cannot keep up.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

// 18 MB together, more than four times the memory.
enum { KEYS = 4000, VALUE_BYTES_MAX = 6600 };

static const char *server;
// The last change of a key that has begun, and the last change that has ended.
static atomic_int begun[KEYS], ended[KEYS];
static atomic_int is_over, missing, local, by_server;

static larder *connect_to_server(void) {
    larder *cache = NULL;
    char why[256];
    CHECK(larder_connect(server, 5000, &cache, why, sizeof why) == LARDER_OK);
    return cache;
}

// Change 2 of each fifth key is a delete.
static int is_delete(int key, int change) { return change == 2 && key % 5 == 0; }

static size_t value_of(int key, int change, char *value) {
    char part[32];
    size_t bytes = 0;
    for (int times = 0; times < 150 + key % 260; times++) {
        int length = snprintf(part, sizeof part, "%07d %07d ", key, change);
        memcpy(value + bytes, part, (size_t)length);
        bytes += (size_t)length;
    }
    return bytes;
}

static void change_key(larder *cache, int key) {
    char name[16], value[VALUE_BYTES_MAX];
    size_t name_bytes = (size_t)sprintf(name, "%d", key);
    int change = atomic_fetch_add(&begun[key], 1) + 1;
    if (is_delete(key, change)) {
        CHECK(larder_delete(cache, name, name_bytes) <= LARDER_MISSING);
    } else {
        size_t bytes = value_of(key, change, value);
        CHECK(larder_set(cache, name, name_bytes, value, bytes, 0, 0) == LARDER_OK);
    }
    atomic_store(&ended[key], change);
}

static void *write_half(void *half) {
    larder *cache = connect_to_server();
    for (int key = *(int *)half; key < KEYS; key += 2) change_key(cache, key);
    larder_close(cache);
    return NULL;
}

// Returns 1 if an item is missing.
static int check_key(larder *cache, int key) {
    static _Thread_local char value[VALUE_BYTES_MAX], wanted[VALUE_BYTES_MAX];
    char name[16];
    size_t name_bytes = (size_t)sprintf(name, "%d", key);
    larder_item item;
    int low = atomic_load(&ended[key]);
    larder_status status = larder_get(cache, name, name_bytes, value, sizeof value, &item);
    int high = atomic_load(&begun[key]);
    CHECK(status == LARDER_OK || status == LARDER_MISSING);
    if (status == LARDER_OK) atomic_fetch_add(item.marks & LARDER_LOCAL ? &local : &by_server, 1);
    for (int change = low; change <= high; change++) {
        if (status == LARDER_MISSING && is_delete(key, change)) return 0;
        if (status == LARDER_OK && !is_delete(key, change)) {
            size_t bytes = value_of(key, change, wanted);
            if (item.value_bytes == bytes && memcmp(value, wanted, bytes) == 0) return 0;
        }
    }
    CHECK(status == LARDER_MISSING);
    return 1;
}

static void *read_at_random(void *seed) {
    larder *cache = connect_to_server();
    unsigned state = *(unsigned *)seed;
    while (!atomic_load(&is_over)) {
        state = state * 1664525 + 1013904223;
        int key = (int)((state >> 8) % KEYS);
        atomic_fetch_add(&missing, check_key(cache, key));
    }
    larder_close(cache);
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    server = arguments[2];
    size_t length = strlen(arguments[1]);
    int is_cache = length >= 5 && strcmp(arguments[1] + length - 5, "cache") == 0;
    larder *cache = connect_to_server();
    for (int key = 0; key < KEYS; key++) change_key(cache, key);
    pthread_t readers[2], writers[2];
    unsigned seeds[2] = {7, 8};
    int halves[2] = {0, 1};
    for (int at = 0; at < 2; at++) {
        CHECK(pthread_create(&readers[at], NULL, read_at_random, &seeds[at]) == 0);
        CHECK(pthread_create(&writers[at], NULL, write_half, &halves[at]) == 0);
    }
    for (int at = 0; at < 2; at++) CHECK(pthread_join(writers[at], NULL) == 0);
    atomic_store(&is_over, 1);
    for (int at = 0; at < 2; at++) CHECK(pthread_join(readers[at], NULL) == 0);
    CHECK(local > 100 && by_server > 100);
    int quiet = 0;
    for (int key = 0; key < KEYS; key++) quiet += check_key(cache, key);
    CHECK(is_cache || (missing == 0 && quiet == 0));
    larder_close(cache);
    puts("all is so");
    return 0;
}
