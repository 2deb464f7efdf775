// Keys and values as the cache stores them, and walks and leases. Both modules link the objects of
// this folder.

#ifndef LARDER_APCU_VALUES_H
#define LARDER_APCU_VALUES_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php.h"
#include <larder.h>
#include <stdatomic.h>
#include <unistd.h>

#if PHP_VERSION_ID < 80100
#error "larder.so and larder_apcu.so need PHP 8.1 or later"
#endif

#if defined(ZTS) && defined(ZEND_ENABLE_STATIC_TSRMLS_CACHE)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

// A key of more bytes is stored under its first bytes and its SHA-256.
#define APCU_PLAIN_KEY_MAX 217

// The first byte of a SHA-256 in a stored key. A plain key does not begin with it.
#define APCU_HASH_MARK 0xFF

// The flag of an item whose value begins with the full key: its length in 4 bytes, and its bytes.
#define APCU_HAS_NAME 0x10u

// The largest number of processes that a cache can serve. A process takes memory when it joins; in
// a file the memory of all processes is allocated from the start.
#define APCU_PROCESSES_MAX 4096

// True for the first call in a process, from any of its threads. `process` stores the process of
// the last call.
static inline bool apcu_is_first(_Atomic pid_t *process)
{
    pid_t self = getpid();
    return *process != self && atomic_exchange(process, self) != self;
}

// A key as the cache stores it.
typedef struct apcu_key {
    const char *at;
    size_t bytes;
    // The full key if it is stored under its hash, else null.
    zend_string *name;
    char hashed[LARDER_KEY_BYTES_MAX];
} apcu_key;

void apcu_key_hash(apcu_key *key, zend_string *name);

// Finds the stored form of a key. The key borrows `name`.
static zend_always_inline void apcu_key_of(apcu_key *key, zend_string *name)
{
    if (EXPECTED(ZSTR_LEN(name) - 1 < APCU_PLAIN_KEY_MAX)
        && EXPECTED((unsigned char)ZSTR_VAL(name)[0] != APCU_HASH_MARK)) {
        key->at = ZSTR_VAL(name);
        key->bytes = ZSTR_LEN(name);
        key->name = NULL;
    } else {
        apcu_key_hash(key, name);
    }
}

// Takes the full key from the front of a stored value. Returns null if it is damaged.
zend_string *apcu_name_of_value(const char *value, size_t bytes);

// Bytes that grow: in `room` at first, then in memory of the request.
typedef struct apcu_writer {
    char *begin;
    char *at;
    char *end;
    // The maximum length of a value.
    size_t limit;
    char room[4096];
} apcu_writer;

void apcu_writer_begin(apcu_writer *writer);

// Makes space for `bytes` more; false if that exceeds the limit.
bool apcu_writer_grow(apcu_writer *writer, size_t bytes);

static zend_always_inline bool apcu_reserve(apcu_writer *writer, size_t bytes)
{
    return EXPECTED((size_t)(writer->end - writer->at) >= bytes) || apcu_writer_grow(writer, bytes);
}

// A value as the cache stores it.
typedef struct apcu_encoded {
    const char *at;
    size_t bytes;
    uint32_t flags;
    // The serializer's bytes if `at` points into them, otherwise null.
    unsigned char *serialized;
    apcu_writer writer;
} apcu_encoded;

// Encodes a value. False if it cannot be stored; the function has then warned or thrown where APCu
// does. `apcu_encoded_free` frees the result.
bool apcu_encode(apcu_encoded *encoded, zval *value, const apcu_key *key);
void apcu_encoded_free(apcu_encoded *encoded);

// Decodes a stored value. False if it is damaged or belongs to another key; `value` is then
// unchanged or null.
bool apcu_decode(zval *value, const char *at, size_t bytes, uint32_t flags, const apcu_key *key);

// Writes a number as decimal text, and returns the text's length. `text` has 24 bytes.
size_t apcu_long_text(char *text, zend_long number);
bool apcu_long_of_text(const char *at, size_t bytes, zend_long *number);

// Encodes an array that contains only scalars, strings and such arrays.
typedef enum apcu_plain {
    APCU_PLAIN,
    // The array contains an object or a reference, or is too deep.
    APCU_NOT_PLAIN,
    APCU_HAS_RESOURCE,
    APCU_TOO_LARGE,
} apcu_plain;

apcu_plain apcu_array_encode(apcu_writer *writer, HashTable *array);
bool apcu_array_decode(zval *value, const char *at, size_t bytes);

// Each module defines these functions.
// Returns the maximum length of a value.
size_t apcu_value_limit(void);
// True if a resource cannot be stored. The function has then warned or thrown.
bool apcu_refuse_resource(bool is_nested);
bool apcu_serializes_as_php(void);
bool apcu_serializes_in_full(void);
bool apcu_serialize(apcu_encoded *encoded, zval *value);
bool apcu_unserialize(zval *value, const char *at, size_t bytes, uint32_t tag);

