// Declarations that the files of the module `apcu` share. Terms such as name, key and lease are
// defined in values/values.h.

#ifndef LARDER_APCU_H
#define LARDER_APCU_H

#include "values/values.h"

// The version of APCu whose behavior the module implements.
#define APCU_VERSION "5.1.22"

// The tag of values of any serializer other than php, igbinary and msgpack, which have tags in
// larder.h.
#define APCU_TAG_OTHER 10u

// Converts values to bytes and back; registered by a module.
typedef struct apcu_serializer apcu_serializer;

// Each thread has its own copy.
ZEND_BEGIN_MODULE_GLOBALS(larder_apcu)
    bool enabled;
    bool enable_cli;
    bool slam_defense;
    bool coredump_unmap;
    bool use_request_time;
    // True if this request has warned that its changes fail.
    bool has_warned;
    // True if calls of this thread already use the time of the request.
    bool is_time_set;
    zend_long shm_segments;
    zend_long shm_size;
    zend_long entries_hint;
    zend_long gc_ttl;
    zend_long ttl;
    zend_long smart;
    char *mmap_file_mask;
    char *preload_path;
    char *serializer_name;
    zend_long request_time;
    // This thread's handle of the cache, which has the time of its request. Null if the module is
    // disabled.
    larder *cache;
    // The serializer of apc.serializer; null while no module has registered that name.
    const apcu_serializer *serializer;
    // The calls of `apcu_entry` that are in progress, the last one first.
    apcu_held *held;
    // Predicts the length of the next value that is read.
    apcu_lengths lengths;
    // The last result of `apcu_slots`, and the apc.entries_hint for which it was computed.
    zend_long slots;
    zend_long slots_hint;
ZEND_END_MODULE_GLOBALS(larder_apcu)

ZEND_EXTERN_MODULE_GLOBALS(larder_apcu)

#define APCUG(field) ZEND_MODULE_GLOBALS_ACCESSOR(larder_apcu, field)

// The cache of this process and its children; null if the module is disabled. It opens before the
// first thread starts, and closes after the last one ends.
extern larder *apcu_opened;

#define apcu_cache APCUG(cache)

// settings.c: the ini keys.
void apcu_settings_register(int module_number);
void apcu_settings_unregister(int module_number);

// preload.c: stores the values in the files `*.data` of a folder.
void apcu_preload(const char *folder);

// read.c: reads and decodes the value of a key; false on a miss.
bool apcu_read(const apcu_key *key, zval *value);
// Reads a value without counting a hit or miss, for iterators: APCu does not count their reads.
bool apcu_look(const apcu_key *key, zval *value);

// serializer.c: the table of serializers. Other modules add theirs when they start.
void apcu_serializers_register(int module_number);
void apcu_serializers_forget(void);
const apcu_serializer *apcu_serializer_named(const char *name);
void apcu_serializer_names(smart_str *names);

// entry.c: ends the leases that this process still holds.
void apcu_release_held(void);

// failures.c: warns once per process if the status is a failure of the cache, and not an outcome
// such as a miss. A process that cannot change the cache warns once per request, because its
// deletes and stores are lost.
void apcu_failed(larder_status status);

// page.c: a page that the processes share in addition to the cache, and the time of the request.
bool apcu_page_open(void);
void apcu_page_close(void);
void apcu_page_restart(void);
zend_long apcu_started_at(void);
zend_long apcu_now(void);
void apcu_use_request_time(void);
// Makes calls of this thread use the system's time again.
void apcu_forget_time(void);
// True if another thread has stored the same key in this second, so that apc.slam_defense refuses
// the store. Records the store otherwise.
bool apcu_is_slam(zend_string *name);

// Makes calls of this thread use the time of the request, if apc.use_request_time is on.
static zend_always_inline void apcu_prepare_time(void)
{
    if (UNEXPECTED(APCUG(use_request_time) && !APCUG(is_time_set))) {
        apcu_use_request_time();
    }
}

// info.c: functions that report about the cache.
void apcu_info_register(void);
// Returns the number of slots in APCu's hash table, which Larder does not have: see apcu_slot_of.
zend_long apcu_slots(void);

// functions.c: operations on one name, for several PHP functions.
bool apcu_fetch_name(zend_string *name, zval *value);
bool apcu_store_name(zend_string *name, zval *value, zend_long ttl, bool is_add);
bool apcu_delete_name(zend_string *name);

// walk/iterator.c: the class APCUIterator.
void apcu_iterator_register(int module_number);
bool apcu_iterator_delete(zval *object);

PHP_FUNCTION(apcu_clear_cache);
PHP_FUNCTION(apcu_cache_info);
PHP_FUNCTION(apcu_key_info);
PHP_FUNCTION(apcu_sma_info);
PHP_FUNCTION(apcu_enabled);
PHP_FUNCTION(apcu_store);
PHP_FUNCTION(apcu_add);
PHP_FUNCTION(apcu_inc);
PHP_FUNCTION(apcu_dec);
PHP_FUNCTION(apcu_cas);
PHP_FUNCTION(apcu_fetch);
PHP_FUNCTION(apcu_exists);
PHP_FUNCTION(apcu_delete);
PHP_FUNCTION(apcu_entry);
#ifdef APC_DEBUG
PHP_FUNCTION(apcu_inc_request_time);
#endif

#endif
