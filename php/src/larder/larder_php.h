// Declarations that the files of the module `larder` share. Terms such as name, key and lease are
// defined in values/values.h.

#ifndef LARDER_PHP_H
#define LARDER_PHP_H

#include "values/values.h"
#include "ext/date/php_date.h"
#include <sys/stat.h>

// The version of the module, the same as the library's.
#define LARDER_PHP_VERSION "0.1.0"

// A call of getOrCompute() that computes a value: an apcu_held with the cache and the key.
typedef struct larder_held larder_held;

// The place of a cache: memory that a process shares with its children, a file, or a server. A
// *named* region is a file or a server; each thread has a list of its named regions.
typedef struct larder_region {
    // The next named region of this thread.
    struct larder_region *next;
    // The open cache. Null before the first use, and if the region cannot be used.
    larder *cache;
    // The path of the file, or of the server's socket; null for memory without a file.
    char *path;
    bool is_server;
    uint32_t timeout_ms;
    uint64_t memory_bytes;
    uint64_t item_bytes_max;
    // The required permissions, owner and group of the file; -1 allows any group.
    uint32_t permissions;
    uid_t owner;
    gid_t group;
    // Identify the file that is open. If the path now refers to a file with other numbers, the
    // file was replaced.
    dev_t device;
    ino_t inode;
    // When this thread last tried to open the region, or checked whether the file was replaced.
    time_t checked_at;
    // The value of LG(opens) at the last use. It orders the files by their last use without reading
    // a clock: the order only matters when the thread opens another file.
    uint64_t used_at;
    // The number of calls and iterators that keep the file attached.
    uint32_t users;
    // Why the cache cannot be used.
    char why[320];
} larder_region;

// An object of Larder\Cache.
typedef struct larder_object {
    larder_region *region;
    // True if the region is freed with the object.
    bool owns_region;
    // The classes that stored objects may have, in lower case; null for all.
    HashTable *classes;
    // The serializer for stores: LARDER_TAG_PHP or LARDER_TAG_IGBINARY. Reads use the serializer
    // that wrote the value.
    uint32_t serializer;
    zend_object std;
} larder_object;

// Each thread has its own copy.
ZEND_BEGIN_MODULE_GLOBALS(larder)
    char *memory;
    char *path;
    char *owner;
    char *shared_group;
    char *unserialize_classes;
    char *serializer_name;
    bool enable_cli;
    // The number of processes that can use a new file; 0 derives it from the file's memory.
    zend_long processes;
    // True if this request has warned that its changes fail.
    bool has_warned;
    // The list of this thread's named regions. Each thread opens them separately. Otherwise a
    // thread that finds another file under the name could close the old one while another thread
    // uses it.
    larder_region *named;
    // How often this thread has opened a file.
    uint64_t opens;
    // The region of larder.path, once this thread has used it.
    larder_region *configured;
    // The object of Larder\Cache::shared() in this request.
    zend_object *shared;
    // Arguments of apcu_serialize and apcu_unserialize, which src/values calls without the object:
    // its classes and its serializer. They are set before each call of src/values.
    HashTable *classes;
    uint32_t serializer;
    // The calls of getOrCompute() that are in progress, the last one first.
    apcu_held *held;
    // Predicts the length of the next value that is read.
    apcu_lengths lengths;
    // In seconds: how long processes wait for another process's value, and how long leases last.
    zend_long compute_wait;
    zend_long compute_lease;
    zend_long session_wait;
    zend_long session_lease;
ZEND_END_MODULE_GLOBALS(larder)

ZEND_EXTERN_MODULE_GLOBALS(larder)

#define LG(field) ZEND_MODULE_GLOBALS_ACCESSOR(larder, field)

extern zend_class_entry *larder_exception_class;
extern zend_class_entry *larder_cache_class;

static zend_always_inline larder_object *larder_object_of(zend_object *object)
{
    return (larder_object *)((char *)object - offsetof(larder_object, std));
}

#define THIS_CACHE() larder_object_of(Z_OBJ_P(ZEND_THIS))

// place/settings.c: the ini keys.
void larder_settings_register(int module_number);
void larder_settings_unregister(int module_number);
// Reads a number such as `64M`; warns if it is invalid.
zend_long larder_quantity(const char *text, const char *name);
uint64_t larder_memory_setting(void);
bool larder_is_cli(void);
// Returns the classes of a comma-separated list, or null for `*`.
HashTable *larder_classes_of(const char *list);
// Returns the classes of larder.unserialize_classes. If it is not set, returns an empty set for a
// cache in a file (`is_named`), and null for all classes otherwise.
HashTable *larder_classes_setting(bool is_named);

// place/region.c: finds, opens and closes regions.
larder_region *larder_region_private(uint64_t memory_bytes, uint64_t item_bytes_max);
larder_region *larder_region_named(const char *path, uint64_t memory_bytes,
                                   uint64_t item_bytes_max, uint32_t permissions);