// native.c: PHP's own serializer.
bool apcu_native_serialize(smart_str *text, zval *value);
// Moves `at` past the bytes that it reads. `classes` are the allowed classes of objects, null for
// all.
bool apcu_native_unserialize(zval *value, const unsigned char **at, const unsigned char *end,
                             HashTable *classes);

// walk.c: walks through the keys that begin with a prefix, which may be null and which a walk
// borrows. A walk uses only request memory, so that a bailout leaks nothing.
typedef struct apcu_walk {
    larder_cursor cursor;
    bool has_ended;
    size_t at;
    size_t count;
    zend_string *prefix;
    // The entries and keys of a group of items.
    size_t capacity;
    larder_entry *entries;
    char *keys;
} apcu_walk;

void apcu_walk_begin(apcu_walk *walk, zend_string *prefix);
void apcu_walk_restart(apcu_walk *walk);
// Finds the next item, and its full key, which the caller releases. LARDER_END at the end.
larder_status apcu_walk_next(apcu_walk *walk, const larder *cache, const larder_entry **entry,
                             zend_string **name);
void apcu_walk_end(apcu_walk *walk);

// names.c: the names in an array. A group has copies, because user code that runs during a call may
// change names that are references.
#define APCU_NAMES_GROUP 16

typedef struct apcu_names {
    // Borrowed. It does not change while the call's frame holds it.
    HashTable *array;
    HashPosition position;
    size_t count;
    zval group[APCU_NAMES_GROUP];
} apcu_names;

void apcu_names_begin(apcu_names *names, HashTable *array);
// Reads the next group, and prefetches the memory of its keys if `cache` is not null. Returns the
// number of its names, 0 at the end.
size_t apcu_names_next(apcu_names *names, const larder *cache);
void apcu_names_end(apcu_names *names);

// lease.c: a key whose value this process computes, on the stack of the call.
typedef struct apcu_held {
    struct apcu_held *next;
    // The cache that the key belongs to; null if the module has only one.
    const void *place;
    zend_string *name;
    const apcu_key *key;
    pid_t process;
    bool has_lease;
    larder_lease_token lease;
} apcu_held;

// The longest wait for a value inside the computation of another value. The process that computes
// the inner value may in turn wait for the outer one.
#define APCU_NESTED_WAIT_US 50000

typedef struct apcu_lease_times {
    // A callback that does not end delays other processes no longer than this.
    uint32_t lease_ms;
    // How long a process waits for another process's value before it computes the value itself.
    uint64_t wait_us;
} apcu_lease_times;

// Reads the value of a key.
typedef bool (*apcu_held_read)(apcu_held *held, zval *value);

// True if a callback of this process already computes the value, so the call is recursive.
bool apcu_is_held_here(const apcu_held *list, const apcu_held *wanted);
void apcu_held_begin(apcu_held **list, apcu_held *held);
// Removes a key from the list and ends its lease. Fibers end their calls in any order, so the key
// may be anywhere in the list. False if it was not in the list.
bool apcu_held_end(apcu_held **list, apcu_held *held, const larder *cache);
// Takes the lease. False if another process holds it.
bool apcu_lease_take(apcu_held *held, const larder *cache, uint32_t ms);
// Takes the lease. True if another process has stored the value instead.
bool apcu_lease_wait(apcu_held *held, const larder *cache, const apcu_lease_times *times,
                     apcu_held_read read, zval *value);
// Calls a function with a key. `value` is its result, or undefined after exit().
void apcu_call(zend_fcall_info *callback, zend_fcall_info_cache *cached, zend_string *name,
               zval *value);

// clear.c
larder_status apcu_clear(larder *cache);

// Predicts the length of the next value.
typedef struct apcu_lengths {
    size_t last;
    // How many consecutive values were long, up to 2.
    unsigned char long_in_row;
} apcu_lengths;

// A value of more bytes does not fit on the stack.
#define APCU_ROOM_BYTES 4096

// Copying a longer value takes so long that a second get does not matter.
#define APCU_FORETOLD_MAX (64 << 10)

static zend_always_inline void apcu_note_length(apcu_lengths *lengths, size_t bytes)
{
    lengths->last = bytes;
    if (EXPECTED(bytes <= APCU_ROOM_BYTES) || bytes > APCU_FORETOLD_MAX) {
        lengths->long_in_row = 0;
    } else if (lengths->long_in_row < 2) {
        ++lengths->long_in_row;
    }
}

// Makes a value of `text`, which may have a capacity larger than the value.
static inline void apcu_take_string(zval *value, zend_string *text, size_t bytes)
{
    if (bytes < ZSTR_LEN(text)) {
        text = zend_string_truncate(text, bytes, 0);
    }
    ZSTR_VAL(text)[bytes] = 0;
    ZVAL_NEW_STR(value, text);
}

#endif
