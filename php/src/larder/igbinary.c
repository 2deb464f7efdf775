// Calls igbinary through the functions that its module exports. They are looked up when the first
// value needs them and not at the start, so that PHP may load the two modules in either order.

#include "larder_php.h"
#include "zend_portability.h"

typedef int (*serialize_function)(uint8_t **bytes, size_t *count, zval *value);
typedef int (*unserialize_function)(const uint8_t *bytes, size_t count, zval *value);

static serialize_function serialize;
static unserialize_function unserialize;

bool larder_igbinary_is_loaded(void)
{
    if (serialize == NULL || unserialize == NULL) {
        const zend_module_entry *module =
            zend_hash_str_find_ptr(&module_registry, "igbinary", sizeof "igbinary" - 1);
        if (module == NULL) {
            return false;
        }
        serialize = (serialize_function)DL_FETCH_SYMBOL(module->handle, "igbinary_serialize");
        unserialize =
            (unserialize_function)DL_FETCH_SYMBOL(module->handle, "igbinary_unserialize");
    }
    return serialize != NULL && unserialize != NULL;
}

bool larder_igbinary_serialize(apcu_writer *writer, zval *value)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    bool is_well = serialize(&bytes, &count, value) == 0 && EG(exception) == NULL
        && apcu_reserve(writer, count);
    if (is_well) {
        memcpy(writer->at, bytes, count);
        writer->at += count;
    }
    if (bytes != NULL) {
        efree(bytes);
    }
    return is_well;
}

bool larder_igbinary_unserialize(zval *value, const char *at, size_t bytes)
{
    return unserialize((const uint8_t *)at, bytes, value) == 0 && EG(exception) == NULL;
}

// The content of a value after its type byte: `skipped` bytes, or a length of `length_bytes` bytes
// and then that number of bytes.
typedef struct form {
    bool is_known;
    uint8_t skipped;
    uint8_t length_bytes;
} form;

// All types of igbinary except objects. "Again" is a reference to an earlier string or array. The
// keys and values of an array are not skipped: they follow it and have types themselves.
static const form forms[] = {
    [0x00] = {true, 0, 0},                                               // null
    [0x01] = {true, 1, 0}, [0x02] = {true, 2, 0}, [0x03] = {true, 4, 0}, // an array again
    [0x04] = {true, 0, 0}, [0x05] = {true, 0, 0},                        // false, true
    [0x06] = {true, 1, 0}, [0x07] = {true, 1, 0},                        // integers
    [0x08] = {true, 2, 0}, [0x09] = {true, 2, 0},
    [0x0A] = {true, 4, 0}, [0x0B] = {true, 4, 0},
    [0x0C] = {true, 8, 0}, [0x0D] = {true, 0, 0},                        // double, empty string
    [0x0E] = {true, 1, 0}, [0x0F] = {true, 2, 0}, [0x10] = {true, 4, 0}, // a string again
    [0x11] = {true, 0, 1}, [0x12] = {true, 0, 2}, [0x13] = {true, 0, 4}, // strings
    [0x14] = {true, 1, 0}, [0x15] = {true, 2, 0}, [0x16] = {true, 4, 0}, // arrays
    [0x20] = {true, 8, 0}, [0x21] = {true, 8, 0},                        // long integers
    [0x25] = {true, 0, 0},                                               // a reference follows
};

#define HEADER_BYTES 4

// Reads all values one after the other, without regard to the number of items of the arrays.
// igbinary reads the same values in the same order, but stops at the end of the outermost array. So
// it cannot reach an object that this function does not find, even in damaged bytes.
bool larder_igbinary_has_objects(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text + HEADER_BYTES;
    const unsigned char *end = (const unsigned char *)text + bytes;
    if (bytes < HEADER_BYTES) {
        return true;
    }
    while (at < end) {
        unsigned char type = *at++;
        if (type >= sizeof forms / sizeof *forms || !forms[type].is_known) {
            return true;
        }
        size_t skipped = forms[type].skipped, length = 0;
        if ((size_t)(end - at) < skipped + forms[type].length_bytes) {
            return true;
        }
        for (int byte = 0; byte < forms[type].length_bytes; ++byte) {
            length = length << 8 | *at++;
        }
        if ((size_t)(end - at) < skipped + length) {
            return true;
        }
        at += skipped + length;
    }
    return false;
}
