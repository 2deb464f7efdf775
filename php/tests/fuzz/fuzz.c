// An extension with which `fuzz.php` runs the decoder of values on bytes that the encoder did not
// write. The bytes end at an unreadable page, so that a read beyond them ends the process.

#include "values/values.h"
#include <signal.h>
#include <sys/mman.h>

// The longest input of a case.
#define INPUT_MAX (1 << 20)

// The memory that a decoded value may take: MEMORY_OF_VALUE, and MEMORY_OF_BYTE for each byte that
// is decoded. Undamaged values need almost as much: an array of one item has 2 bytes in the compact
// form, and takes 376 bytes in PHP.
#define MEMORY_OF_BYTE 256
#define MEMORY_OF_VALUE 4096

// The byte that the encoder writes before an array: see src/values/array.c.
#define FORM 1
#define TYPE_LIST 6
#define TYPE_MAP 7

static unsigned char *input_end;
// The bytes of the case.
static const unsigned char *case_at;
static size_t case_bytes;
static uint64_t random_state;

// The functions that src/values expects from a module. This module does not have a serializer.
size_t apcu_value_limit(void)
{
    return INPUT_MAX;
}

bool apcu_refuse_resource(bool is_nested)
{
    return true;
}

bool apcu_serializes_as_php(void)
{
    return false;
}

bool apcu_serializes_in_full(void)
{
    return true;
}

bool apcu_serialize(apcu_encoded *encoded, zval *value)
{
    return false;
}

bool apcu_unserialize(zval *value, const char *at, size_t bytes, uint32_t tag)
{
    return false;
}

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

// Returns a number below `limit`, or 0 if `limit` is 0. Small numbers are more frequent.
static size_t below(size_t limit)
{
    uint64_t number = next_random();
    uint64_t narrowed = number % 4 == 0 ? 1 + limit / 16 : limit;
    return limit == 0 ? 0 : (size_t)((number >> 8) % narrowed);
}

typedef struct input {
    size_t bytes;
    unsigned char at[INPUT_MAX];
} input;

static input current;

// Replaces `removed` bytes of the current input at a position, or all bytes from there if there are
// fewer, by `count` new ones. Does nothing if the result does not fit.
static void put(size_t at, size_t removed, const void *bytes, size_t count)
{
    removed = MIN(removed, current.bytes - at);
    size_t rest = current.bytes - at - removed;
    if (at + count + rest > INPUT_MAX) {
        return;
    }
    memmove(current.at + at + count, current.at + at + removed, rest);
    memcpy(current.at + at, bytes, count);
    current.bytes = at + count + rest;
}

static size_t number_to(unsigned char *text, uint64_t number)
{
    size_t count = 0;
    for (; number >= 0x80; number >>= 7) {
        text[count++] = (unsigned char)(number | 0x80);
    }
    text[count++] = (unsigned char)number;
    return count;
}

// Inserts nested arrays whose counts are as large as the number of bytes after them, or random. A
// decoder that allocates memory for each of these counts would take far too much.
static void put_nest(size_t at)
{
    unsigned char nest[1024];
    size_t count = 0;
    size_t levels = 1 + below(250);
    for (size_t level = 0; level < levels && count + 16 < sizeof nest; ++level) {
        nest[count++] = next_random() % 8 == 0 ? TYPE_MAP : TYPE_LIST;
        uint64_t most = current.bytes - at;
        count += number_to(nest + count, next_random() % 2 == 0 ? most : 1 + below(most));
    }
    put(at, 0, nest, count);
}

static void put_number(size_t at)
{
    static const uint64_t numbers[] = {0, 1, 127, 128, 255, 65535, INT32_MAX, UINT32_MAX,
        UINT32_MAX + UINT64_C(1), INT64_MAX, UINT64_MAX - 7, UINT64_MAX};
    unsigned char text[16];
    uint64_t number = numbers[next_random() % (sizeof numbers / sizeof *numbers)];
    put(at, below(3), text, number_to(text, number));
}

