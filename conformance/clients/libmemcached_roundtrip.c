/* All operations of libmemcached on one server: libmemcached_roundtrip HOST PORT BEHAVIOUR.
 * A HOST with a slash is the path of a Unix socket. Prints every failure. The exit status is 1 if
 * there was a failure. */
#define _POSIX_C_SOURCE 200809L

#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static memcached_st *client;
static const char *behaviour;
static int failures;

static void expect(int holds, const char *what, memcached_return_t result)
{
    if (!holds) {
        printf("%s: %s: %s\n", behaviour, what, memcached_strerror(client, result));
        failures++;
    }
}

static void expect_result(memcached_return_t result, memcached_return_t expected, const char *what)
{
    expect(result == expected, what, result);
}

/* Checks that a key has this value; no value means a miss. */
static void expect_value(const char *key, const char *value, size_t length, uint32_t flags)
{
    size_t found_length = 0;
    uint32_t found_flags = 0;
    memcached_return_t result;
    char *found = memcached_get(client, key, strlen(key), &found_length, &found_flags, &result);
    if (value == NULL) {
        expect_result(result, MEMCACHED_NOTFOUND, "a key without an item is a miss");
    } else {
        expect_result(result, MEMCACHED_SUCCESS, "an item that was stored is a hit");
        /* libmemcached has no bytes to return for an empty value. */
        expect(found_length == length && (length == 0 || memcmp(found, value, length) == 0),
               "a value comes back as it was stored", result);
        expect(found_flags == flags, "flags come back as they were stored", result);
    }
    free(found);
}

static memcached_return_t set(const char *key, const char *value, size_t length, time_t exptime,
                              uint32_t flags)
{
    return memcached_set(client, key, strlen(key), value, length, exptime, flags);
}

/* A server that answers has received the buffered stores. */
static void synchronize(void)
{
    memcached_flush_buffers(client);
}

static int is_stored(memcached_return_t result)
{
    return result == MEMCACHED_SUCCESS || result == MEMCACHED_BUFFERED;
}

static void storing_and_reading(void)
{
    expect_value("nothing", NULL, 0, 0);
    expect(is_stored(set("k", "value", 5, 0, 7)), "set stores", MEMCACHED_SUCCESS);
    synchronize();
    expect_value("k", "value", 5, 7);
    expect(is_stored(set("empty", "", 0, 0, 4294967295u)), "an empty value", MEMCACHED_SUCCESS);
    expect(is_stored(set("binary", "\0\r\n\xff", 4, 0, 0)), "any bytes", MEMCACHED_SUCCESS);
    synchronize();
    expect_value("empty", "", 0, 4294967295u);
    expect_value("binary", "\0\r\n\xff", 4, 0);
    memcached_delete(client, "k", 1, 0);
    synchronize();
    expect_value("k", NULL, 0, 0);
}

/* Commands that libmemcached sends immediately, and whose answers it waits for. */
static void conditions(void)
{
    expect_result(memcached_replace(client, "c", 1, "r", 1, 0, 0), MEMCACHED_NOTSTORED, "replace nothing");
    expect_result(memcached_append(client, "c", 1, "r", 1, 0, 0), MEMCACHED_NOTSTORED, "append to nothing");
    expect_result(memcached_add(client, "c", 1, "a", 1, 0, 3), MEMCACHED_SUCCESS, "add what is not there");
    expect_result(memcached_add(client, "c", 1, "b", 1, 0, 0), MEMCACHED_NOTSTORED, "add what is there");
    expect_result(memcached_append(client, "c", 1, "z", 1, 0, 0), MEMCACHED_SUCCESS, "append");
    expect_result(memcached_prepend(client, "c", 1, "y", 1, 0, 0), MEMCACHED_SUCCESS, "prepend");
    expect_value("c", "yaz", 3, 3);
    expect_result(memcached_replace(client, "c", 1, "n", 1, 0, 4), MEMCACHED_SUCCESS, "replace");
    expect_value("c", "n", 1, 4);
    expect_result(memcached_delete(client, "c", 1, 0), MEMCACHED_SUCCESS, "delete");
    expect_result(memcached_delete(client, "c", 1, 0), MEMCACHED_NOTFOUND, "delete what is gone");
}

static uint64_t cas_of(const char *key)
{
    const char *keys[] = {key};
    size_t lengths[] = {strlen(key)};
    memcached_return_t result = memcached_mget(client, keys, lengths, 1);
    expect_result(result, MEMCACHED_SUCCESS, "gets");
    memcached_result_st *item = memcached_fetch_result(client, NULL, &result);
    expect(item != NULL, "gets finds the item", result);
    uint64_t cas = item == NULL ? 0 : memcached_result_cas(item);
    memcached_result_free(item);
    while (memcached_fetch_result(client, NULL, &result) != NULL) {
    }
    return cas;
}

static void compare_and_set(void)
{
    expect_result(set("v", "one", 3, 0, 0), MEMCACHED_SUCCESS, "set");
    uint64_t cas = cas_of("v");
    expect_result(memcached_cas(client, "v", 1, "two", 3, 0, 0, cas), MEMCACHED_SUCCESS, "cas with its token");
    expect_result(memcached_cas(client, "v", 1, "x", 1, 0, 0, cas), MEMCACHED_DATA_EXISTS, "cas with an old one");
    expect_result(memcached_cas(client, "w", 1, "x", 1, 0, 0, cas), MEMCACHED_NOTFOUND, "cas of nothing");
    expect_value("v", "two", 3, 0);
}

