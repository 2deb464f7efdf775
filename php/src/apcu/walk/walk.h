// Walks through the items of the cache, for apcu_cache_info and APCUIterator.

#ifndef LARDER_APCU_WALK_H
#define LARDER_APCU_WALK_H

#include "apcu/larder_apcu.h"
#include "ext/pcre/php_pcre.h"

// Finds the next item of the cache and its name, which the caller releases. False at the end.
bool apcu_items_next(apcu_walk *walk, const larder_entry **entry, zend_string **name);

// Returns the slot of its hash table in which APCu would store a name. APCu reports items in the
// order of these slots, and an iterator here sorts each of its chunks in this order.
zend_ulong apcu_slot_of(zend_string *name);

// Fields that APCu reports for an item.
zend_long apcu_entry_hits(const larder_entry *entry);
zend_long apcu_entry_ttl(const larder_entry *entry);
zend_long apcu_entry_used_at(const larder_entry *entry);

// The names that an iterator returns: all, the matches of an expression, or a given list.
typedef struct apcu_search {
    zend_string *expression;
    // The compiled expression; null unless the search is open. An iterator opens its search only
    // while it reads, because PCRE shuts down at the end of a request before the last objects are
    // freed.
    pcre_cache_entry *compiled;
    pcre2_match_data *match;
    HashTable *names;
    // A prefix of all matching names, so that a walk need not read the others; null if unknown.
    zend_string *prefix;
} apcu_search;

// False, after a warning, if the expression is invalid.
bool apcu_search_begin(apcu_search *search, zval *wanted);
// Compiles the expression, and keeps it until the search is closed.
void apcu_search_open(apcu_search *search);
void apcu_search_close(apcu_search *search);
bool apcu_search_matches(const apcu_search *search, zend_string *name);
void apcu_search_end(apcu_search *search);

#endif
