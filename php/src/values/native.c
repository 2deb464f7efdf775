// PHP's own serializer. It may run user code, such as __serialize(), which may store another value
// in the cache. Without `serialize_lock` both values would share one state, and the inner text
// could refer to parts of the outer value (bug 76145 of PHP). With it, each has a separate state.

#include "values.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_var.h"
#include "zend_smart_str.h"

bool apcu_native_serialize(smart_str *text, zval *value)
{
    php_serialize_data_t state;
    BG(serialize_lock)++;
    PHP_VAR_SERIALIZE_INIT(state);
    php_var_serialize(text, value, &state);
    PHP_VAR_SERIALIZE_DESTROY(state);
    BG(serialize_lock)--;
    return EG(exception) == NULL && text->s != NULL;
}

bool apcu_native_unserialize(zval *value, const unsigned char **at, const unsigned char *end,
                             HashTable *classes)
{
    php_unserialize_data_t state;
    BG(serialize_lock)++;
    PHP_VAR_UNSERIALIZE_INIT(state);
    php_var_unserialize_set_allowed_classes(state, classes);
    bool is_whole = php_var_unserialize(value, at, end, &state);
    PHP_VAR_UNSERIALIZE_DESTROY(state);
    BG(serialize_lock)--;
    return is_whole;
}