static void mutate(HashTable *corpus)
{
    static const unsigned char bytes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0x0F, 0x10, 0x3F, 0x40, 0x41,
        0x7F, 0x80, 0xFF};
    size_t at = below(current.bytes);
    size_t count = below(current.bytes - at + 1);
    unsigned char byte = (unsigned char)next_random();
    zval *other = zend_hash_index_find(corpus, next_random() % zend_hash_num_elements(corpus));
    switch (next_random() % 9) {
        case 0:
            current.bytes > 0 ? current.at[at] ^= (unsigned char)(1 << byte % 8) : 0;
            return;
        case 1:
            put(at, 1, &byte, 1);
            return;
        case 2:
            put(at, 1, &bytes[byte % sizeof bytes], 1);
            return;
        case 3:
            current.bytes = at;
            return;
        case 4:
            put(at, count, "", 0);
            return;
        case 5:
            put_number(at);
            return;
        case 6:
            put_nest(at);
            return;
        case 7:
            count = below(Z_STRLEN_P(other) + 1);
            put(at, below(32), Z_STRVAL_P(other), count);
            return;
        default:
            count = below(Z_STRLEN_P(other) + 1);
            put(at, 0, Z_STRVAL_P(other) + count, Z_STRLEN_P(other) - count);
            return;
    }
}

static void make_input(HashTable *corpus)
{
    zval *base = zend_hash_index_find(corpus, next_random() % zend_hash_num_elements(corpus));
    current.bytes = MIN(Z_STRLEN_P(base), INPUT_MAX);
    memcpy(current.at, Z_STRVAL_P(base), current.bytes);
    for (uint64_t round = next_random() % 6; round > 0; --round) {
        mutate(corpus);
    }
    if (current.bytes > 1 && next_random() % 16 != 0) {
        current.at[0] = FORM;
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "FAILED: %s, for %zu bytes:", what, case_bytes);
    for (size_t each = 0; each < MIN(case_bytes, 512); ++each) {
        fprintf(stderr, " %02x", case_at[each]);
    }
    fprintf(stderr, "\n");
    _exit(1);
}

static void handle_crash(int number)
{
    fail(number == SIGSEGV ? "the decoder crashes" : "the decoder fails");
}

// Checks that a decoded value encodes to bytes that decode to an equal value.
static void check_value(HashTable *array)
{
    apcu_key key = {0};
    apcu_encoded first, second;
    zval value, copy;
    ZVAL_ARR(&value, array);
    if (!apcu_encode(&first, &value, &key) || first.flags != LARDER_TAG_ARRAY) {
        fail("the encoder refuses a decoded array");
    }
    if (!apcu_decode(&copy, first.at, first.bytes, first.flags, &key)) {
        fail("a decoded array, encoded again, does not decode");
    }
    if (!apcu_encode(&second, &copy, &key) || first.bytes != second.bytes
        || memcmp(first.at, second.at, first.bytes) != 0) {
        fail("a decoded array, encoded again, decodes to another one");
    }
    zval_ptr_dtor(&copy);
    apcu_encoded_free(&first);
    apcu_encoded_free(&second);
}

// Decodes bytes. True if they are a value.
static bool decode(const void *bytes, size_t count, uint32_t flags, zend_string *name)
{
    unsigned char *at = input_end - count;
    memcpy(at, bytes, count);
    case_at = at;
    case_bytes = count;
    apcu_key key = {.name = name};
    size_t before = zend_memory_usage(0);
    zend_memory_reset_peak_usage();
    zval value;
    ZVAL_NULL(&value);
    bool is_value = apcu_decode(&value, (const char *)at, count, flags, &key);
    size_t most = zend_memory_peak_usage(0) - before;
    if (most > MEMORY_OF_VALUE + count * MEMORY_OF_BYTE) {
        fprintf(stderr, "%zu bytes of memory: ", most);
        fail("decoding takes too much memory");
    }
    if (is_value) {
        if (Z_TYPE(value) == IS_ARRAY) {
            check_value(Z_ARRVAL(value));
        }
        zval_ptr_dtor(&value);
    } else if (Z_TYPE(value) != IS_NULL) {
        // PHP code would receive this value.
        fail("damaged bytes leave a value");
    }
    zend_string *found = apcu_name_of_value((const char *)at, count);
    if (found != NULL) {
        zend_string_release(found);
    }
    if (zend_memory_usage(0) != before) {
        fail("decoding leaks memory");
    }
    return is_value;
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_any, 0, 0, 1)
    ZEND_ARG_INFO(0, first)
