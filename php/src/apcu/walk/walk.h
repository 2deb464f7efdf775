// Walks through the items of the cache.

#ifndef LARDER_APCU_WALK_H
#define LARDER_APCU_WALK_H

#include "apcu/larder_apcu.h"
#include "ext/pcre/php_pcre.h"

// Finds the next item of the cache, and its full key, which the caller releases. False at the end.
bool apcu_items_next(apcu_walk *walk, const larder_entry **entry, zend_string **name);

// Where APCu would have a key: its walks go by that order.
zend_ulong apcu_slot_of(zend_string *name);

// What APCu reports of an item.
zend_long apcu_entry_hits(const larder_entry *entry);
zend_long apcu_entry_ttl(const larder_entry *entry);
zend_long apcu_entry_used_at(const larder_entry *entry);

// The keys that an iterator looks for: all, those that match an expression, or given ones.
typedef struct apcu_search {
    zend_string *expression;
    // Null unless it is open: PCRE ends a request before the last objects end.
    pcre_cache_entry *compiled;
    pcre2_match_data *match;
    HashTable *names;
    // The keys of a match begin with it; null if that is unknown.
    zend_string *prefix;
} apcu_search;

// False if the expression is wrong; the function has warned.
bool apcu_search_begin(apcu_search *search, zval *wanted);
// Compiles the expression, until the search is closed.
void apcu_search_open(apcu_search *search);
void apcu_search_close(apcu_search *search);
bool apcu_search_matches(const apcu_search *search, zend_string *name);
void apcu_search_end(apcu_search *search);

#endif
