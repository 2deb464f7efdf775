// The part of both modules, larder.so and larder_apcu.so, that converts the keys and values of PHP
// to the bytes that the cache stores, and back. It also has walks, which find the keys of a cache,
// and leases: a process that holds the lease of a key computes its value, while others wait. Each
// module compiles the sources of this folder.
//
// A *name* is a key as PHP code passes it, of any length. A *key* is its stored form, of at most
// LARDER_KEY_BYTES_MAX bytes.

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

// A longer name is stored under its first 217 bytes, the mark and its SHA-256: together 250 bytes,
// the longest key of a cache.
#define APCU_PLAIN_KEY_MAX 217

// The byte before a SHA-256 in a stored key. A name that begins with this byte is also stored under
// its hash, so that no name equals the stored key of the empty name, which begins with the mark.
#define APCU_HASH_MARK 0xFF

// The flag of an item that is stored under a hash. Its value begins with the name: the length in 4
// bytes, then the bytes. A reader compares them, and a walk returns them.
#define APCU_HAS_NAME 0x10u

// The largest number of processes that can use a cache at the same time. Without a file, a process
// takes memory when it makes its first call. A file contains the memory of all processes from the
// start.
#define APCU_PROCESSES_MAX 4096

// True for the first call in a process, from any of its threads. `process` remembers which process
// made the last call. A forked child inherits the variable, but has another id.
static inline bool apcu_is_first(_Atomic pid_t *process)
{
    pid_t self = getpid();
    return *process != self && atomic_exchange(process, self) != self;
}

// A key as the cache stores it.
typedef struct apcu_key {
    const char *at;
    size_t bytes;
    // The name if the key contains its hash, otherwise null.
    zend_string *name;
    // The bytes of a key that contains a hash. Other keys point to the bytes of the name.
    char hashed[LARDER_KEY_BYTES_MAX];
} apcu_key;

// Makes the key that contains the hash of a name.
void apcu_key_hash(apcu_key *key, zend_string *name);

// Makes the key of a name. The key borrows `name`.
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

// Returns a copy of the name at the front of a value with APCU_HAS_NAME, or null if the value is
// damaged.
zend_string *apcu_name_of_value(const char *value, size_t bytes);

// A buffer that grows while a value is encoded. It begins in `room`, usually on the stack, and
// moves to request memory if the value becomes longer.
typedef struct apcu_writer {
    char *begin;
    // The end of the bytes that are written.
    char *at;
    // The end of the buffer.
    char *end;
    // The maximum length of a value.
    size_t limit;
    char room[4096];
} apcu_writer;

// Empties the buffer, and takes the limit from apcu_value_limit.
void apcu_writer_begin(apcu_writer *writer);

// Enlarges the buffer so that `bytes` more bytes fit. False if they exceed the limit.
bool apcu_writer_grow(apcu_writer *writer, size_t bytes);

// Like apcu_writer_grow, but does nothing if the bytes already fit.
static zend_always_inline bool apcu_reserve(apcu_writer *writer, size_t bytes)
{
    return EXPECTED((size_t)(writer->end - writer->at) >= bytes) || apcu_writer_grow(writer, bytes);
}

// A value as the cache stores it. Its bytes are in the writer, in a buffer that the serializer has
// allocated, or in the PHP string itself.
typedef struct apcu_encoded {
    const char *at;
    size_t bytes;
    uint32_t flags;
    // The serializer's buffer if `at` points to it, otherwise null.
    unsigned char *serialized;
    apcu_writer writer;
} apcu_encoded;

// Encodes a value. False if it cannot be stored. In this case a resource or a serializer may have
// caused a warning or an exception; a value that is too large causes none. `apcu_encoded_free`
// frees the result.
bool apcu_encode(apcu_encoded *encoded, zval *value, const apcu_key *key);
void apcu_encoded_free(apcu_encoded *encoded);

// Decodes a stored value. False if it is damaged, or if its key was made from another name with the
// same hash; `value` is then unchanged or null.
bool apcu_decode(zval *value, const char *at, size_t bytes, uint32_t flags, const apcu_key *key);

