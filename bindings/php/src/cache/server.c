// The values of a server, whose items carry no flags for this client. Strings are stored as they
// are, and integers from 0 on as decimal text, so that other clients can read them and the server
// can count. Other values, and strings that look like one of these forms, have a mark in front.

#include "larder_php.h"

// The bytes of the mark, which a tag follows.
#define MARK "\0Lrd"
#define MARK_BYTES 4
#define FRONT_BYTES (MARK_BYTES + 1)

static bool has_mark(const char *at, size_t bytes)
{
    return bytes >= FRONT_BYTES && memcmp(at, MARK, MARK_BYTES) == 0;
}

// True for the text of an integer from 0 on. A decrement leaves blanks behind it.
static bool is_number(const char *at, size_t bytes, zend_long *number)
{
    while (bytes > 1 && at[bytes - 1] == ' ') {
        --bytes;
    }
    if (bytes == 0 || bytes > 19 || (at[0] == '0' && bytes > 1) || at[0] == '-') {
        return false;
    }
    return apcu_long_of_text(at, bytes, number) && *number >= 0;
}

void larder_frame(apcu_encoded *encoded)
{
    uint32_t tag = encoded->flags & LARDER_TAG_MASK;
    zend_long number;
    bool looks_like_number = is_number(encoded->at, encoded->bytes, &number);
    encoded->flags = 0;
    if ((tag == LARDER_TAG_STRING && !looks_like_number && !has_mark(encoded->at, encoded->bytes))
        || (tag == LARDER_TAG_LONG && looks_like_number)) {
        return;
    }
    unsigned char *framed = safe_emalloc(encoded->bytes, 1, FRONT_BYTES);
    memcpy(framed, MARK, MARK_BYTES);
    framed[MARK_BYTES] = (unsigned char)tag;
    memcpy(framed + FRONT_BYTES, encoded->at, encoded->bytes);
    if (encoded->serialized != NULL) {
        efree(encoded->serialized);
    }
    encoded->serialized = framed;
    encoded->at = (const char *)framed;
    encoded->bytes += FRONT_BYTES;
}

bool larder_unframe(zval *value, const char *at, size_t bytes, uint32_t flags)
{
    static const apcu_key none = {0};
    zend_long number;
    if (flags != 0) {
        // The flags of php-memcached. A compressed value misses.
        return (flags & ~(uint32_t)LARDER_TAG_MASK) == 0
            && apcu_decode(value, at, bytes, flags, &none);
    }
    if (has_mark(at, bytes)) {
        return apcu_decode(value, at + FRONT_BYTES, bytes - FRONT_BYTES,
                           (unsigned char)at[MARK_BYTES] & LARDER_TAG_MASK, &none);
    }
    if (is_number(at, bytes, &number)) {
        ZVAL_LONG(value, number);
        return true;
    }
    return apcu_decode(value, at, bytes, LARDER_TAG_STRING, &none);
}
