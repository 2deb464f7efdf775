// apcu_cache_info, apcu_sma_info, apcu_key_info and apcu_clear_cache.

#include "apcu/walk/walk.h"

#define STATS_MAX 256

PHP_FUNCTION(apcu_clear_cache)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (apcu_cache != NULL) {
        apcu_failed(apcu_clear(apcu_cache));
        apcu_failed(larder_reset_stats(apcu_cache));
        apcu_page_restart();
    }
    RETURN_TRUE;
}

static bool is_prime(zend_long number)
{
    for (zend_long divisor = 2; divisor * divisor <= number; ++divisor) {
        if (number % divisor == 0) {
            return false;
        }
    }
    return true;
}

// APCu has a fixed series of primes, each the first one after a round number. Its number of slots
// is the first of these primes above apc.entries_hint. Returns the round number after `round`.
static zend_long next_round(zend_long round)
{
    if (round < 2048) {
        return 2 * round;
    }
    if (round < 20480) {
        return round + 1024;
    }
    // 20480, 30720, 40960, 61440, …: alternately a half more and a third more.
    return (round / 20480 & (round / 20480 - 1)) == 0 && round % 20480 == 0 ? round / 2 * 3
                                                                            : round / 3 * 4;
}

static zend_long find_slots(zend_long hint)
{
    zend_long prime = 0;
    for (zend_long round = 256; round <= 983040; round = next_round(round)) {
        prime = round + 1;
        while (!is_prime(prime)) {
            ++prime;
        }
        if (prime > hint) {
            break;
        }
    }
    return prime;
}

zend_long apcu_slots(void)
{
    zend_long wanted = APCUG(entries_hint) > 0 ? APCUG(entries_hint) : 2000;
    if (APCUG(slots_hint) != wanted) {
        APCUG(slots) = find_slots(wanted);
        APCUG(slots_hint) = wanted;
    }
    return APCUG(slots);
}

static double stat_named(const larder_stat *stats, size_t count, const char *name)
{
    for (size_t at = 0; at < count; ++at) {
        if (strcmp(stats[at].name, name) == 0) {
            return (double)stats[at].value;
        }
    }
    return 0;
}

static void add_summary(zval *info)
{
    larder_stat stats[STATS_MAX];
    size_t count = 0;
    uint64_t items = 0;
    larder_memory memory = {0};
    larder_status status = larder_stats(apcu_cache, stats, STATS_MAX, &count);
    apcu_failed(status);
    count = status == LARDER_OK || status == LARDER_TOO_SMALL ? MIN(count, STATS_MAX) : 0;
    larder_length(apcu_cache, &items);
    larder_memory_of(apcu_cache, &memory);
    add_assoc_long(info, "num_slots", apcu_slots());
    add_assoc_long(info, "ttl", APCUG(ttl));
    add_assoc_double(info, "num_hits", stat_named(stats, count, "get_hits"));
    add_assoc_double(info, "num_misses", stat_named(stats, count, "get_misses"));
    add_assoc_double(info, "num_inserts", stat_named(stats, count, "total_items"));
    add_assoc_long(info, "num_entries", (zend_long)items);
    // A full cache evicts single items and never moves memory, so these counters stay 0.
    add_assoc_long(info, "cleanups", 0);
    add_assoc_long(info, "defragmentations", 0);
    add_assoc_double(info, "expunges", 0);
    add_assoc_long(info, "start_time", apcu_started_at());
    add_assoc_double(info, "mem_size", (double)memory.items);
    add_assoc_string(info, "memory_type", "mmap");
}

// The fields of an item in the list of apcu_cache_info. Their names are interned strings, because
// the list repeats them for each item.
#define FIELDS(use) \
    use(info) use(ttl) use(num_hits) use(mtime) use(creation_time) use(deletion_time) \
    use(access_time) use(ref_count) use(mem_size)

#define DECLARE(name) static zend_string *field_##name;
FIELDS(DECLARE)

#define INTERN(name) field_##name = zend_string_init_interned(#name, sizeof #name - 1, 1);

void apcu_info_register(void)
{
    FIELDS(INTERN)
}

// Returns a table with the fields in the order of `FIELDS`. `describe` copies it for each item,
// which takes less time than inserting each field.
static HashTable *new_fields(void)
{
    HashTable *fields = zend_new_array(0);
    zval value;
    ZVAL_LONG(&value, 0);
#define INSERT(name) zend_hash_add_new(fields, field_##name, &value);
    FIELDS(INSERT)
    return fields;
}

// Fills a copy of the fields for an item. Takes ownership of the name.
static void describe(zval *item, HashTable *fields, const larder_entry *entry, zend_string *name)
{
    HashTable *copy = zend_array_dup(fields);
    Bucket *field = copy->arData;
    ZVAL_STR(&field++->val, name);
    ZVAL_LONG(&field++->val, apcu_entry_ttl(entry));
    ZVAL_DOUBLE(&field++->val, apcu_entry_hits(entry));
    ZVAL_LONG(&field++->val, (zend_long)entry->stored_at);
    ZVAL_LONG(&field++->val, (zend_long)entry->stored_at);
    // deletion_time stays 0.
    ++field;
    ZVAL_LONG(&field++->val, apcu_entry_used_at(entry));
    // ref_count stays 0.
    ++field;
    ZVAL_LONG(&field->val, (zend_long)entry->memory_bytes);
    ZVAL_ARR(item, copy);
}