larder_region *larder_region_server(const char *socket, uint32_t timeout_ms);
larder_region *larder_region_shared(void);
void larder_region_free(larder_region *region);
void larder_regions_start(void);
void larder_regions_check(void);
void larder_regions_end(void);
void larder_regions_forget(zend_larder_globals *globals);
larder *larder_region_open(larder_region *region);
void larder_region_check(larder_region *region);

// Returns the cache of a region. If it cannot be used, warns once per process and returns null.
static zend_always_inline larder *larder_cache_of(larder_region *region)
{
    larder *cache = region->cache;
    if (UNEXPECTED(cache == NULL)) {
        return larder_region_open(region);
    }
    if (region->path != NULL) {
        region->used_at = LG(opens);
    }
    return cache;
}

// Keeps the file of a region open until larder_region_release. Nothing is counted for a region
// without a file: it is never closed before the end, and threads share the struct.
static zend_always_inline void larder_region_hold(larder_region *region)
{
    region->users += region->path != NULL;
}

static zend_always_inline void larder_region_release(larder_region *region)
{
    region->users -= region->path != NULL;
}

// place/place.c: refuses files that other users may have made.
bool larder_place_prepare(larder_region *region);
bool larder_place_confirm(larder_region *region);
bool larder_place_has_changed(const larder_region *region);

// failures.c
void larder_failed(larder_region *region, larder_status status);
void larder_warn_once(const char *why);
void larder_misuse(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);

// item.c: single items.
typedef struct larder_ttl {
    zend_object *interval;
    zend_long seconds;
    bool is_null;
} larder_ttl;

// A time to live is at most 68 years: an item with a longer one does not expire.
#define LARDER_TTL_MAX INT32_MAX

// getOrCompute() with `staleFor` keeps an item for that many more seconds after its time to live,
// in which the item is stale. The cache only has the sum as the time to live, so the flags contain
// `staleFor`: its value, shifted by this number of bits.
#define LARDER_STALE_SHIFT 5
#define LARDER_STALE_MAX ((1 << 27) - 1)

// On a server `staleFor` is in the high 16 bits of the flags, which php-memcached leaves to
// programs. One bit that php-memcached does not use is set, so that such flags of other programs
// are not taken for it.
#define LARDER_REMOTE_STALE_SHIFT 16
#define LARDER_REMOTE_STALE_MAX UINT16_MAX
#define LARDER_REMOTE_HAS_STALE 0x8000u

// The flags that describe the compression of a value that php-memcached has stored.
#define LARDER_REMOTE_FORM_MASK 0xF0u

// Reads the parameter `int|DateInterval|null $ttl`.
#define Z_PARAM_TTL(ttl) \
    Z_PARAM_OBJ_OF_CLASS_OR_LONG_OR_NULL((ttl).interval, php_date_get_interval_ce(), \
                                         (ttl).seconds, (ttl).is_null)

#define NO_TTL {.is_null = true}

typedef larder_status (*larder_store)(const larder *cache, const void *key, size_t key_bytes,
                                      const void *value, size_t value_bytes, uint32_t ttl_secs,
                                      uint32_t flags);

// Converts a time to live to seconds; 0 does not expire. Throws and returns false if it is invalid.
bool larder_ttl_of(larder_ttl *ttl, uint32_t *seconds);
// Makes the key of a name. Throws and returns false if the name is invalid.
bool larder_key_of(larder_object *object, apcu_key *key, zend_string *name);
// Reads and decodes a value; false on a miss. If `is_stale` is null, a stale value is a miss.
// Otherwise it is returned, and `is_stale` becomes true.
bool larder_read(larder_object *object, const apcu_key *key, zval *value, bool *is_stale);
bool larder_write(larder_object *object, const apcu_key *key, zval *value, uint32_t ttl,
                  uint32_t stale, larder_store store);
bool larder_encode(larder_object *object, apcu_encoded *encoded, zval *value, const apcu_key *key);
bool larder_decode(larder_object *object, zval *value, const char *at, size_t bytes,
                   uint32_t flags, const apcu_key *key);

// remote/values.c: values on a server, which have the form that php-memcached uses.
bool larder_remote_encode(apcu_encoded *encoded, zval *value);
bool larder_remote_decode(zval *value, const char *at, size_t bytes, uint32_t flags);
// True if a stored value equals the encoded one.
bool larder_remote_is(const apcu_encoded *expected, const char *at, size_t bytes, uint32_t flags);

// remote/packed.c: decompresses a FastLZ value; returns null if it is damaged.
zend_string *larder_remote_unpack(const char *at, size_t bytes);

// remote/change.c: compare and set, and counters, on a server.
larder_status larder_remote_exchange(larder_object *object, larder *cache, const apcu_key *key,
                                     const apcu_encoded *expected, const apcu_encoded *encoded,
                                     uint32_t ttl);
// Adds to a counter. Counters are not negative; a subtraction stops at 0.
larder_status larder_remote_step(larder *cache, const apcu_key *key, zend_long by, uint32_t ttl,
                                 zend_long *number);

// remote/many.c: reads several values in one round trip.
void larder_remote_get_many(larder_object *object, zval *names, HashTable *found);

