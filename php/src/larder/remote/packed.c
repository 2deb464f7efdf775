// Decompresses values that php-memcached has compressed with FastLZ, its default. The bytes are the
// length of the value in four bytes, and a sequence of instructions. An instruction appends literal
// bytes, which follow it, or a copy of earlier bytes of the output.

#include "larder/larder_php.h"

#define LENGTH_BYTES 4

// The most output bytes for one input byte. A longer value is damaged.
#define EXPANSION_MAX 256

// The longest distance of a copy that fits into its instruction. If it is this number, two more
// bytes follow, whose number is added to it.
#define NEAR_MAX 8191

typedef struct unpacking {
    const unsigned char *at;
    const unsigned char *end;
    unsigned char *begin;
    unsigned char *out;
    unsigned char *out_end;
} unpacking;

static bool literals(unpacking *unpacking, size_t bytes)
{
    if ((size_t)(unpacking->end - unpacking->at) < bytes
        || (size_t)(unpacking->out_end - unpacking->out) < bytes) {
        return false;
    }
    memcpy(unpacking->out, unpacking->at, bytes);
    unpacking->at += bytes;
    unpacking->out += bytes;
    return true;
}

// Copies byte by byte, because the source may overlap the destination: the copy then repeats bytes
// that it has just written.
static bool copy(unpacking *unpacking, size_t distance, size_t bytes)
{
    if ((size_t)(unpacking->out - unpacking->begin) < distance
        || (size_t)(unpacking->out_end - unpacking->out) < bytes) {
        return false;
    }
    for (const unsigned char *from = unpacking->out - distance; bytes > 0; --bytes) {
        *unpacking->out++ = *from++;
    }
    return true;
}

static bool next_byte(unpacking *unpacking, size_t *byte)
{
    if (unpacking->at == unpacking->end) {
        return false;
    }
    *byte = *unpacking->at++;
    return true;
}

static bool copy_of(unpacking *unpacking, size_t head, bool has_far_copies)
{
    size_t bytes = (head >> 5) + 2, distance = (head & 31) << 8, byte = 0, high, low;
    if (head >> 5 == 7) {
        do {
            if (!next_byte(unpacking, &byte)) {
                return false;
            }
            bytes += byte;
        } while (has_far_copies && byte == 255);
    }
    if (!next_byte(unpacking, &byte)) {
        return false;
    }
    distance += byte;
    if (has_far_copies && distance == NEAR_MAX) {
        if (!next_byte(unpacking, &high) || !next_byte(unpacking, &low)) {
            return false;
        }
        distance += high << 8 | low;
    }
    return copy(unpacking, distance + 1, bytes);
}

static bool unpack(unpacking *unpacking)
{
    size_t head;
    // The three high bits of the first byte are the level.
    unsigned char level = unpacking->at < unpacking->end ? *unpacking->at >> 5 : 2;
    if (level > 1) {
        return false;
    }
    bool is_first = true;
    while (next_byte(unpacking, &head)) {
        head = is_first ? head & 31 : head;
        is_first = false;
        if (!(head < 32 ? literals(unpacking, head + 1) : copy_of(unpacking, head, level == 1))) {
            return false;
        }
    }
    return unpacking->out == unpacking->out_end;
}

zend_string *larder_remote_unpack(const char *at, size_t bytes)
{
    uint32_t length;
    if (bytes < LENGTH_BYTES) {
        return NULL;
    }
    memcpy(&length, at, sizeof length);
    if (length > bytes * EXPANSION_MAX) {
        return NULL;
    }
    zend_string *value = zend_string_alloc(length, 0);
    unsigned char *begin = (unsigned char *)ZSTR_VAL(value);
    unpacking unpacking = {
        .at = (const unsigned char *)at + LENGTH_BYTES,
        .end = (const unsigned char *)at + bytes,
        .begin = begin,
        .out = begin,
        .out_end = begin + length,
    };
    if (!unpack(&unpacking)) {
        zend_string_release(value);
        return NULL;
    }
    ZSTR_VAL(value)[length] = 0;
    return value;
}
