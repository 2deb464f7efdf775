// The values of a server. Their flags are the same as php-memcached's, so that each extension reads
// the other's values with their types. Arrays and null are serialized, as in php-memcached.

#include "larder/larder_php.h"

// The flags of a value that php-memcached has compressed with FastLZ.
#define FAST_LZ (0x10u | 0x40u)

static void finish(apcu_encoded *encoded)
{
    if (encoded->serialized == NULL) {
        encoded->at = encoded->writer.begin;
        encoded->bytes = encoded->writer.at - encoded->writer.begin;
    }
}

// Serializes an array or null. False if it contains a resource, which serialize() would replace by
// 0.
static bool serialize(apcu_encoded *encoded, zval *value)
{
    encoded->serialized = NULL;
    encoded->flags = 0;
    apcu_writer_begin(&encoded->writer);
    if (Z_TYPE_P(value) == IS_ARRAY
        && apcu_array_encode(&encoded->writer, Z_ARRVAL_P(value)) == APCU_HAS_RESOURCE
        && apcu_refuse_resource(true)) {
        apcu_encoded_free(encoded);
        return false;
    }
    encoded->writer.at = encoded->writer.begin;
    if (!apcu_serialize(encoded, value)) {
        apcu_encoded_free(encoded);
        return false;
    }
    finish(encoded);
    return true;
}

bool larder_remote_encode(apcu_encoded *encoded, zval *value)
{
    static const apcu_key none = {0};
    zval *plain = value;
    ZVAL_DEREF(plain);
    if (Z_TYPE_P(plain) == IS_ARRAY || Z_TYPE_P(plain) <= IS_NULL) {
        return serialize(encoded, plain);
    }
    return apcu_encode(encoded, value, &none);
}

// Returns the length of a stored value without the blanks after a number. memcached adds blanks if
// a decrement makes a number shorter, so that the item keeps its length.
static size_t without_blanks(const char *at, size_t bytes, uint32_t flags)
{
    while ((flags & LARDER_TAG_MASK) == LARDER_TAG_LONG && bytes > 1 && at[bytes - 1] == ' ') {
        --bytes;
    }
    return bytes;
}

// A function that `with_plain` calls with the uncompressed bytes of a value and its tag.
typedef bool (*plain_function)(void *context, const char *at, size_t bytes, uint32_t flags);

static bool with_plain(const char *at, size_t bytes, uint32_t flags, plain_function use,
                       void *context)
{
    uint32_t form = flags & LARDER_REMOTE_FORM_MASK;
    if (EXPECTED(form == 0)) {
        return use(context, at, without_blanks(at, bytes, flags), flags & LARDER_TAG_MASK);
    }
    // Other forms cannot be read: values that php-memcached has compressed with zlib or zstd miss.
    zend_string *unpacked = form == FAST_LZ ? larder_remote_unpack(at, bytes) : NULL;
    if (unpacked == NULL) {
        return false;
    }
    bool result = use(context, ZSTR_VAL(unpacked), ZSTR_LEN(unpacked), flags & LARDER_TAG_MASK);
    zend_string_release(unpacked);
    return result;
}

static bool decode(void *value, const char *at, size_t bytes, uint32_t tag)
{
    static const apcu_key none = {0};
    return apcu_decode(value, at, bytes, tag, &none);
}

bool larder_remote_decode(zval *value, const char *at, size_t bytes, uint32_t flags)
{
    return with_plain(at, bytes, flags, decode, value);
}

static bool is_equal(void *context, const char *at, size_t bytes, uint32_t tag)
{
    const apcu_encoded *expected = context;
    return tag == (expected->flags & LARDER_TAG_MASK) && bytes == expected->bytes
        && memcmp(at, expected->at, bytes) == 0;
}

bool larder_remote_is(const apcu_encoded *expected, const char *at, size_t bytes, uint32_t flags)
{
    return with_plain(at, bytes, flags, is_equal, (void *)expected);
}
