// The keys of names that the cache cannot store unchanged: empty names, long names, and names that
// begin with the mark of a hash.

#include "values.h"
#include "ext/hash/php_hash.h"
#include "ext/hash/php_hash_sha.h"

#define SHA256_BYTES 32

void apcu_key_hash(apcu_key *key, zend_string *name)
{
    size_t prefix = MIN(ZSTR_LEN(name), APCU_PLAIN_KEY_MAX);
    memcpy(key->hashed, ZSTR_VAL(name), prefix);
    key->hashed[prefix] = (char)APCU_HASH_MARK;
    PHP_SHA256_CTX context;
    PHP_SHA256Init(&context);
    PHP_SHA256Update(&context, (const unsigned char *)ZSTR_VAL(name), ZSTR_LEN(name));
    PHP_SHA256Final((unsigned char *)key->hashed + prefix + 1, &context);
    key->at = key->hashed;
    key->bytes = prefix + 1 + SHA256_BYTES;
    key->name = name;
}

zend_string *apcu_name_of_value(const char *value, size_t bytes)
{
    uint32_t length;
    if (bytes < sizeof length) {
        return NULL;
    }
    memcpy(&length, value, sizeof length);
    if (length > bytes - sizeof length) {
        return NULL;
    }
    return zend_string_init(value + sizeof length, length, 0);
}
