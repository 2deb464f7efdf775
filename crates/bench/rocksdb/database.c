#include "database.h"

#include <endian.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static rocksdb_t *database;
static rocksdb_options_t *options;
static rocksdb_readoptions_t *reading;
static rocksdb_writeoptions_t *writing;
static atomic_uint_fast64_t secs_ahead;

// After an error of RocksDB, a measurement is not possible.
static void check(const char *what, const char *error) {
    if (error != NULL) {
        fprintf(stderr, "rocksdb-server: %s: %s\n", what, error);
        _exit(1);
    }
}

static uint64_t now_secs(void) {
    return (uint64_t)time(NULL) + atomic_load_explicit(&secs_ahead, memory_order_relaxed);
}

void database_advance(uint64_t secs) {
    atomic_fetch_add(&secs_ahead, secs);
}

bool database_head(const char *value, size_t bytes, uint32_t *flags) {
    uint64_t expire_at;
    if (bytes < HEAD_BYTES)
        return false;
    memcpy(&expire_at, value, sizeof expire_at);
    memcpy(flags, value + sizeof expire_at, sizeof *flags);
    expire_at = le64toh(expire_at);
    *flags = le32toh(*flags);
    return expire_at == 0 || expire_at > now_secs();
}

// Compaction drops expired values.
static unsigned char is_expired(void *state, int level, const char *key, size_t key_bytes,
                                const char *value, size_t value_bytes, char **new_value,
                                size_t *new_bytes, unsigned char *is_changed) {
    uint32_t flags;
    (void)state, (void)level, (void)key, (void)key_bytes, (void)new_value, (void)new_bytes;
    *is_changed = 0;
    return !database_head(value, value_bytes, &flags);
}

static void end_filter(void *state) {
    (void)state;
}

static const char *filter_name(void *state) {
    (void)state;
    return "expiry";
}

// The settings that PetraCache has without a configuration file, except for the block cache.
void database_open(const struct settings *settings) {
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_size(table, 16 << 10);
    rocksdb_block_based_options_set_block_cache(
        table, rocksdb_cache_create_lru(settings->cache_bytes));
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);

    options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_options_set_compaction_style(options, rocksdb_level_compaction);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_write_buffer_size(options, 64 << 20);
    rocksdb_options_set_max_write_buffer_number(options, 3);
    rocksdb_options_set_target_file_size_base(options, 64 << 20);
    rocksdb_options_set_max_background_jobs(options, 4);
    rocksdb_options_set_info_log_level(options, 3); // Errors.
    rocksdb_options_set_compaction_filter(options,
        rocksdb_compactionfilter_create(NULL, end_filter, is_expired, filter_name));
    if (settings->is_direct) {
        rocksdb_options_set_use_direct_reads(options, 1);
        rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, 1);
    }
    if (settings->has_counts)
        rocksdb_options_enable_statistics(options);

    reading = rocksdb_readoptions_create();
    writing = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(writing, 1);

    char *error = NULL;
    database = rocksdb_open(options, settings->directory, &error);
    check("cannot open the directory", error);
}

bool database_get(const char *key, size_t key_bytes, struct found *found) {
    char *error = NULL;
    size_t bytes;
    found->slice = rocksdb_get_pinned(database, reading, key, key_bytes, &error);
    check("get", error);
    const char *value = rocksdb_pinnableslice_value(found->slice, &bytes);
    if (value == NULL || !database_head(value, bytes, &found->flags)) {
        database_release(found);
        return false;
    }
    found->data = value + HEAD_BYTES;
    found->bytes = bytes - HEAD_BYTES;
    return true;
}

void database_release(struct found *found) {
    rocksdb_pinnableslice_destroy(found->slice);
}

void database_get_many(size_t count, const char *const *keys, const size_t *key_bytes,
                       char **values, size_t *bytes) {
    char *errors[count];
    rocksdb_multi_get(database, reading, count, keys, key_bytes, values, bytes, errors);
    for (size_t at = 0; at < count; at++)
        check("multi get", errors[at]);
}

void database_set(const char *key, size_t key_bytes, const char *data, size_t bytes, uint32_t flags,
                  int64_t exptime) {
    const int64_t month = 60 * 60 * 24 * 30;
    static _Thread_local char *value;
    if (value == NULL && (value = malloc(HEAD_BYTES + VALUE_BYTES_MAX)) == NULL)
        check("memory", "no room for a value");
    uint64_t expire_at = 0;
    if (exptime < 0)
        expire_at = 1;
    else if (exptime > 0)
        expire_at = (uint64_t)exptime + (exptime <= month ? now_secs() : 0);
    expire_at = htole64(expire_at);
    flags = htole32(flags);
    memcpy(value, &expire_at, sizeof expire_at);
    memcpy(value + sizeof expire_at, &flags, sizeof flags);
    memcpy(value + HEAD_BYTES, data, bytes);

    char *error = NULL;
    rocksdb_put(database, writing, key, key_bytes, value, HEAD_BYTES + bytes, &error);
    check("put", error);
}

bool database_delete(const char *key, size_t key_bytes) {
    struct found found;
    char *error = NULL;
    if (!database_get(key, key_bytes, &found))
        return false;
    database_release(&found);
    rocksdb_delete(database, writing, key, key_bytes, &error);
    check("delete", error);
    return true;
}

void database_settle(void) {
    rocksdb_flushoptions_t *waiting = rocksdb_flushoptions_create();
    char *error = NULL;
    rocksdb_flushoptions_set_wait(waiting, 1);
    rocksdb_flush(database, waiting, &error);
    check("flush", error);
    rocksdb_flushoptions_destroy(waiting);
    for (;;) {
        uint64_t pending = 1, running = 1;
        rocksdb_property_int(database, "rocksdb.compaction-pending", &pending);
        rocksdb_property_int(database, "rocksdb.num-running-compactions", &running);
        if (pending == 0 && running == 0)
            return;
        usleep(10000);
    }
}

uint64_t database_count(const char *name) {
    // The C interface returns all counters in one text: "rocksdb.NAME COUNT : 12".
    char wanted[64], *text = rocksdb_options_statistics_get_string(options);
    uint64_t count = 0;
    if (text == NULL)
        return 0;
    snprintf(wanted, sizeof wanted, "%s COUNT : ", name);
    const char *at = strstr(text, wanted);
    if (at != NULL)
        count = strtoull(at + strlen(wanted), NULL, 10);
    rocksdb_free(text);
    return count;
}
