// Selects the names that an iterator returns.

#include "walk.h"

static bool is_word(unsigned char byte)
{
    return isalnum(byte) || byte == '_' || byte >= 0x80;
}

// Reads a byte that matches only itself, and returns it. Returns -1 for all other parts of an
// expression: classes, groups, anchors.
static int literal(const char **at, const char *end)
{
    unsigned char byte = (unsigned char)*(*at)++;
    if (is_word(byte) || strchr(" !\"#%&',-/:;<=>@`~", byte) != NULL) {
        return byte == 0 ? -1 : byte;
    }
    if (byte == '\\' && *at < end && !is_word((unsigned char)**at)) {
        return (unsigned char)*(*at)++;
    }
    return -1;
}

// Returns the bytes that each match of `/^…/` begins with, or null if the expression has no such
// prefix. The walk skips all names without the prefix, and the expression is matched with the rest.
// So the prefix may be shorter than necessary, but never longer.
static zend_string *prefix_of(zend_string *expression)
{
    const char *at = ZSTR_VAL(expression);
    char delimiter = *at;
    const char *end = strrchr(at, delimiter);
    // With a modifier after the delimiter, letters may match other letters (`i`), or a match may
    // begin elsewhere (`m`). With an alternative (`|`) there may be several beginnings.
    if (ZSTR_LEN(expression) < 3 || is_word((unsigned char)delimiter) || end <= at + 1
        || at[1] != '^' || end[1] != 0 || memchr(at, '|', end - at) != NULL
        || strlen(at) != ZSTR_LEN(expression)) {
        return NULL;
    }
    zend_string *prefix = zend_string_alloc(end - at, 0);
    size_t bytes = 0;
    at += 2;
    while (at < end) {
        int byte = literal(&at, end);
        if (byte < 0) {
            // These quantifiers allow zero repetitions, so the byte before them may be absent.
            bytes -= bytes > 0 && strchr("?*{", at[-1]) != NULL;
            break;
        }
        ZSTR_VAL(prefix)[bytes++] = (char)byte;
    }
    if (bytes == 0) {
        zend_string_efree(prefix);
        return NULL;
    }
    prefix = zend_string_truncate(prefix, bytes, 0);
    ZSTR_VAL(prefix)[bytes] = 0;
    return prefix;
}

static HashTable *set_of(HashTable *names)
{
    HashTable *set = zend_new_array(zend_hash_num_elements(names));
    zval *name;
    ZEND_HASH_FOREACH_VAL(names, name) {
        ZVAL_DEREF(name);
        if (Z_TYPE_P(name) == IS_STRING) {
            zend_hash_add_empty_element(set, Z_STR_P(name));
        }
    } ZEND_HASH_FOREACH_END();
    return set;
}

bool apcu_search_begin(apcu_search *search, zval *wanted)
{
    *search = (apcu_search){0};
    if (wanted != NULL && Z_TYPE_P(wanted) == IS_ARRAY) {
        search->names = set_of(Z_ARRVAL_P(wanted));
        return true;
    }
    if (wanted == NULL || Z_TYPE_P(wanted) != IS_STRING || Z_STRLEN_P(wanted) == 0) {
        return true;
    }
    if (pcre_get_compiled_regex_cache(Z_STR_P(wanted)) == NULL) {
        return false;
    }
    search->expression = zend_string_copy(Z_STR_P(wanted));
    search->prefix = prefix_of(search->expression);
    return true;
}

void apcu_search_open(apcu_search *search)
{
    pcre_cache_entry *compiled = search->expression != NULL
        ? pcre_get_compiled_regex_cache(search->expression) : NULL;
    if (compiled != NULL) {
        php_pcre_pce_incref(compiled);
        search->match =
            pcre2_match_data_create_from_pattern(php_pcre_pce_re(compiled), php_pcre_gctx());
        search->compiled = compiled;
    }
}

void apcu_search_close(apcu_search *search)
{
    if (search->compiled != NULL) {
        pcre2_match_data_free(search->match);
        php_pcre_pce_decref(search->compiled);
        search->compiled = NULL;
    }
}

bool apcu_search_matches(const apcu_search *search, zend_string *name)
{
    if (search->names != NULL) {
        return zend_hash_exists(search->names, name);
    }
    if (search->expression == NULL) {
        return true;
    }
    return search->compiled != NULL
        && pcre2_match(php_pcre_pce_re(search->compiled), (PCRE2_SPTR)ZSTR_VAL(name),
                       ZSTR_LEN(name), 0, 0, search->match, php_pcre_mctx()) >= 0;
}

void apcu_search_end(apcu_search *search)
{
    if (search->expression != NULL) {
        zend_string_release(search->expression);
    }
    if (search->prefix != NULL) {
        zend_string_release(search->prefix);
    }
    if (search->names != NULL) {
        zend_array_destroy(search->names);
    }
    *search = (apcu_search){0};
}
