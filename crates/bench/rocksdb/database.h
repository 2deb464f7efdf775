// RocksDB with PetraCache's settings, and PetraCache's format of values.
#ifndef DATABASE_H
#define DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocksdb/c.h>

enum {
    VALUE_BYTES_MAX = 1 << 20,
    // The header of a stored value: the second of its expiry, 8 bytes, and its flags, 4 bytes.
    HEAD_BYTES = 12,
};

struct settings {
    const char *directory;
    size_t cache_bytes;
    // Reads and writes bypass the page cache, so that cache_bytes limits the memory.
    bool is_direct;
    // RocksDB counts the bytes that it writes, which costs processor time.
    bool has_counts;
};

// A value that was found.
struct found {
    rocksdb_pinnableslice_t *slice;
    const char *data;
    size_t bytes;
    uint32_t flags;
};

// Ends the process with a message if RocksDB cannot open the directory.
void database_open(const struct settings *settings);

// Returns true if the key has a value. The caller releases it with database_release.
bool database_get(const char *key, size_t key_bytes, struct found *found);
void database_release(struct found *found);

// Reads many keys in one call. Sets `values[i]`, which the caller frees, and `bytes[i]`. For a miss
// `values[i]` is NULL. Values include their header, see database_head.
void database_get_many(size_t count, const char *const *keys, const size_t *key_bytes,
                       char **values, size_t *bytes);

// Reads the header of a value. Returns true if the value is not expired.
bool database_head(const char *value, size_t bytes, uint32_t *flags);

void database_set(const char *key, size_t key_bytes, const char *data, size_t bytes, uint32_t flags,
                  int64_t exptime);
// Returns true if the key had a value.
bool database_delete(const char *key, size_t key_bytes);

// Seconds by which the clock for expiry is ahead of the system's clock.
void database_advance(uint64_t secs);

// Writes the memtables, and waits until compaction is finished.
void database_settle(void);

// Returns a counter of RocksDB by its name, or 0 without has_counts.
uint64_t database_count(const char *name);

#endif
