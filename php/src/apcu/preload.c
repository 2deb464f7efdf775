// apc.preload_path: each file `NAME.data` in this folder has a serialized value, which is stored
// under NAME.

#include "larder_apcu.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_var.h"
#include <dirent.h>
#include <stdio.h>

#define SUFFIX ".data"

static zend_string *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    zend_string *text = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long bytes = ftell(file);
        rewind(file);
        if (bytes > 0) {
            text = zend_string_alloc((size_t)bytes, 0);
            size_t count = fread(ZSTR_VAL(text), 1, (size_t)bytes, file);
            text = zend_string_truncate(text, count, 0);
            ZSTR_VAL(text)[count] = 0;
        }
    }
    fclose(file);
    return text;
}

// Allows no classes, because no user class exists yet. An object becomes a __PHP_Incomplete_Class,
// which keeps the name of its class.
static bool unserialize(zend_string *text, zval *value)
{
    const unsigned char *at = (const unsigned char *)ZSTR_VAL(text);
    php_unserialize_data_t state;
    HashTable no_classes;
    zend_hash_init(&no_classes, 0, NULL, NULL, 0);
    ZVAL_NULL(value);
    PHP_VAR_UNSERIALIZE_INIT(state);
    php_var_unserialize_set_allowed_classes(state, &no_classes);
    int is_whole = php_var_unserialize(value, &at, at + ZSTR_LEN(text), &state);
    PHP_VAR_UNSERIALIZE_DESTROY(state);
    zend_hash_destroy(&no_classes);
    return is_whole;
}

static void preload_file(const char *folder, const char *file, size_t name_bytes)
{
    char path[MAXPATHLEN];
    int bytes = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (bytes < 0 || (size_t)bytes >= sizeof path) {
        return;
    }
    zend_string *text = read_file(path);
    if (text == NULL) {
        return;
    }
    zval value;
    if (unserialize(text, &value)) {
        zend_string *name = zend_string_init(file, name_bytes, 0);
        apcu_store_name(name, &value, 0, true);
        zend_string_release(name);
    }
    zval_ptr_dtor(&value);
    zend_string_release(text);
}

void apcu_preload(const char *folder)
{
    struct dirent **files;
    int count = scandir(folder, &files, NULL, alphasort);
    for (int at = 0; at < count; ++at) {
        const char *suffix = strrchr(files[at]->d_name, '.');
        if (suffix != NULL && strcmp(suffix, SUFFIX) == 0) {
            preload_file(folder, files[at]->d_name, suffix - files[at]->d_name);
        }
        free(files[at]);
    }
    if (count >= 0) {
        free(files);
    }
}