// Writes a number as decimal text, and returns the text's length. `text` has 24 bytes.
size_t apcu_long_text(char *text, zend_long number);
// Parses such a text. False if it contains anything except digits after an optional minus sign.
bool apcu_long_of_text(const char *at, size_t bytes, zend_long *number);

// array.c: the compact form of a plain array, one that contains only scalars, strings and plain
// arrays. All other arrays need a serializer.
typedef enum apcu_plain {
    // The array is plain, and encoded.
    APCU_PLAIN,
    // The array contains an object, a reference or a decimal string key, or is nested too deeply.
    APCU_NOT_PLAIN,
    APCU_HAS_RESOURCE,
    APCU_TOO_LARGE,
} apcu_plain;

apcu_plain apcu_array_encode(apcu_writer *writer, HashTable *array);
// False if the bytes are damaged.
bool apcu_array_decode(zval *value, const char *at, size_t bytes);

// Functions that this folder calls and each module defines in its serializer.c.

// Returns the maximum length of a value.
size_t apcu_value_limit(void);
// Called for a value that is a resource, or with `is_nested` for an array that contains one. True
// if it cannot be stored; the function has then warned or thrown. False leaves it to the
// serializer.
bool apcu_refuse_resource(bool is_nested);
// True if the module's serializer behaves like serialize(), which fails if an exception is pending.
bool apcu_serializes_as_php(void);
// True if the module's serializer writes an array again at each place where it occurs.
bool apcu_serializes_in_full(void);
// Serializes a value with the module's serializer, and sets the tag in the flags.
bool apcu_serialize(apcu_encoded *encoded, zval *value);
// Reads bytes of the serializer with this tag. False if they are damaged, or if the module cannot
// use that serializer.
bool apcu_unserialize(zval *value, const char *at, size_t bytes, uint32_t tag);

// native.c: PHP's own serializer, serialize() and unserialize().
bool apcu_native_serialize(smart_str *text, zval *value);
// Moves `at` past the bytes that it reads. `classes` contains the classes that objects may have;
// null allows all.
bool apcu_native_unserialize(zval *value, const unsigned char **at, const unsigned char *end,
                             HashTable *classes);

// walk.c: a walk through the names that begin with a prefix. It borrows the prefix; null means all
// names. A walk allocates only request memory, which PHP frees even if a fatal error ends the
// request before apcu_walk_end is called.
typedef struct apcu_walk {
    larder_cursor cursor;
    bool has_ended;
    // The index of the next entry, and the number of entries in the group.
    size_t at;
    size_t count;
    zend_string *prefix;
    // The walk reads the cache a group of items at a time. `capacity` is the number of entries that
    // fit; `keys` contains their keys, one after the other.
    size_t capacity;
    larder_entry *entries;
    char *keys;
} apcu_walk;

void apcu_walk_begin(apcu_walk *walk, zend_string *prefix);
void apcu_walk_restart(apcu_walk *walk);
// Finds the next item and its name, which the caller releases. Returns LARDER_END at the end.
larder_status apcu_walk_next(apcu_walk *walk, const larder *cache, const larder_entry **entry,
                             zend_string **name);
void apcu_walk_end(apcu_walk *walk);

// names.c: reads the names in an array in groups, so that the cache can prefetch the items of a
// group. About 16 keys at a time are best: see larder_prefetch. A group has copies of the names. An
// element of the array may be a reference, and user code that runs during the call may change it.
#define APCU_NAMES_GROUP 16

typedef struct apcu_names {
    // An argument of the current call. It is borrowed: the array does not change until the call
    // returns.
    HashTable *array;
    HashPosition position;
    size_t count;
    zval group[APCU_NAMES_GROUP];
} apcu_names;

void apcu_names_begin(apcu_names *names, HashTable *array);
// Reads the next group of names, and prefetches their items if `cache` is not null. Returns the
// number of names, or 0 at the end.
size_t apcu_names_next(apcu_names *names, const larder *cache);
void apcu_names_end(apcu_names *names);

