// Values: scalars and strings unchanged, plain arrays in a compact form, everything else by a
// serializer.

#include "values.h"
#include "main/snprintf.h"
#include "zend_strtod.h"

// With 17 digits, different doubles have different texts.
#define DOUBLE_DIGITS 17
#define DOUBLE_TEXT_MAX 64

void apcu_writer_begin(apcu_writer *writer)
{
    writer->begin = writer->at = writer->room;
    writer->end = writer->room + sizeof writer->room;
    writer->limit = apcu_value_limit();
}

bool apcu_writer_grow(apcu_writer *writer, size_t bytes)
{
    size_t used = writer->at - writer->begin;
    if (bytes > writer->limit || used > writer->limit - bytes) {
        return false;
    }
    size_t capacity = MAX(used + bytes, 2 * (size_t)(writer->end - writer->begin));
    char *begin;
    if (writer->begin == writer->room) {
        begin = emalloc(capacity);
        memcpy(begin, writer->room, used);
    } else {
        begin = erealloc(writer->begin, capacity);
    }
    writer->begin = begin;
    writer->at = begin + used;
    writer->end = begin + capacity;
    return true;
}

static bool write_bytes(apcu_writer *writer, const char *at, size_t bytes)
{
    if (!apcu_reserve(writer, bytes)) {
        return false;
    }
    memcpy(writer->at, at, bytes);
    writer->at += bytes;
    return true;
}

