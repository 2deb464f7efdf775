// apcu_cache_info, apcu_sma_info, apcu_key_info and apcu_clear_cache.

#include "walk/walk.h"
#include "zend_sort.h"

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

// APCu has about as many slots as apc.entries_hint, a prime after a round number.
static zend_long next_round(zend_long round)
{
    if (round < 2048) {
        return 2 * round;
    }
    if (round < 20480) {
        return round + 1024;
    }
    // 20480, 30720, 40960, 61440, …: a half more and a third more in turn.
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
    add_assoc_double(info, "expunges", 0);
    add_assoc_long(info, "start_time", apcu_started_at());
    add_assoc_double(info, "mem_size", (double)memory.items);
    add_assoc_string(info, "memory_type", "mmap");
}

static void describe(zval *item, const larder_entry *entry, zend_string *name)
{
    array_init(item);
    add_assoc_str(item, "info", zend_string_copy(name));
    add_assoc_long(item, "ttl", apcu_entry_ttl(entry));
    add_assoc_double(item, "num_hits", apcu_entry_hits(entry));
    add_assoc_long(item, "mtime", (zend_long)entry->stored_at);
    add_assoc_long(item, "creation_time", (zend_long)entry->stored_at);
    add_assoc_long(item, "deletion_time", 0);
    add_assoc_long(item, "access_time", apcu_entry_used_at(entry));
    add_assoc_long(item, "ref_count", 0);
    add_assoc_long(item, "mem_size", (zend_long)entry->memory_bytes);
}

// Puts the items into `by_slot`, a list of items for each slot of APCu that has any.
static void collect(HashTable *by_slot)
{
    const larder_entry *entry;
    zend_string *name;
    apcu_walk walk;
    apcu_walk_begin(&walk, NULL);
    while (apcu_items_next(&walk, &entry, &name)) {
        zend_ulong slot = apcu_slot_of(name);
        zval *items = zend_hash_index_find(by_slot, slot);
        if (items == NULL) {
            zval empty;
            array_init(&empty);
            items = zend_hash_index_add_new(by_slot, slot, &empty);
        }
        zval item;
        describe(&item, entry, name);
        add_next_index_zval(items, &item);
        zend_string_release(name);
    }
    apcu_walk_end(&walk);
}

static int compare_slots(Bucket *left, Bucket *right)
{
    return left->h < right->h ? -1 : left->h > right->h;
}

static void add_lists(zval *info)
{
    HashTable by_slot;
    zval list;
    zval deleted;
    zval slots;
    zval *items;
    zval *item;
    zend_ulong slot;
    array_init(&list);
    array_init(&deleted);
    array_init(&slots);
    zend_hash_init(&by_slot, 0, NULL, ZVAL_PTR_DTOR, 0);
    collect(&by_slot);
    zend_hash_sort(&by_slot, compare_slots, 0);
    ZEND_HASH_FOREACH_NUM_KEY_VAL(&by_slot, slot, items) {
        add_index_long(&slots, slot, zend_hash_num_elements(Z_ARRVAL_P(items)));
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(items), item) {
            Z_ADDREF_P(item);
            add_next_index_zval(&list, item);
        } ZEND_HASH_FOREACH_END();
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(&by_slot);
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

// The free memory as one block: Larder has no blocks of APCu's kind.
static void add_block_lists(zval *info, const larder_memory *memory)
{
    zval segments;
    zval blocks;
    zval block;
    array_init(&segments);
    array_init(&blocks);
    array_init(&block);
    add_assoc_long(&block, "size", (zend_long)(memory->limit - memory->used));
    add_assoc_long(&block, "offset", (zend_long)memory->used);
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
    memory.used = MIN(memory.used, memory.limit);
    array_init(return_value);
    add_assoc_long(return_value, "num_seg", 1);
    add_assoc_double(return_value, "seg_size", (double)memory.limit);
    add_assoc_double(return_value, "avail_mem", (double)(memory.limit - memory.used));
    if (!is_limited) {
        add_block_lists(return_value, &memory);
    }
}