// lease.c: a name whose value a call is computing with a callback. The struct is on the stack of
// that call. If the callback computes another value, the list contains both.
typedef struct apcu_held {
    struct apcu_held *next;
    // Identifies the cache if the module can have several, otherwise null.
    const void *place;
    zend_string *name;
    const apcu_key *key;
    // The process that began the call. If the callback forks, the list of the child contains this
    // entry, but the lease still belongs to the parent.
    pid_t process;
    // False if the call computes without a lease: see apcu_lease_take and apcu_lease_wait.
    bool has_lease;
    larder_lease_token lease;
} apcu_held;

// How long a callback waits for the value of another key. The wait is short because of deadlocks:
// the process that computes that value may itself be waiting for the value of this callback.
#define APCU_NESTED_WAIT_US 50000

typedef struct apcu_lease_times {
    // The duration of a lease. Other processes wait no longer than this for a callback that does
    // not end.
    uint32_t lease_ms;
    // How long a process waits for another process's value before it computes the value itself.
    uint64_t wait_us;
} apcu_lease_times;

// Reads the value of a key that another process may have stored. False on a miss.
typedef bool (*apcu_held_read)(apcu_held *held, zval *value);

// True if a callback of this process is already computing the value, so that the call is recursive.
bool apcu_is_held_here(const apcu_held *list, const apcu_held *wanted);
// Adds an entry to the list, without a lease.
void apcu_held_begin(apcu_held **list, apcu_held *held);
// Removes an entry from the list and ends its lease. Fibers end their calls in any order, so the
// entry may be anywhere in the list. False if it was not in the list.
bool apcu_held_end(apcu_held **list, apcu_held *held, const larder *cache);
// Tries to take the lease. False if another process holds it. True without a lease if the cache has
// no space for one: then each process computes the value.
bool apcu_lease_take(apcu_held *held, const larder *cache, uint32_t ms);
// Takes the lease, or waits until the process that holds it has stored the value. True if the value
// is stored. False if the caller must compute it, after a wait of `times->wait_us` even without the
// lease.
bool apcu_lease_wait(apcu_held *held, const larder *cache, const apcu_lease_times *times,
                     apcu_held_read read, zval *value);
// Calls a callback with a name. `value` is its result, or undefined after exit() or an exception.
void apcu_call(zend_fcall_info *callback, zend_fcall_info_cache *cached, zend_string *name,
               zval *value);

// clear.c: removes all items.
larder_status apcu_clear(larder *cache);

// A read first copies the value to a buffer on the stack. If the value is long and does not fit,
// this first larder_get only returns its length, and a second one copies it to a PHP string. A
// program often reads several long values in a row. So after two of them, a read expects that the
// next value has the length of the last one, and copies directly to a string of this length.
typedef struct apcu_lengths {
    // The length of the last value that was read.
    size_t last;
    // How many of the last reads found a long value in succession: 0, 1, or 2 for two and more.
    unsigned char long_in_row;
} apcu_lengths;

// The length of the buffer on the stack. A value of more bytes is long.
#define APCU_ROOM_BYTES 4096

// Values of more bytes do not count as long. Copying one of them takes so much time that it does
// not pay to save the first larder_get.
#define APCU_FORETOLD_MAX (64 << 10)

// Records the length of a value that was read.
static zend_always_inline void apcu_note_length(apcu_lengths *lengths, size_t bytes)
{
    lengths->last = bytes;
    if (EXPECTED(bytes <= APCU_ROOM_BYTES) || bytes > APCU_FORETOLD_MAX) {
        lengths->long_in_row = 0;
    } else if (lengths->long_in_row < 2) {
        ++lengths->long_in_row;
    }
}

// Turns `text`, which contains a value of `bytes` bytes and may be longer, into a PHP string of
// that length.
static inline void apcu_take_string(zval *value, zend_string *text, size_t bytes)
{
    if (bytes < ZSTR_LEN(text)) {
        text = zend_string_truncate(text, bytes, 0);
    }
    ZSTR_VAL(text)[bytes] = 0;
    ZVAL_NEW_STR(value, text);
}

#endif