static void arithmetic(void)
{
    uint64_t number = 0;
    expect_result(memcached_increment(client, "n", 1, 1, &number), MEMCACHED_NOTFOUND, "incr of nothing");
    expect_result(set("n", "9", 1, 0, 0), MEMCACHED_SUCCESS, "set");
    expect_result(memcached_increment(client, "n", 1, 1, &number), MEMCACHED_SUCCESS, "incr");
    expect(number == 10, "incr tells the number", MEMCACHED_SUCCESS);
    expect_result(memcached_decrement(client, "n", 1, 100, &number), MEMCACHED_SUCCESS, "decr");
    expect(number == 0, "decr stops at 0", MEMCACHED_SUCCESS);
}

static void many_keys(void)
{
    enum { COUNT = 500 };
    static char names[COUNT][16];
    const char *keys[COUNT];
    size_t lengths[COUNT];
    for (int i = 0; i < COUNT; i++) {
        lengths[i] = (size_t)sprintf(names[i], "many%d", i);
        keys[i] = names[i];
        /* Every third key is missing. */
        if (i % 3 != 0)
            set(names[i], names[i], lengths[i], 0, (uint32_t)i);
    }
    synchronize();
    expect_result(memcached_mget(client, keys, lengths, COUNT), MEMCACHED_SUCCESS, "mget");
    int hits = 0, is_right = 1;
    memcached_return_t result;
    memcached_result_st *item;
    while ((item = memcached_fetch_result(client, NULL, &result)) != NULL) {
        uint32_t index = memcached_result_flags(item);
        is_right &= index < COUNT && index % 3 != 0 && memcached_result_length(item) == lengths[index] &&
                    memcmp(memcached_result_value(item), names[index], lengths[index]) == 0;
        hits++;
        memcached_result_free(item);
    }
    expect(hits == COUNT - (COUNT + 2) / 3, "mget finds what is there and nothing else", result);
    expect(is_right, "mget tells every value with its key", result);
}

static void large_values(void)
{
    const size_t lengths[] = {4095, 8192, 16385, 65536, 500000, 1000000};
    char *value = malloc(2000000);
    memset(value, 'v', 2000000);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        value[lengths[i] - 1] = (char)('a' + i);
        expect(is_stored(set("large", value, lengths[i], 0, 0)), "a large value", MEMCACHED_SUCCESS);
        synchronize();
        expect_value("large", value, lengths[i], 0);
    }
    expect_result(set("large", value, 2000000, 0, 0), MEMCACHED_E2BIG, "a value that is too large");
    expect_value("large", NULL, 0, 0);
    free(value);
}

static void deadlines(void)
{
    expect_result(set("brief", "b", 1, 1, 0), MEMCACHED_SUCCESS, "set for a second");
    expect_result(set("touched", "t", 1, 1, 0), MEMCACHED_SUCCESS, "set for a second");
    expect_result(memcached_touch(client, "touched", 7, 100), MEMCACHED_SUCCESS, "touch");
    expect_result(memcached_touch(client, "nothing", 7, 100), MEMCACHED_NOTFOUND, "touch nothing");
    nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL);
    expect_value("brief", NULL, 0, 0);
    expect_value("touched", "t", 1, 0);
    expect_result(memcached_flush(client, 0), MEMCACHED_SUCCESS, "flush_all");
    expect_value("touched", NULL, 0, 0);
}

static void statistics_and_version(void)
{
    memcached_return_t result;
    memcached_stat_st *stats = memcached_stat(client, NULL, &result);
    expect_result(result, MEMCACHED_SUCCESS, "stats");
    expect(stats != NULL && stats[0].pid > 0 && stats[0].limit_maxbytes == 64 << 20, "stats tell", result);
    memcached_stat_free(client, stats);
    expect_result(memcached_version(client), MEMCACHED_SUCCESS, "version");
    const memcached_instance_st *server = memcached_server_instance_by_position(client, 0);
    expect(memcached_server_major_version(server) == 1 && memcached_server_minor_version(server) == 6,
           "the version is one of memcached 1.6", MEMCACHED_SUCCESS);
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: libmemcached_roundtrip HOST PORT plain|buffered|no_block|noreply\n");
        return 64;
    }
    behaviour = arguments[3];
    int is_plain = strcmp(behaviour, "plain") == 0;
    client = memcached_create(NULL);
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, strcmp(behaviour, "buffered") == 0);
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_NO_BLOCK, strcmp(behaviour, "no_block") == 0);
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_NOREPLY, strcmp(behaviour, "noreply") == 0);
    memcached_return_t result =
        strchr(arguments[1], '/') != NULL
            ? memcached_server_add_unix_socket(client, arguments[1])
            : memcached_server_add(client, arguments[1], (in_port_t)atoi(arguments[2]));
    expect_result(result, MEMCACHED_SUCCESS, "the server's address");

    storing_and_reading();
    many_keys();
    if (is_plain || strcmp(behaviour, "no_block") == 0) {
        conditions();
        compare_and_set();
        arithmetic();
        large_values();
        statistics_and_version();
        deadlines();
    }
    memcached_free(client);
    return failures != 0;
}
