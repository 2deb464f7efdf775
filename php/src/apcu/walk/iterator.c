// APCUIterator: reads items in chunks, and returns each chunk in APCu's order.

#include "walk.h"
#include "zend_interfaces.h"
#include "zend_sort.h"

#define CHUNK_DEFAULT 100

enum {
    LIST_ACTIVE = 1,
    LIST_DELETED = 2,
};

// The bits of a format, the parts of an item that current() returns.
enum {
    ITER_TYPE = 1 << 0,
    ITER_KEY = 1 << 1,
    ITER_VALUE = 1 << 2,
    ITER_NUM_HITS = 1 << 3,
    ITER_MTIME = 1 << 4,
    ITER_CTIME = 1 << 5,
    ITER_DTIME = 1 << 6,
    ITER_ATIME = 1 << 7,
    ITER_REFCOUNT = 1 << 8,
    ITER_MEM_SIZE = 1 << 9,
    ITER_TTL = 1 << 10,
};

#define ITER_ALL Z_L(0xFFFFFFFF)

typedef struct found {
    zend_string *name;
    zend_ulong slot;
    // The position in the walk, which orders items with equal slots.
    size_t at;
    // A copy, because the walk overwrites its entries when it reads the next group.
    larder_entry entry;
    zval fields;
} found;

typedef struct chunk {
    found *items;
    size_t count;
    size_t capacity;
} chunk;

typedef struct iterator {
    bool is_ready;
    // True while the iterator reads values. A value may run user code, such as __wakeup(), which
    // must not change the iterator.
    bool is_busy;
    zend_long list;
    zend_long format;
    size_t chunk_items;
    apcu_search search;
    apcu_walk walk;
    chunk chunk;
    // The index of the current item in the chunk.
    size_t at;
    bool has_totals;
    zend_long hits;
    zend_long bytes;
    zend_long items;
    zend_object object;
} iterator;

static zend_class_entry *iterator_class;
static zend_object_handlers iterator_handlers;

static iterator *iterator_of(zend_object *object)
{
    return (iterator *)((char *)object - offsetof(iterator, object));
}

static zend_object *create(zend_class_entry *class)
{
    iterator *self = zend_object_alloc(sizeof *self, class);
    memset(self, 0, offsetof(iterator, object));
    zend_object_std_init(&self->object, class);
    object_properties_init(&self->object, class);
    self->object.handlers = &iterator_handlers;
    return &self->object;
}

// Takes the chunk out of the iterator before it frees the values. A destructor is user code, which
// may use the iterator.
static void free_chunk(iterator *self)
{
    chunk old = self->chunk;
    self->chunk = (chunk){0};
    self->at = 0;
    for (size_t at = 0; at < old.count; ++at) {
        zend_string_release(old.items[at].name);
        zval_ptr_dtor(&old.items[at].fields);
    }
    if (old.items != NULL) {
        efree(old.items);
    }
}

// Returns the iterator to its state before the constructor.
static void reset(iterator *self)
{
    free_chunk(self);
    apcu_walk_end(&self->walk);
    apcu_search_end(&self->search);
    memset(self, 0, offsetof(iterator, object));
}

static void free_object(zend_object *object)
{
    reset(iterator_of(object));
    zend_object_std_dtor(object);
}

static void add_long(zval *fields, zend_long format, zend_long bit, const char *name,
                     zend_long number)
{
    if ((format & bit) != 0) {
        add_assoc_long(fields, name, number);
    }
}

