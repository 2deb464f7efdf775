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
    // A full cache evicts single items, and its memory needs no moves: none of these ever happens.
    add_assoc_long(info, "cleanups", 0);
    add_assoc_long(info, "defragmentations", 0);
    add_assoc_double(info, "expunges", 0);
    add_assoc_long(info, "start_time", apcu_started_at());
    add_assoc_double(info, "mem_size", (double)memory.items);
    add_assoc_string(info, "memory_type", "mmap");
}

// The fields of a listed item. Their names are strings that live as long as the process: a list
// has them for each item.
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

// What the list has of an item, and where APCu would have it.
typedef struct listed {
    zend_string *name;
    zend_long ttl;
    zend_long stored_at;
    zend_long used_at;
    zend_long memory_bytes;
    uint32_t slot;
    uint32_t hits;
} listed;

typedef struct listing {
    listed *items;
    size_t count;
    size_t capacity;
} listing;

// Returns the fields in the order of `FIELDS`. A copy of it takes less time than an insertion for
// each field.
static HashTable *new_fields(void)
{
    HashTable *fields = zend_new_array(0);
    zval value;
    ZVAL_LONG(&value, 0);
#define INSERT(name) zend_hash_add_new(fields, field_##name, &value);
    FIELDS(INSERT)
    return fields;
}

static void describe(zval *item, HashTable *fields, const listed *listed)
{
    HashTable *copy = zend_array_dup(fields);
    Bucket *field = copy->arData;
    ZVAL_STR_COPY(&field++->val, listed->name);
    ZVAL_LONG(&field++->val, listed->ttl);
    ZVAL_DOUBLE(&field++->val, listed->hits);
    ZVAL_LONG(&field++->val, listed->stored_at);
    ZVAL_LONG(&field++->val, listed->stored_at);
    // The time of the deletion.
    ++field;
    ZVAL_LONG(&field++->val, listed->used_at);
    // The number of references.
    ++field;
    ZVAL_LONG(&field->val, listed->memory_bytes);
    ZVAL_ARR(item, copy);
}

static void collect(listing *list)
{
    const larder_entry *entry;
    zend_string *name;
    apcu_walk walk;
    uint64_t count = 0;
    larder_length(apcu_cache, &count);
    list->capacity = (size_t)count + 64;
    list->items = safe_emalloc(list->capacity, sizeof *list->items, 0);
    apcu_walk_begin(&walk, NULL);
    while (apcu_items_next(&walk, &entry, &name)) {
        if (list->count == list->capacity) {
            list->capacity *= 2;
            list->items = safe_erealloc(list->items, list->capacity, sizeof *list->items, 0);
        }
        list->items[list->count++] = (listed){
            .name = name,
            .ttl = apcu_entry_ttl(entry),
            .stored_at = (zend_long)entry->stored_at,
            .used_at = apcu_entry_used_at(entry),
            .memory_bytes = (zend_long)entry->memory_bytes,
            .slot = (uint32_t)apcu_slot_of(name),
            .hits = (uint32_t)apcu_entry_hits(entry),
        };
    }
    apcu_walk_end(&walk);
}

// Returns where the items of each slot end in the order of slots, and writes that order.
static size_t *sort_by_slot(const listing *list, const listed **order)
{
    size_t slots = (size_t)apcu_slots();
    size_t *ends = safe_emalloc(slots + 1, sizeof *ends, 0);
    memset(ends, 0, (slots + 1) * sizeof *ends);
    for (size_t at = 0; at < list->count; ++at) {
        ++ends[list->items[at].slot + 1];
    }
    for (size_t slot = 0; slot < slots; ++slot) {
        ends[slot + 1] += ends[slot];
    }
    // Now each entry is where its slot begins, and moves to where it ends.
    for (size_t at = 0; at < list->count; ++at) {
        const listed *item = &list->items[at];
        order[ends[item->slot]++] = item;
    }
    return ends;
}

// How many items ahead their memory is prefetched: the items are read in random order.
#define AHEAD 8

static void prefetch(const listing *list, const listed *const *order, size_t at)
{
    if (at + 2 * AHEAD < list->count) {
        __builtin_prefetch(order[at + 2 * AHEAD]);
        __builtin_prefetch(order[at + AHEAD]->name);
    }
}

static void add_lists(zval *info)
{
    listing found = {0};
    zval list, deleted, slots;
    collect(&found);
    const listed **order = safe_emalloc(found.count, sizeof *order, 0);
    size_t *ends = sort_by_slot(&found, order);
    HashTable *fields = new_fields();
    array_init_size(&list, (uint32_t)found.count);
    array_init(&deleted);
    array_init(&slots);
    for (size_t at = 0, begin = 0; at < found.count; ++at) {
        zval item;
        prefetch(&found, order, at);
        // In the order of the list, so that the memory of the items is in that order.
        describe(&item, fields, order[at]);
        zend_string_release(order[at]->name);
        add_next_index_zval(&list, &item);
        if (at + 1 == ends[order[at]->slot]) {
            add_index_long(&slots, order[at]->slot, (zend_long)(at + 1 - begin));
            begin = at + 1;
        }
    }
    zend_array_destroy(fields);
    efree(ends);
    efree(order);
    efree(found.items);
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

// The memory that stores can get, as one block: Larder has no blocks of APCu's kind.
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
    // Stores reclaim the memory of removed items, which counts as used until then.
    uint64_t taken = MIN(memory.items + memory.index, memory.limit);
    array_init(return_value);
    add_assoc_long(return_value, "num_seg", 1);
    add_assoc_double(return_value, "seg_size", (double)memory.limit);
    add_assoc_double(return_value, "avail_mem", (double)(memory.limit - taken));
    if (!is_limited) {
        add_block_lists(return_value, memory.limit - taken, taken);
    }
}
