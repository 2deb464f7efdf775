// RocksDB with PetraCache's settings, and PetraCache's format of values.
#ifndef DATABASE_H
#define DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocksdb/c.h>

enum {
    VALUE_BYTES_MAX = 1 << 20,
    // Of a stored value: the second of its expiry, 8 bytes, and its flags, 4 bytes.
    HEAD_BYTES = 12,
};

struct settings {
    const char *directory;
    size_t cache_bytes;
    // Reads and writes go around the page cache, so that cache_bytes bounds the memory.
    bool is_direct;
    // RocksDB counts the bytes that it writes, which costs processor time.
    bool has_counts;
};

// A value that a get has found.
struct found {
    rocksdb_pinnableslice_t *slice;
    const char *data;
    size_t bytes;
    uint32_t flags;
};

// Ends the process with a message if RocksDB cannot open the directory.
void database_open(const struct settings *settings);

// Returns true if the key has a value; release it with database_release.
bool database_get(const char *key, size_t key_bytes, struct found *found);
void database_release(struct found *found);

// Gets many keys at once. Sets `values[i]`, to free, and `bytes[i]`; a miss is NULL. Values have
// their head, see database_head.
void database_get_many(size_t count, const char *const *keys, const size_t *key_bytes,
                       char **values, size_t *bytes);

// Reads the head of a value. Returns true if the value is not expired.
bool database_head(const char *value, size_t bytes, uint32_t *flags);

void database_set(const char *key, size_t key_bytes, const char *data, size_t bytes, uint32_t flags,
                  int64_t exptime);
// Returns true if the key had a value.
bool database_delete(const char *key, size_t key_bytes);

// Seconds that the clock of expiry is ahead of the system's.
void database_advance(uint64_t secs);

// Writes the memtables, and waits until compaction has nothing to do.
void database_settle(void);

// Returns a counter of RocksDB by its name, 0 without has_counts.
uint64_t database_count(const char *name);

#endif
