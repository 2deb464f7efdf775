// Serializers: PHP's own, and serializers that other modules such as igbinary register. They find
// the function for this in a constant that APCu defines.

#include "larder_apcu.h"
#include "zend_smart_str.h"

// The name of that constant. Its value is the address of the function that registers a serializer.
// The number in the name is the version of the function's type.
#define HOOK "\0apc_register_serializer-0"

#define SERIALIZERS_MAX 16

typedef int (*serialize_function)(unsigned char **bytes, size_t *count, const zval *value,
                                  void *config);
typedef int (*unserialize_function)(zval *value, unsigned char *bytes, size_t count, void *config);

struct apcu_serializer {
    const char *name;
    serialize_function serialize;
    unserialize_function unserialize;
    void *config;
    uint32_t tag;
};

static apcu_serializer serializers[SERIALIZERS_MAX];
static size_t serializers_count;

static uint32_t tag_of_name(const char *name)
{
    if (strcmp(name, "php") == 0) {
        return LARDER_TAG_PHP;
    }
    if (strcmp(name, "igbinary") == 0) {
        return LARDER_TAG_IGBINARY;
    }
    if (strcmp(name, "msgpack") == 0) {
        return LARDER_TAG_MSGPACK;
    }
    return APCU_TAG_OTHER;
}

// The function that other modules call. It has the same type as in APCu.
static int register_serializer(const char *name, serialize_function serialize,
                               unserialize_function unserialize, void *config)
{
    if (serializers_count == SERIALIZERS_MAX) {
        return 0;
    }
    serializers[serializers_count++] = (apcu_serializer){
        .name = name,
        .serialize = serialize,
        .unserialize = unserialize,
        .config = config,
        .tag = tag_of_name(name),
    };
    return 1;
}

static int php_serialize(unsigned char **bytes, size_t *count, const zval *value, void *config)
{
    smart_str text = {0};
    bool is_well = apcu_native_serialize(&text, (zval *)value);
    if (is_well) {
        *bytes = (unsigned char *)estrndup(ZSTR_VAL(text.s), ZSTR_LEN(text.s));
        *count = ZSTR_LEN(text.s);
    }
    smart_str_free(&text);
    return is_well;
}

static int php_unserialize(zval *value, unsigned char *bytes, size_t count, void *config)
{
    const unsigned char *at = bytes;
    bool is_whole = apcu_native_unserialize(value, &at, bytes + count, NULL);
    if (!is_whole) {
        // The same notice as unserialize() gives.
        php_error_docref(NULL, E_NOTICE, "Error at offset " ZEND_LONG_FMT " of %zu bytes",
                         (zend_long)(at - bytes), count);
    }
    return is_whole;
}

static const apcu_serializer php_serializer = {
    .name = "php",
    .serialize = php_serialize,
    .unserialize = php_unserialize,
    .tag = LARDER_TAG_PHP,
};

void apcu_serializers_register(int module_number)
{
    register_serializer("php", php_serialize, php_unserialize, NULL);
    zend_register_long_constant(HOOK, sizeof HOOK - 1, (zend_long)(uintptr_t)register_serializer,
                                CONST_PERSISTENT, module_number);
}

void apcu_serializers_forget(void)
{
    serializers_count = 0;
}

const apcu_serializer *apcu_serializer_named(const char *name)
{
    for (size_t at = 0; name != NULL && at < serializers_count; ++at) {
        if (strcmp(serializers[at].name, name) == 0) {
            return &serializers[at];
        }
    }
    return NULL;
}

void apcu_serializer_names(smart_str *names)
{
    for (size_t at = 0; at < serializers_count; ++at) {
        if (at != 0) {
            smart_str_appends(names, ", ");
        }
        smart_str_appends(names, serializers[at].name);
    }
    smart_str_0(names);
}

size_t apcu_value_limit(void)
{
    return (size_t)APCUG(shm_size) / 2;
}

// Like APCu, leaves a resource inside an array to the serializer, if there is one. serialize()
// stores it as 0.
bool apcu_refuse_resource(bool is_nested)
{
    if (is_nested && APCUG(serializer) != NULL) {
        return false;
    }
    php_error_docref(NULL, E_WARNING, "Cannot store resources in apcu cache");
    return true;
}

bool apcu_serializes_as_php(void)
{
    return APCUG(serializer) != NULL && APCUG(serializer)->tag == LARDER_TAG_PHP;
}

bool apcu_serializes_in_full(void)
{
    return APCUG(serializer) == NULL || apcu_serializes_as_php();
}

bool apcu_serialize(apcu_encoded *encoded, zval *value)
{
    if (APCUG(serializer) == NULL) {
        APCUG(serializer) = apcu_serializer_named(APCUG(serializer_name));
    }
    const apcu_serializer *serializer = APCUG(serializer);
    if (serializer == NULL) {
        // Without a serializer APCu copies the array. The copy preserves a reference of the array
        // to itself, so here `value` stays a reference, which serialize() also preserves.
        serializer = &php_serializer;
    } else {
        ZVAL_DEREF(value);
    }
    apcu_writer *writer = &encoded->writer;
    unsigned char *bytes = NULL;
    size_t count = 0;
    if (!serializer->serialize(&bytes, &count, value, serializer->config)) {
        return false;
    }
    encoded->flags |= serializer->tag;
    if (writer->at == writer->begin) {
        encoded->serialized = bytes;
        encoded->at = (const char *)bytes;
        encoded->bytes = count;
        return true;
    }
    bool fits = apcu_reserve(writer, count);
    if (fits) {
        memcpy(writer->at, bytes, count);
        writer->at += count;
    }
    efree(bytes);
    return fits;
}

// Returns the serializer with the given tag, or null if no module has registered it.
static const apcu_serializer *serializer_of_tag(uint32_t tag)
{
    switch (tag) {
        case LARDER_TAG_PHP:
            return &php_serializer;
        case LARDER_TAG_IGBINARY:
            return apcu_serializer_named("igbinary");
        case LARDER_TAG_MSGPACK:
            return apcu_serializer_named("msgpack");
        case APCU_TAG_OTHER:
            return apcu_serializer_named(APCUG(serializer_name));
        default:
            return NULL;
    }
}

bool apcu_unserialize(zval *value, const char *at, size_t bytes, uint32_t tag)
{
    const apcu_serializer *serializer = serializer_of_tag(tag);
    if (serializer == NULL) {
        return false;
    }
    ZVAL_NULL(value);
    if (!serializer->unserialize(value, (unsigned char *)at, bytes, serializer->config)) {
        zval_ptr_dtor(value);
        ZVAL_NULL(value);
        return false;
    }
    if (Z_ISREF_P(value)) {
        zend_unwrap_reference(value);
    }
    return true;
}
