// The compact form of a plain array. A plain array is a tree of arrays, scalars and strings,
// without references, objects and resources.
//
// Each value begins with a type byte. Its content depends on the type:
// - null, false, true: nothing.
// - An integer: a number. Small integers are part of the type byte.
// - A double: its 8 bytes.
// - A string: its length as a number, and its bytes. A short length is part of the type byte.
// - A list, an array with the keys 0, 1, 2 and so on: the number of items, and their values.
// - A map, any other array: the number of items, and for each a key, which is an integer or a
//   string, and a value.
//
// A number has 7 bits per byte, the lowest first; the high bit is set in all bytes but the last. An
// integer is shifted by one bit to make room for its sign; the bits of a negative one are inverted.

#include "values.h"

// The version byte in front of the array, because the form can change between versions.
#define FORM 1

enum {
    TYPE_NULL,
    TYPE_FALSE,
    TYPE_TRUE,
    TYPE_LONG,
    TYPE_DOUBLE,
    TYPE_STRING,
    TYPE_LIST,
    TYPE_MAP,
    TYPE_SMALL = 0x10,
    TYPE_SHORT = 0x40,
};

#define SMALL_COUNT (TYPE_SHORT - TYPE_SMALL)
#define SHORT_COUNT (256 - TYPE_SHORT)

// Deeper arrays are left to the serializer, because the C stack is limited.
#define DEPTH_MAX 200

// The most bytes before the content of a string: the type and a number of 64 bits.
#define HEAD_MAX 11

static apcu_plain encode_array(apcu_writer *writer, HashTable *array, unsigned depth);

static void put_byte(apcu_writer *writer, unsigned byte)
{
    *writer->at++ = (char)byte;
}

static void put_number(apcu_writer *writer, uint64_t number)
{
    while (number >= 0x80) {
        put_byte(writer, (unsigned)(number & 0x7F) | 0x80);
        number >>= 7;
    }
    put_byte(writer, (unsigned)number);
}

static void put_long(apcu_writer *writer, zend_long number)
{
    if (number >= 0 && number < SMALL_COUNT) {
        put_byte(writer, TYPE_SMALL + (unsigned)number);
        return;
    }
    put_byte(writer, TYPE_LONG);
    uint64_t bits = (uint64_t)number;
    put_number(writer, bits << 1 ^ (number < 0 ? UINT64_MAX : 0));
}

static bool encode_string(apcu_writer *writer, const zend_string *text)
{
    size_t bytes = ZSTR_LEN(text);
    if (!apcu_reserve(writer, HEAD_MAX + bytes)) {
        return false;
    }
    if (bytes < SHORT_COUNT) {
        put_byte(writer, TYPE_SHORT + (unsigned)bytes);
    } else {
        put_byte(writer, TYPE_STRING);
        put_number(writer, bytes);
    }
    memcpy(writer->at, ZSTR_VAL(text), bytes);
    writer->at += bytes;
    return true;
}

static apcu_plain encode_value(apcu_writer *writer, zval *value, unsigned depth)
{
    double number;
    if (!apcu_reserve(writer, HEAD_MAX)) {
        return APCU_TOO_LARGE;
    }
    switch (Z_TYPE_P(value)) {
        case IS_NULL:
            put_byte(writer, TYPE_NULL);
            return APCU_PLAIN;
        case IS_FALSE:
            put_byte(writer, TYPE_FALSE);
            return APCU_PLAIN;
        case IS_TRUE:
            put_byte(writer, TYPE_TRUE);
            return APCU_PLAIN;
        case IS_LONG:
            put_long(writer, Z_LVAL_P(value));
            return APCU_PLAIN;
        case IS_DOUBLE:
            put_byte(writer, TYPE_DOUBLE);
            number = Z_DVAL_P(value);
            memcpy(writer->at, &number, sizeof number);
            writer->at += sizeof number;
            return APCU_PLAIN;
        case IS_STRING:
            return encode_string(writer, Z_STR_P(value)) ? APCU_PLAIN : APCU_TOO_LARGE;
        case IS_ARRAY:
            return encode_array(writer, Z_ARRVAL_P(value), depth);
        case IS_RESOURCE:
            return APCU_HAS_RESOURCE;
        default:
            return APCU_NOT_PLAIN;
    }
}