size_t apcu_long_text(char *text, zend_long number)
{
    char backwards[24];
    size_t count = 0;
    zend_ulong rest = number < 0 ? 0 - (zend_ulong)number : (zend_ulong)number;
    do {
        backwards[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (number < 0) {
        backwards[count++] = '-';
    }
    for (size_t at = 0; at < count; ++at) {
        text[at] = backwards[count - 1 - at];
    }
    return count;
}

bool apcu_long_of_text(const char *at, size_t bytes, zend_long *number)
{
    bool is_negative = bytes > 0 && at[0] == '-';
    size_t digits = bytes - is_negative;
    if (digits == 0 || digits > 20) {
        return false;
    }
    zend_ulong sum = 0;
    for (const char *digit = at + is_negative; digit < at + bytes; ++digit) {
        if (*digit < '0' || *digit > '9') {
            return false;
        }
        sum = sum * 10 + (zend_ulong)(*digit - '0');
    }
    *number = (zend_long)(is_negative ? 0 - sum : sum);
    return true;
}

// Writes the same text as php-memcached.
static bool write_double(apcu_writer *writer, double number)
{
    if (zend_isnan(number)) {
        return write_bytes(writer, "NaN", 3);
    }
    if (zend_isinf(number)) {
        const char *text = number > 0 ? "Infinity" : "-Infinity";
        return write_bytes(writer, text, strlen(text));
    }
    char text[DOUBLE_TEXT_MAX];
    php_gcvt(number, DOUBLE_DIGITS, '.', 'e', text);
    return write_bytes(writer, text, strlen(text));
}

static bool decode_double(zval *value, const char *at, size_t bytes)
{
    char text[DOUBLE_TEXT_MAX];
    if (bytes == 0 || bytes >= sizeof text) {
        return false;
    }
    memcpy(text, at, bytes);
    text[bytes] = 0;
    if (strcmp(text, "NaN") == 0) {
        ZVAL_DOUBLE(value, ZEND_NAN);
    } else if (strcmp(text, "Infinity") == 0) {
        ZVAL_DOUBLE(value, ZEND_INFINITY);
    } else if (strcmp(text, "-Infinity") == 0) {
        ZVAL_DOUBLE(value, -ZEND_INFINITY);
    } else {
        ZVAL_DOUBLE(value, zend_strtod(text, NULL));
    }
    return true;
}

// Appends an array to the writer. If the array is not plain, discards the part of the compact form
// that was already written, and uses the serializer.
static bool encode_array(apcu_encoded *encoded, zval *value)
{
    size_t front = encoded->writer.at - encoded->writer.begin;
    zval *array = value;
    ZVAL_DEREF(array);
    if (UNEXPECTED(EG(exception) != NULL && apcu_serializes_as_php())) {
        // An earlier value of the same call has thrown, so serialize() would fail.
        return false;
    }
    switch (apcu_array_encode(&encoded->writer, Z_ARRVAL_P(array))) {
        case APCU_PLAIN:
            encoded->flags |= LARDER_TAG_ARRAY;
            return true;
        case APCU_HAS_RESOURCE:
            if (apcu_refuse_resource(true)) {
                return false;
            }
            break;
        case APCU_TOO_LARGE:
            // serialize() writes an array in full at each occurrence, so its text would be as
            // large. igbinary may write it once.
            if (apcu_serializes_in_full()) {
                return false;
            }
            break;
        case APCU_NOT_PLAIN:
            break;
    }
    encoded->writer.at = encoded->writer.begin + front;
    return apcu_serialize(encoded, value);
}

static bool encode_value(apcu_encoded *encoded, zval *value)
{
    apcu_writer *writer = &encoded->writer;
    zval *plain = value;
    ZVAL_DEREF(plain);
    switch (Z_TYPE_P(plain)) {
        case IS_UNDEF:
        case IS_NULL:
            encoded->flags |= LARDER_TAG_NULL;
            return true;
        case IS_FALSE:
            encoded->flags |= LARDER_TAG_BOOL;
            return true;
        case IS_TRUE:
            encoded->flags |= LARDER_TAG_BOOL;
            return write_bytes(writer, "1", 1);
        case IS_LONG:
            encoded->flags |= LARDER_TAG_LONG;
            if (!apcu_reserve(writer, 24)) {
                return false;
            }
            writer->at += apcu_long_text(writer->at, Z_LVAL_P(plain));
            return true;
        case IS_DOUBLE:
            encoded->flags |= LARDER_TAG_DOUBLE;
            return write_double(writer, Z_DVAL_P(plain));
        case IS_STRING:
            encoded->flags |= LARDER_TAG_STRING;
            return write_bytes(writer, Z_STRVAL_P(plain), Z_STRLEN_P(plain));
        case IS_ARRAY:
            return encode_array(encoded, value);
        case IS_OBJECT:
            return apcu_serialize(encoded, value);
        default:
            return !apcu_refuse_resource(false);
    }
}

bool apcu_encode(apcu_encoded *encoded, zval *value, const apcu_key *key)
{
    encoded->serialized = NULL;
    encoded->flags = 0;
    if (EXPECTED(Z_TYPE_P(value) == IS_STRING && key->name == NULL)) {
        encoded->writer.begin = encoded->writer.room;
        encoded->at = Z_STRVAL_P(value);
        encoded->bytes = Z_STRLEN_P(value);
        encoded->flags = LARDER_TAG_STRING;
        return true;
    }
    apcu_writer_begin(&encoded->writer);
    if (key->name != NULL) {
        uint32_t length = (uint32_t)ZSTR_LEN(key->name);
        encoded->flags = APCU_HAS_NAME;
        if (ZSTR_LEN(key->name) > UINT32_MAX
            || !write_bytes(&encoded->writer, (const char *)&length, sizeof length)
            || !write_bytes(&encoded->writer, ZSTR_VAL(key->name), length)) {
            apcu_encoded_free(encoded);
            return false;
        }
    }
    if (!encode_value(encoded, value)) {
        apcu_encoded_free(encoded);
        return false;
    }
    if (encoded->serialized == NULL) {
        encoded->at = encoded->writer.begin;
        encoded->bytes = encoded->writer.at - encoded->writer.begin;
    }
    return true;
}

void apcu_encoded_free(apcu_encoded *encoded)
{
    if (encoded->serialized != NULL) {
        efree(encoded->serialized);
    }
    if (encoded->writer.begin != encoded->writer.room) {
        efree(encoded->writer.begin);
    }
}

static bool decode_tagged(zval *value, const char *at, size_t bytes, uint32_t tag)
{
    zend_long number;
    switch (tag) {
        case LARDER_TAG_STRING:
        case LARDER_TAG_TEXT:
            if (bytes <= 1) {
                ZVAL_CHAR(value, bytes ? at[0] : 0);
                if (bytes == 0) {
                    ZVAL_EMPTY_STRING(value);
                }
            } else {
                ZVAL_STRINGL(value, at, bytes);
            }
            return true;
        case LARDER_TAG_LONG:
            if (!apcu_long_of_text(at, bytes, &number)) {
                return false;
            }
            ZVAL_LONG(value, number);
            return true;
        case LARDER_TAG_DOUBLE:
            return decode_double(value, at, bytes);
        case LARDER_TAG_BOOL:
            // php-memcached stores false without bytes; other programs may store a 0.
            ZVAL_BOOL(value, bytes != 0 && !(bytes == 1 && at[0] == '0'));
            return true;
        case LARDER_TAG_NULL:
            ZVAL_NULL(value);
            return true;
        case LARDER_TAG_ARRAY:
            return apcu_array_decode(value, at, bytes);
        default:
            return apcu_unserialize(value, at, bytes, tag);
    }
}

bool apcu_decode(zval *value, const char *at, size_t bytes, uint32_t flags, const apcu_key *key)
{
    if (UNEXPECTED(((flags & APCU_HAS_NAME) != 0) != (key->name != NULL))) {
        return false;
    }
    if (UNEXPECTED(key->name != NULL)) {
        uint32_t length = (uint32_t)ZSTR_LEN(key->name);
        size_t front = sizeof length + length;
        if (bytes < front || memcmp(at, &length, sizeof length) != 0
            || memcmp(at + sizeof length, ZSTR_VAL(key->name), length) != 0) {
            return false;
        }
        at += front;
        bytes -= front;
    }
    return decode_tagged(value, at, bytes, flags & LARDER_TAG_MASK);
}