// Fills the fields of an item. False if its value no longer exists.
static bool fill(zval *fields, zend_long format, const larder_entry *entry, zend_string *name)
{
    array_init(fields);
    if ((format & ITER_TYPE) != 0) {
        add_assoc_string(fields, "type", "user");
    }
    if ((format & ITER_KEY) != 0) {
        add_assoc_str(fields, "key", zend_string_copy(name));
    }
    if ((format & ITER_VALUE) != 0) {
        zval value;
        apcu_key key;
        apcu_key_of(&key, name);
        ZVAL_UNDEF(&value);
        if (!apcu_look(&key, &value)) {
            zval_ptr_dtor(fields);
            return false;
        }
        add_assoc_zval(fields, "value", &value);
    }
    add_long(fields, format, ITER_NUM_HITS, "num_hits", apcu_entry_hits(entry));
    add_long(fields, format, ITER_MTIME, "mtime", (zend_long)entry->stored_at);
    add_long(fields, format, ITER_CTIME, "creation_time", (zend_long)entry->stored_at);
    add_long(fields, format, ITER_DTIME, "deletion_time", 0);
    add_long(fields, format, ITER_ATIME, "access_time", apcu_entry_used_at(entry));
    add_long(fields, format, ITER_REFCOUNT, "ref_count", 0);
    add_long(fields, format, ITER_MEM_SIZE, "mem_size", (zend_long)entry->memory_bytes);
    add_long(fields, format, ITER_TTL, "ttl", apcu_entry_ttl(entry));
    return true;
}

static void push(chunk *chunk, zend_string *name, const larder_entry *entry)
{
    if (chunk->count == chunk->capacity) {
        chunk->capacity = chunk->capacity == 0 ? 16 : 2 * chunk->capacity;
        chunk->items = safe_erealloc(chunk->items, chunk->capacity, sizeof *chunk->items, 0);
    }
    found *item = &chunk->items[chunk->count];
    *item = (found){.name = name, .slot = apcu_slot_of(name), .at = chunk->count, .entry = *entry};
    ZVAL_UNDEF(&item->fields);
    ++chunk->count;
}

static int compare(const found *left, const found *right)
{
    if (left->slot != right->slot) {
        return left->slot < right->slot ? -1 : 1;
    }
    return left->at < right->at ? -1 : left->at > right->at;
}

static void swap(found *left, found *right)
{
    found kept = *left;
    *left = *right;
    *right = kept;
}

// Finds the next matching items for a chunk.
static void find_items(iterator *self, chunk *chunk)
{
    const larder_entry *entry;
    zend_string *name;
    while (chunk->count <= self->chunk_items && apcu_items_next(&self->walk, &entry, &name)) {
        if (apcu_search_matches(&self->search, name)) {
            push(chunk, name, entry);
        } else {
            zend_string_release(name);
        }
    }
}

// Fills the fields of items, and drops items whose values no longer exist.
static void fill_items(chunk *chunk, zend_long format)
{
    size_t kept = 0;
    for (size_t at = 0; at < chunk->count; ++at) {
        found *item = &chunk->items[at];
        if (fill(&item->fields, format, &item->entry, item->name)) {
            chunk->items[kept++] = *item;
        } else {
            zend_string_release(item->name);
        }
    }
    chunk->count = kept;
}

// Reads the next chunk of items with the fields of `format`, and returns their number.
static size_t read_chunk(iterator *self, zend_long format)
{
    chunk next = {0};
    size_t found_items;
    self->is_busy = true;
    free_chunk(self);
    if (self->list != LIST_DELETED) {
        apcu_prepare_time();
        do {
            apcu_search_open(&self->search);
            find_items(self, &next);
            apcu_search_close(&self->search);
            found_items = next.count;
            fill_items(&next, format);
        } while (next.count == 0 && found_items > 0 && EG(exception) == NULL);
    }
    if (next.count > 1) {
        zend_sort(next.items, next.count, sizeof *next.items, (compare_func_t)compare,
                  (swap_func_t)swap);
    }
    self->chunk = next;
    self->is_busy = false;
    return next.count;
}

static void read_totals(iterator *self)
{
    const larder_entry *entry;
    zend_string *name;
    apcu_prepare_time();
    apcu_walk walk;
    self->is_busy = true;
    apcu_search_open(&self->search);
    apcu_walk_begin(&walk, self->search.prefix);
    while (apcu_items_next(&walk, &entry, &name)) {
        if (apcu_search_matches(&self->search, name)) {
            self->hits += apcu_entry_hits(entry);
            self->bytes += (zend_long)entry->memory_bytes;
            ++self->items;
        }
        zend_string_release(name);
    }
    apcu_walk_end(&walk);
    apcu_search_close(&self->search);
    self->is_busy = false;
    self->has_totals = true;
}