// An array with a string key that is a decimal number is left to the serializer, because
// unserialize() converts such a key to an integer.
static apcu_plain encode_key(apcu_writer *writer, zend_ulong index, const zend_string *name)
{
    zend_ulong number;
    if (name == NULL) {
        if (!apcu_reserve(writer, HEAD_MAX)) {
            return APCU_TOO_LARGE;
        }
        put_long(writer, (zend_long)index);
        return APCU_PLAIN;
    }
    if (ZEND_HANDLE_NUMERIC_STR(ZSTR_VAL(name), ZSTR_LEN(name), number)) {
        return APCU_NOT_PLAIN;
    }
    return encode_string(writer, name) ? APCU_PLAIN : APCU_TOO_LARGE;
}

static apcu_plain encode_list(apcu_writer *writer, HashTable *array, unsigned depth)
{
    zval *value;
    ZEND_HASH_FOREACH_VAL(array, value) {
        apcu_plain outcome = encode_value(writer, value, depth);
        if (outcome != APCU_PLAIN) {
            return outcome;
        }
    } ZEND_HASH_FOREACH_END();
    return APCU_PLAIN;
}

static apcu_plain encode_map(apcu_writer *writer, HashTable *array, unsigned depth)
{
    zend_ulong index;
    zend_string *name;
    zval *value;
    ZEND_HASH_FOREACH_KEY_VAL(array, index, name, value) {
        apcu_plain outcome = encode_key(writer, index, name);
        if (outcome == APCU_PLAIN) {
            outcome = encode_value(writer, value, depth);
        }
        if (outcome != APCU_PLAIN) {
            return outcome;
        }
    } ZEND_HASH_FOREACH_END();
    return APCU_PLAIN;
}

static apcu_plain encode_array(apcu_writer *writer, HashTable *array, unsigned depth)
{
    if (depth == DEPTH_MAX) {
        return APCU_NOT_PLAIN;
    }
    if (!apcu_reserve(writer, HEAD_MAX)) {
        return APCU_TOO_LARGE;
    }
    bool is_list = zend_array_is_list(array);
    put_byte(writer, is_list ? TYPE_LIST : TYPE_MAP);
    put_number(writer, zend_hash_num_elements(array));
    return is_list ? encode_list(writer, array, depth + 1) : encode_map(writer, array, depth + 1);
}

apcu_plain apcu_array_encode(apcu_writer *writer, HashTable *array)
{
    if (!apcu_reserve(writer, 1)) {
        return APCU_TOO_LARGE;
    }
    put_byte(writer, FORM);
    return encode_array(writer, array, 0);
}

// The bytes that are not decoded yet. They may be damaged, so each read checks the end.
typedef struct reader {
    const unsigned char *at;
    const unsigned char *end;
    // The number of items that all further arrays together can have: at first the number of bytes,
    // because each item takes at least a byte.
    uint64_t items;
} reader;

static bool decode_value(reader *reader, zval *value, unsigned depth);

