// The fields of an item that apcu_cache_info, apcu_key_info and APCUIterator report.

#include "walk.h"

bool apcu_items_next(apcu_walk *walk, const larder_entry **entry, zend_string **name)
{
    larder_status status = apcu_walk_next(walk, apcu_cache, entry, name);
    apcu_failed(status);
    return status == LARDER_OK;
}

zend_ulong apcu_slot_of(zend_string *name)
{
    return ZSTR_HASH(name) % (zend_ulong)apcu_slots();
}

// The cache counts reads for eviction, and keeps the count when the key receives a new value. APCu
// counts from 0 again, so an item that was not read since its store has no hits here either.
zend_long apcu_entry_hits(const larder_entry *entry)
{
    return (entry->marks & LARDER_FETCHED) == 0 ? 0 : MAX(1, entry->reads);
}

zend_long apcu_entry_ttl(const larder_entry *entry)
{
    // Items are stored with one more second: see apcu_store_name.
    return entry->expires_at == 0 ? 0 : (zend_long)(entry->expires_at - entry->stored_at - 1);
}

zend_long apcu_entry_used_at(const larder_entry *entry)
{
    return (zend_long)(entry->used_at != 0 ? entry->used_at : entry->stored_at);
}