// Returns the flags that contain `stale` seconds.
static inline uint32_t larder_stale_flags(const larder_region *region, uint32_t stale)
{
    return !region->is_server ? stale << LARDER_STALE_SHIFT
        : stale != 0 ? LARDER_REMOTE_HAS_STALE | stale << LARDER_REMOTE_STALE_SHIFT : 0;
}

// Returns `staleFor` of an item, or 0.
static inline uint32_t larder_stale_of(const larder_region *region, uint32_t flags)
{
    return !region->is_server ? flags >> LARDER_STALE_SHIFT
        : (flags & LARDER_REMOTE_HAS_STALE) != 0 ? flags >> LARDER_REMOTE_STALE_SHIFT : 0;
}

// True if an item is stale. Its time to live in the cache includes `staleFor`, so it is stale if at
// most `staleFor` seconds remain.
static zend_always_inline bool larder_is_stale(const larder_region *region,
                                               const larder_item *item)
{
    if (EXPECTED(item->flags >> LARDER_STALE_SHIFT == 0) || item->ttl_secs == 0) {
        return false;
    }
    return item->ttl_secs <= larder_stale_of(region, item->flags);
}

// igbinary.c
bool larder_igbinary_is_loaded(void);
bool larder_igbinary_serialize(apcu_writer *writer, zval *value);
bool larder_igbinary_unserialize(zval *value, const char *at, size_t bytes);
// True if a value that igbinary serialized contains an object or is damaged. The function does not
// unserialize it, so no code of a class runs.
bool larder_igbinary_has_objects(const char *text, size_t bytes);

// change.c: compare and set, and counters.
bool larder_exchange(larder_object *object, const apcu_key *key, zval *expected, zval *value,
                     uint32_t ttl);
bool larder_step(larder_object *object, const apcu_key *key, zend_long by, uint32_t ttl,
                 zend_long *number);

// compute.c: getOrCompute().
void larder_compute(larder_object *object, zend_string *name, zend_fcall_info *callback,
                    zend_fcall_info_cache *cached, uint32_t ttl, uint32_t stale, zval *value);
// Ends the leases that calls still hold at the end of a request.
void larder_release_held(void);

// walk/walk.c: walks through the names that begin with a prefix, which a walk borrows.
typedef struct larder_walker {
    larder_object *object;
    apcu_walk walk;
} larder_walker;

void larder_walk_begin(larder_walker *walker, larder_object *object, zend_string *prefix);
// Returns the next name, which the caller releases, or null at the end.
zend_string *larder_walk_next(larder_walker *walker);
void larder_walk_end(larder_walker *walker);

// walk/items.c: the class Larder\Items.
void larder_items_register(void);
void larder_items_begin(zval *items, zend_object *cache, zend_string *prefix);

// place/options.c: the options of Larder\Cache::open() and Larder\Client::connect().
typedef struct larder_open_options {
    uint64_t memory_bytes;
    uint64_t item_bytes_max;
    uint32_t permissions;
    // Null for all.
    HashTable *classes;
    uint32_t serializer;
} larder_open_options;

// Finds the tag of a serializer. Throws and returns false if PHP has not loaded it.
bool larder_serializer_of(const char *name, uint32_t *tag);

// Reads the options. Throws and returns false if one is invalid.
bool larder_options_take(HashTable *given, bool is_named, larder_open_options *options);
bool larder_client_options_take(HashTable *given, uint32_t *timeout_ms,
                                larder_open_options *options);

// session.c: the handler of sessions.
void larder_session_register(void);

// many.c: methods for several items.

// A function that larder_traverse calls for each item of an array or a Traversable. If it returns
// false, the other items are skipped.
typedef bool (*larder_each)(larder_object *object, zval *key, zval *value, void *context);
void larder_traverse(larder_object *object, zval *items, larder_each each, void *context);
// Returns the text of a key, which is a string or an integer, or null after an exception.
zend_string *larder_name_of(zval *key);

PHP_METHOD(Larder_Cache, getMany);
PHP_METHOD(Larder_Cache, setMany);
PHP_METHOD(Larder_Cache, deleteMany);
PHP_METHOD(Larder_Cache, deletePrefix);
PHP_METHOD(Larder_Cache, keys);
PHP_METHOD(Larder_Cache, stats);

// cache.c: methods that both classes have, and the class.
zend_object *larder_object_create(zend_class_entry *class);
void larder_cache_register(void);

PHP_METHOD(Larder_Cache, __construct);
PHP_METHOD(Larder_Cache, get);
PHP_METHOD(Larder_Cache, set);
PHP_METHOD(Larder_Cache, add);
PHP_METHOD(Larder_Cache, replace);
PHP_METHOD(Larder_Cache, increment);
PHP_METHOD(Larder_Cache, decrement);
PHP_METHOD(Larder_Cache, delete);
PHP_METHOD(Larder_Cache, has);
PHP_METHOD(Larder_Cache, touch);
PHP_METHOD(Larder_Cache, cas);
PHP_METHOD(Larder_Cache, getOrCompute);

// remote/client.c: the class Larder\Client.
void larder_client_register(void);

#endif