// True if an iterator can be used. Otherwise the function has thrown.
static bool is_usable(const iterator *self)
{
    if (self->is_busy) {
        zend_throw_error(NULL, "Cannot use an APCUIterator while it reads a value");
        return false;
    }
    if (!self->is_ready) {
        zend_throw_error(NULL, "Trying to use uninitialized APCUIterator");
        return false;
    }
    return true;
}

bool apcu_iterator_delete(zval *object)
{
    if (!instanceof_function(Z_OBJCE_P(object), iterator_class)) {
        php_error_docref(NULL, E_ERROR,
                         "apc_delete object argument must be instance of APCUIterator.");
        return false;
    }
    iterator *self = iterator_of(Z_OBJ_P(object));
    if (!is_usable(self)) {
        return false;
    }
    while (read_chunk(self, 0) > 0) {
        for (; self->at < self->chunk.count; ++self->at) {
            apcu_delete_name(self->chunk.items[self->at].name);
        }
    }
    return true;
}

// Checks the arguments like APCu, and prepares the iterator if they are valid.
static void prepare(iterator *self, zval *search, zend_long format, zend_long chunk, zend_long list)
{
    if (apcu_cache == NULL) {
        zend_throw_error(NULL, "APC must be enabled to use APCUIterator");
        return;
    }
    if (format > ITER_ALL) {
        php_error_docref(NULL, E_ERROR, "APCUIterator format is invalid");
        return;
    }
    if (list != LIST_ACTIVE && list != LIST_DELETED) {
        php_error_docref(NULL, E_WARNING, "APCUIterator invalid list type");
        return;
    }
    if (!apcu_search_begin(&self->search, search)) {
        php_error_docref(NULL, E_ERROR, "Could not compile regular expression: %s",
                         Z_STRVAL_P(search));
        return;
    }
    self->format = format;
    self->chunk_items = chunk == 0 ? CHUNK_DEFAULT : (size_t)chunk;
    self->list = list;
    apcu_walk_begin(&self->walk, self->search.prefix);
    self->is_ready = true;
}

static PHP_METHOD(APCUIterator, __construct)
{
    zval *search = NULL;
    zend_long format = ITER_ALL;
    zend_long chunk = 0;
    zend_long list = LIST_ACTIVE;
    ZEND_PARSE_PARAMETERS_START(0, 4)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL_OR_NULL(search)
        Z_PARAM_LONG(format)
        Z_PARAM_LONG(chunk)
        Z_PARAM_LONG(list)
    ZEND_PARSE_PARAMETERS_END();
    if (chunk < 0) {
        php_error_docref(NULL, E_ERROR, "APCUIterator chunk size must be 0 or greater");
        return;
    }
    iterator *self = iterator_of(Z_OBJ_P(ZEND_THIS));
    if (self->is_busy) {
        is_usable(self);
        RETURN_THROWS();
    }
    reset(self);
    prepare(self, search, format, chunk, list);
}

// Returns the iterator of a method without parameters, or null if the method has thrown.
static iterator *ready_iterator(INTERNAL_FUNCTION_PARAMETERS)
{
    if (zend_parse_parameters_none() == FAILURE) {
        return NULL;
    }
    iterator *self = iterator_of(Z_OBJ_P(ZEND_THIS));
    return is_usable(self) ? self : NULL;
}

