// One of several programs, in several languages, that use one shared cache at the same time and
// check each other's writes. go/shared/conformance documents the protocol between them, and runs
// them.
//
//     peer FILE ROUNDS SELF PEER...
#include <inttypes.h>
#include <larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEYS 50
#define SHARED_KEYS 7
#define WAIT_MS 20000
#define VALUE_BYTES_MAX 2048

static larder *cache;

static void fail(const char *what, const char *key, const char *why) {
    fprintf(stderr, "%s %s: %s\n", what, key, why);
    exit(1);
}

static uint64_t fnv1a(const char *bytes, size_t count) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t at = 0; at < count; at++) {
        hash = (hash ^ (unsigned char)bytes[at]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

// Stores "writer key round filling checksum".
static void store(const char *key, const char *writer, uint64_t round) {
    char value[VALUE_BYTES_MAX];
    int length = snprintf(value, sizeof value, "%s %s %" PRIu64 " ", writer, key, round);
    size_t filling = round * 37 % 900;
    memset(value + length, 'c', filling);
    length += (int)filling;
    uint64_t sum = fnv1a(value, (size_t)length);
    length += snprintf(value + length, sizeof value - (size_t)length, " %016" PRIx64, sum);
    larder_status status = larder_set(cache, key, strlen(key), value, (size_t)length, 0, 0);
    if (status != LARDER_OK) {
        fail("set", key, larder_status_text(status));
    }
}

// Returns whether the key has an item. Checks that its value is complete, and returns the parts of
// the value.
static int read_value(const char *key, char *writer, uint64_t *round) {
    char value[VALUE_BYTES_MAX + 1], of[64];
    larder_item item;
    larder_status status = larder_get(cache, key, strlen(key), value, VALUE_BYTES_MAX, &item);
    if (status == LARDER_MISSING) {
        return 0;
    }
    if (status != LARDER_OK) {
        fail("get", key, larder_status_text(status));
    }
    value[item.value_bytes] = 0;
    char *sum = strrchr(value, ' ');
    if (sum == NULL || fnv1a(value, (size_t)(sum - value)) != strtoull(sum + 1, NULL, 16)) {
        fail("the value is torn of", key, value);
    }
    if (sscanf(value, "%63s %63s %" SCNu64, writer, of, round) != 3 || strcmp(of, key) != 0) {
        fail("the value is that of another key:", key, value);
    }
    return 1;
}

// Waits until all peers have stored their key of this name.
static void wait_for_all(const char *name, char **peers, int count) {
    int waited_ms = 0;
    for (int at = 0; at < count;) {
        char key[128];
        snprintf(key, sizeof key, "%s:%s", name, peers[at]);
        if (larder_contains(cache, key, strlen(key)) == LARDER_OK) {
            at++;
            continue;
        }
        if (waited_ms++ > WAIT_MS) {
            fail("wait for", key, "it has not come");
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void count_one(void) {
    larder_status status = larder_increment(cache, "count", 5, 1, NULL);
    if (status == LARDER_MISSING && larder_add(cache, "count", 5, "0", 1, 0, 0) < LARDER_INVALID) {
        status = larder_increment(cache, "count", 5, 1, NULL);
    }
    if (status != LARDER_OK) {
        fail("increment", "count", larder_status_text(status));
    }
}

static void play(const char *self, uint64_t rounds, char **peers, int count) {
    char key[128], writer[64];
    for (uint64_t round = 0; round < rounds; round++) {
        snprintf(key, sizeof key, "%s:%" PRIu64, self, round % KEYS);
        store(key, self, round);
        snprintf(key, sizeof key, "shared:%" PRIu64, round % SHARED_KEYS);
        store(key, self, round);
        count_one();
        uint64_t found;
        read_value(key, writer, &found);
        const char *other = peers[round % (uint64_t)count];
        snprintf(key, sizeof key, "%s:%" PRIu64, other, round * 7 % KEYS);
        if (read_value(key, writer, &found) && strcmp(writer, other) != 0) {
            fail("another program has written", key, writer);
        }
    }
}

static void check_all(uint64_t rounds, char **peers, int count) {
    for (int at = 0; at < count; at++) {
        for (uint64_t number = 0; number < KEYS; number++) {
            char key[128], writer[64];
            uint64_t round;
            snprintf(key, sizeof key, "%s:%" PRIu64, peers[at], number);
            if (!read_value(key, writer, &round) || round != rounds - KEYS + number) {
                fail("in the end", key, "is not what was stored last");
            }
        }
    }
    char digits[24] = {0};
    larder_get(cache, "count", 5, digits, sizeof digits - 1, NULL);
    if (strtoull(digits, NULL, 10) != rounds * (uint64_t)count) {
        fail("in the end", "count", digits);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fail("usage:", argv[0], "FILE ROUNDS SELF PEER...");
    }
    larder_options options = {.struct_bytes = sizeof options, .path = argv[1]};
    char why[512], key[128];
    if (larder_open(&options, &cache, why, sizeof why) != LARDER_OK) {
        fail("open", argv[1], why);
    }
    uint64_t rounds = strtoull(argv[2], NULL, 10);
    snprintf(key, sizeof key, "ready:%s", argv[3]);
    store(key, argv[3], 0);
    wait_for_all("ready", argv + 4, argc - 4);
    play(argv[3], rounds, argv + 4, argc - 4);
    snprintf(key, sizeof key, "done:%s", argv[3]);
    store(key, argv[3], 0);
    wait_for_all("done", argv + 4, argc - 4);
    check_all(rounds, argv + 4, argc - 4);
    larder_close(cache);
    return 0;
}