ZEND_END_ARG_INFO()

// fuzz_encode(array): ?string. The encoded form of an array.
static PHP_FUNCTION(fuzz_encode)
{
    zval *array;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY(array)
    ZEND_PARSE_PARAMETERS_END();
    apcu_key key = {0};
    apcu_encoded encoded;
    if (apcu_encode(&encoded, array, &key)) {
        RETVAL_STRINGL(encoded.at, encoded.bytes);
        apcu_encoded_free(&encoded);
    }
}

// fuzz_decode(bytes): bool. True if the bytes are an array.
static PHP_FUNCTION(fuzz_decode)
{
    zend_string *bytes;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(bytes)
    ZEND_PARSE_PARAMETERS_END();
    if (ZSTR_LEN(bytes) > INPUT_MAX) {
        zend_value_error("too long");
        RETURN_THROWS();
    }
    RETURN_BOOL(decode(ZSTR_VAL(bytes), ZSTR_LEN(bytes), LARDER_TAG_ARRAY, NULL));
}

// fuzz_run(list of encoded arrays, seed, cases): int. The number of cases that had a value.
static PHP_FUNCTION(fuzz_run)
{
    HashTable *corpus;
    zend_long seed, cases, values = 0;
    ZEND_PARSE_PARAMETERS_START(3, 3)
        Z_PARAM_ARRAY_HT(corpus)
        Z_PARAM_LONG(seed)
        Z_PARAM_LONG(cases)
    ZEND_PARSE_PARAMETERS_END();
    zend_string *name = zend_string_init(ZEND_STRL("\2\0\0\0name"), 0);
    random_state = (uint64_t)seed * 2 + 1;
    for (zend_long at = 0; at < cases; ++at) {
        make_input(corpus);
        // Most cases are arrays; the others have any tag, and a key in front.
        uint32_t flags = next_random() % 8 != 0 ? LARDER_TAG_ARRAY : next_random() % 16;
        bool has_name = next_random() % 16 == 0;
        if (has_name) {
            uint32_t length = (uint32_t)ZSTR_LEN(name);
            put(0, 0, ZSTR_VAL(name), next_random() % (length + 1));
            put(0, 0, &length, sizeof length);
        }
        values += decode(current.at, current.bytes, flags | (has_name ? APCU_HAS_NAME : 0),
                         has_name ? name : NULL);
    }
    zend_string_release(name);
    RETURN_LONG(values);
}

// Uses a separate signal stack, because the decoder may have used up the process's stack.
static void handle_crashes(void)
{
    static char stack[1 << 16];
    stack_t on = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handle_crash, .sa_flags = SA_ONSTACK};
    sigaltstack(&on, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
}

static PHP_MINIT_FUNCTION(fuzz)
{
    handle_crashes();
    size_t page = (size_t)getpagesize();
    unsigned char *at = mmap(NULL, INPUT_MAX + page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + INPUT_MAX, page, PROT_NONE) != 0) {
        return FAILURE;
    }
    input_end = at + INPUT_MAX;
    return SUCCESS;
}

static const zend_function_entry functions[] = {
    PHP_FE(fuzz_encode, arginfo_any)
    PHP_FE(fuzz_decode, arginfo_any)
    PHP_FE(fuzz_run, arginfo_any)
    PHP_FE_END
};

zend_module_entry fuzz_module_entry = {
    STANDARD_MODULE_HEADER,
    "fuzz",
    functions,
    PHP_MINIT(fuzz),
    NULL,
    NULL,
    NULL,
    NULL,
    "1",
    STANDARD_MODULE_PROPERTIES
};

ZEND_GET_MODULE(fuzz)