#define READY_ITERATOR() \
    iterator *self = ready_iterator(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
    if (self == NULL) { \
        RETURN_THROWS(); \
    }

// True if the iterator is at an item. Reads the next chunk if necessary.
static bool has_item(iterator *self)
{
    return self->at < self->chunk.count || read_chunk(self, self->format) > 0;
}

static PHP_METHOD(APCUIterator, rewind)
{
    READY_ITERATOR();
    apcu_walk_restart(&self->walk);
    read_chunk(self, self->format);
}

static PHP_METHOD(APCUIterator, valid)
{
    READY_ITERATOR();
    RETURN_BOOL(has_item(self));
}

static PHP_METHOD(APCUIterator, next)
{
    READY_ITERATOR();
    if (self->at < self->chunk.count) {
        ++self->at;
    }
}

static PHP_METHOD(APCUIterator, current)
{
    READY_ITERATOR();
    if (!has_item(self)) {
        zend_throw_error(NULL, "Cannot call current() on invalid iterator");
        RETURN_THROWS();
    }
    RETURN_COPY(&self->chunk.items[self->at].fields);
}

static PHP_METHOD(APCUIterator, key)
{
    READY_ITERATOR();
    if (!has_item(self)) {
        zend_throw_error(NULL, "Cannot call key() on invalid iterator");
        RETURN_THROWS();
    }
    RETURN_STR_COPY(self->chunk.items[self->at].name);
}

static iterator *with_totals(INTERNAL_FUNCTION_PARAMETERS)
{
    iterator *self = ready_iterator(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (self != NULL && !self->has_totals) {
        read_totals(self);
    }
    return self;
}

#define WITH_TOTALS() \
    const iterator *self = with_totals(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
    if (self == NULL) { \
        RETURN_THROWS(); \
    }

static PHP_METHOD(APCUIterator, getTotalHits)
{
    WITH_TOTALS();
    RETURN_LONG(self->hits);
}

static PHP_METHOD(APCUIterator, getTotalSize)
{
    WITH_TOTALS();
    RETURN_LONG(self->bytes);
}

static PHP_METHOD(APCUIterator, getTotalCount)
{
    WITH_TOTALS();
    RETURN_LONG(self->items);
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_construct, 0, 0, 0)
    ZEND_ARG_INFO_WITH_DEFAULT_VALUE(0, search, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, format, IS_LONG, 0, "APC_ITER_ALL")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, chunk_size, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, list, IS_LONG, 0, "APC_LIST_ACTIVE")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_void, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_valid, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_key, 0, 0, MAY_BE_STRING | MAY_BE_LONG)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_current, 0, 0, IS_MIXED, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_total, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry methods[] = {
    PHP_ME(APCUIterator, __construct, arginfo_construct, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, rewind, arginfo_void, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, next, arginfo_void, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, valid, arginfo_valid, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, key, arginfo_key, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, current, arginfo_current, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, getTotalHits, arginfo_total, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, getTotalSize, arginfo_total, ZEND_ACC_PUBLIC)
    PHP_ME(APCUIterator, getTotalCount, arginfo_total, ZEND_ACC_PUBLIC)
    PHP_FE_END
};

static void register_constants(int module_number)
{
    static const struct {
        const char *name;
        zend_long value;
    } constants[] = {
        {"APC_LIST_ACTIVE", LIST_ACTIVE},
        {"APC_LIST_DELETED", LIST_DELETED},
        {"APC_ITER_TYPE", ITER_TYPE},
        {"APC_ITER_KEY", ITER_KEY},
        {"APC_ITER_VALUE", ITER_VALUE},
        {"APC_ITER_NUM_HITS", ITER_NUM_HITS},
        {"APC_ITER_MTIME", ITER_MTIME},
        {"APC_ITER_CTIME", ITER_CTIME},
        {"APC_ITER_DTIME", ITER_DTIME},
        {"APC_ITER_ATIME", ITER_ATIME},
        {"APC_ITER_REFCOUNT", ITER_REFCOUNT},
        {"APC_ITER_MEM_SIZE", ITER_MEM_SIZE},
        {"APC_ITER_TTL", ITER_TTL},
        {"APC_ITER_NONE", 0},
        {"APC_ITER_ALL", ITER_ALL},
    };
    for (size_t at = 0; at < sizeof constants / sizeof *constants; ++at) {
        zend_register_long_constant(constants[at].name, strlen(constants[at].name),
                                    constants[at].value, CONST_PERSISTENT, module_number);
    }
}

void apcu_iterator_register(int module_number)
{
    zend_class_entry class;
    INIT_CLASS_ENTRY(class, "APCUIterator", methods);
    iterator_class = zend_register_internal_class(&class);
    iterator_class->create_object = create;
    zend_class_implements(iterator_class, 1, zend_ce_iterator);
    iterator_handlers = *zend_get_std_object_handlers();
    iterator_handlers.offset = offsetof(iterator, object);
    iterator_handlers.free_obj = free_object;
    iterator_handlers.clone_obj = NULL;
    register_constants(module_number);
}