// Adds the items in the order of the walk, and counts how many APCu would have in each slot.
static void list_items(zval *list, uint32_t *in_slot)
{
    const larder_entry *entry;
    zend_string *name;
    apcu_walk walk;
    HashTable *fields = new_fields();
    apcu_walk_begin(&walk, NULL);
    while (apcu_items_next(&walk, &entry, &name)) {
        zval item;
        ++in_slot[apcu_slot_of(name)];
        describe(&item, fields, entry, name);
        zend_hash_next_index_insert_new(Z_ARRVAL_P(list), &item);
    }
    apcu_walk_end(&walk);
    zend_array_destroy(fields);
}

static void add_lists(zval *info)
{
    zval list, deleted, slots;
    uint64_t count = 0;
    zend_long slot_count = apcu_slots();
    uint32_t *in_slot = safe_emalloc((size_t)slot_count, sizeof *in_slot, 0);
    memset(in_slot, 0, (size_t)slot_count * sizeof *in_slot);
    larder_length(apcu_cache, &count);
    array_init_size(&list, (uint32_t)count);
    array_init(&deleted);
    array_init(&slots);
    list_items(&list, in_slot);
    for (zend_long slot = 0; slot < slot_count; ++slot) {
        if (in_slot[slot] != 0) {
            add_index_long(&slots, (zend_ulong)slot, in_slot[slot]);
        }
    }
    efree(in_slot);
    add_assoc_zval(info, "cache_list", &list);
    add_assoc_zval(info, "deleted_list", &deleted);
    add_assoc_zval(info, "slot_distribution", &slots);
}

PHP_FUNCTION(apcu_cache_info)
{
    bool is_limited = false;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(is_limited)
    ZEND_PARSE_PARAMETERS_END();
    if (apcu_cache == NULL) {
        php_error_docref(NULL, E_WARNING, "No APC info available.  "
                         "Perhaps APC is not enabled? Check apc.enabled in your ini file");
        RETURN_FALSE;
    }
    apcu_prepare_time();
    array_init(return_value);
    add_summary(return_value);
    if (!is_limited) {
        add_lists(return_value);
    }
}

PHP_FUNCTION(apcu_key_info)
{
    zend_string *name;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(name)
    ZEND_PARSE_PARAMETERS_END();
    if (apcu_cache == NULL) {
        RETURN_NULL();
    }
    apcu_prepare_time();
    apcu_key key;
    larder_entry entry;
    apcu_key_of(&key, name);
    larder_status status = larder_describe(apcu_cache, key.at, key.bytes, &entry);
    apcu_failed(status);
    if (status != LARDER_OK) {
        RETURN_NULL();
    }
    array_init(return_value);
    add_assoc_long(return_value, "hits", apcu_entry_hits(&entry));
    add_assoc_long(return_value, "access_time", apcu_entry_used_at(&entry));
    add_assoc_long(return_value, "mtime", (zend_long)entry.stored_at);
    add_assoc_long(return_value, "creation_time", (zend_long)entry.stored_at);
    add_assoc_long(return_value, "deletion_time", 0);
    add_assoc_long(return_value, "ttl", apcu_entry_ttl(&entry));
    add_assoc_long(return_value, "refs", 0);
}

// Reports the memory that stores can use as one block, because Larder has no blocks like APCu's.
static void add_block_lists(zval *info, uint64_t size, uint64_t offset)
{
    zval segments;
    zval blocks;
    zval block;
    array_init(&segments);
    array_init(&blocks);
    array_init(&block);
    add_assoc_long(&block, "size", (zend_long)size);
    add_assoc_long(&block, "offset", (zend_long)offset);
    add_next_index_zval(&blocks, &block);
    add_next_index_zval(&segments, &blocks);
    add_assoc_zval(info, "block_lists", &segments);
}

PHP_FUNCTION(apcu_sma_info)
{
    bool is_limited = false;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_BOOL(is_limited)
    ZEND_PARSE_PARAMETERS_END();
    if (apcu_cache == NULL) {
        php_error_docref(NULL, E_WARNING,
                         "No APC SMA info available.  Perhaps APC is disabled via apc.enabled?");
        RETURN_FALSE;
    }
    larder_memory memory = {0};
    apcu_failed(larder_memory_of(apcu_cache, &memory));
    // Only the memory of the index and of items that readers can find counts as used. A store can
    // reclaim the memory of removed items, so it counts as available.
    uint64_t taken = MIN(memory.items + memory.index, memory.limit);
    array_init(return_value);
    add_assoc_long(return_value, "num_seg", 1);
    add_assoc_double(return_value, "seg_size", (double)memory.limit);
    add_assoc_double(return_value, "avail_mem", (double)(memory.limit - taken));
    if (!is_limited) {
        add_block_lists(return_value, memory.limit - taken, taken);
    }
}