static bool take_number(reader *reader, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        unsigned byte = *reader->at++;
        *number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool take_long(reader *reader, unsigned type, zend_long *number)
{
    if (type >= TYPE_SMALL) {
        *number = (zend_long)type - TYPE_SMALL;
        return true;
    }
    uint64_t bits;
    if (!take_number(reader, &bits)) {
        return false;
    }
    *number = (zend_long)(bits >> 1 ^ (0 - (bits & 1)));
    return true;
}

// Finds the bytes of a string, without copying them.
static bool take_string(reader *reader, unsigned type, const char **text, size_t *bytes)
{
    uint64_t length = type - TYPE_SHORT;
    if (type < TYPE_SHORT && !take_number(reader, &length)) {
        return false;
    }
    if (length > (uint64_t)(reader->end - reader->at)) {
        return false;
    }
    *text = (const char *)reader->at;
    *bytes = length;
    reader->at += length;
    return true;
}

static bool is_long(unsigned type)
{
    return type == TYPE_LONG || (type >= TYPE_SMALL && type < TYPE_SHORT);
}

static bool is_string(unsigned type)
{
    return type == TYPE_STRING || type >= TYPE_SHORT;
}

static bool decode_list(reader *reader, HashTable *array, uint32_t count, unsigned depth)
{
    zend_hash_real_init_packed(array);
    for (uint32_t at = 0; at < count; ++at) {
        zval value;
        if (!decode_value(reader, &value, depth)) {
            return false;
        }
        zend_hash_next_index_insert_new(array, &value);
    }
    return true;
}

static bool decode_item(reader *reader, HashTable *array, unsigned depth)
{
    zval value;
    unsigned type = reader->at < reader->end ? *reader->at++ : 0;
    if (is_long(type)) {
        zend_long index;
        if (!take_long(reader, type, &index) || !decode_value(reader, &value, depth)) {
            return false;
        }
        if (zend_hash_index_add(array, (zend_ulong)index, &value) != NULL) {
            return true;
        }
        zval_ptr_dtor(&value);
        return false;
    }
    const char *text;
    size_t bytes;
    if (!is_string(type) || !take_string(reader, type, &text, &bytes)) {
        return false;
    }
    if (!decode_value(reader, &value, depth)) {
        return false;
    }
    zend_ulong number;
    zend_string *name = zend_string_init_existing_interned(text, bytes, 0);
    // PHP looks up the text of a number as an integer, so it is not valid as a string key.
    bool is_new = !ZEND_HANDLE_NUMERIC_STR(ZSTR_VAL(name), bytes, number)
        && zend_hash_add(array, name, &value) != NULL;
    zend_string_release(name);
    if (!is_new) {
        zval_ptr_dtor(&value);
    }
    return is_new;
}

static bool decode_map(reader *reader, HashTable *array, uint32_t count, unsigned depth)
{
    zend_hash_real_init_mixed(array);
    for (uint32_t at = 0; at < count; ++at) {
        if (!decode_item(reader, array, depth)) {
            return false;
        }
    }
    return true;
}

static bool decode_array(reader *reader, unsigned type, zval *value, unsigned depth)
{
    uint64_t count;
    if (depth == DEPTH_MAX || !take_number(reader, &count) || count > reader->items
        || count > HT_MAX_SIZE) {
        return false;
    }
    // The array is allocated with its count before its items are read. If each nested array could
    // claim the same bytes, damaged bytes could allocate many times their number.
    reader->items -= count;
    if (count == 0) {
        ZVAL_EMPTY_ARRAY(value);
        return true;
    }
    HashTable *array = zend_new_array((uint32_t)count);
    bool is_whole = type == TYPE_LIST ? decode_list(reader, array, (uint32_t)count, depth + 1)
                                      : decode_map(reader, array, (uint32_t)count, depth + 1);
    if (!is_whole) {
        zend_array_destroy(array);
        return false;
    }
    ZVAL_ARR(value, array);
    return true;
}

static bool decode_double(reader *reader, zval *value)
{
    double number;
    if ((size_t)(reader->end - reader->at) < sizeof number) {
        return false;
    }
    memcpy(&number, reader->at, sizeof number);
    reader->at += sizeof number;
    ZVAL_DOUBLE(value, number);
    return true;
}

static bool decode_string(reader *reader, unsigned type, zval *value)
{
    const char *text;
    size_t bytes;
    if (!take_string(reader, type, &text, &bytes)) {
        return false;
    }
    ZVAL_STRINGL_FAST(value, text, bytes);
    return true;
}

static bool decode_value(reader *reader, zval *value, unsigned depth)
{
    zend_long number;
    if (reader->at == reader->end) {
        return false;
    }
    unsigned type = *reader->at++;
    if (is_string(type)) {
        return decode_string(reader, type, value);
    }
    switch (type) {
        case TYPE_NULL:
            ZVAL_NULL(value);
            return true;
        case TYPE_FALSE:
            ZVAL_FALSE(value);
            return true;
        case TYPE_TRUE:
            ZVAL_TRUE(value);
            return true;
        case TYPE_DOUBLE:
            return decode_double(reader, value);
        case TYPE_LIST:
        case TYPE_MAP:
            return decode_array(reader, type, value, depth);
        default:
            if (!is_long(type) || !take_long(reader, type, &number)) {
                return false;
            }
            ZVAL_LONG(value, number);
            return true;
    }
}

bool apcu_array_decode(zval *value, const char *at, size_t bytes)
{
    reader reader = {(const unsigned char *)at, (const unsigned char *)at + bytes, bytes};
    if (bytes < 2 || *reader.at++ != FORM) {
        return false;
    }
    unsigned type = *reader.at++;
    if ((type != TYPE_LIST && type != TYPE_MAP) || !decode_array(&reader, type, value, 0)) {
        return false;
    }
    if (reader.at == reader.end) {
        return true;
    }
    zval_ptr_dtor(value);
    ZVAL_NULL(value);
    return false;
}
