// Finds, opens and closes regions, the places of caches: see larder_region. The memory of
// larder.memory is allocated when the module starts, before php-fpm and Apache fork and before the
// first thread starts, so that all of them share it. A thread opens a file, or connects to a
// server, with the first call that needs it.

#include "larder/larder_php.h"
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <time.h>
#include <unistd.h>

// The default of larder.processes. It is lower than APCU_PROCESSES_MAX, because a file has memory
// for all its processes from the start, 2 to 6 KiB for each.
#define PROCESSES_OF_FILE 1024
#define PROCESSES_OF_SMALL_FILE 128
#define SMALL_FILE_BYTES (16 << 20)

#define MEMORY_MIN (1 << 20)

// The size of the buffer for the system's entry of a user or a group. The entry of a group lists
// all its members. If it does not fit, the buffer is doubled up to the maximum.
#define NAME_BYTES 1024
#define NAME_BYTES_MAX (16 << 20)

// The region of larder.memory, or null. Threads share this struct and do not change it.
static larder_region *anonymous;

static larder_region *new_region(uint64_t memory_bytes, uint64_t item_bytes_max)
{
    larder_region *region = pecalloc(1, sizeof *region, 1);
    region->memory_bytes = MAX(memory_bytes, MEMORY_MIN);
    region->item_bytes_max = item_bytes_max != 0 ? item_bytes_max : region->memory_bytes / 2;
    region->permissions = 0600;
    region->owner = geteuid();
    region->group = (gid_t)-1;
    return region;
}

static uint32_t processes_of(const larder_region *region)
{
    if (region->path == NULL) {
        return APCU_PROCESSES_MAX;
    }
    if (LG(processes) != 0) {
        return (uint32_t)LG(processes);
    }
    return region->memory_bytes < SMALL_FILE_BYTES ? PROCESSES_OF_SMALL_FILE : PROCESSES_OF_FILE;
}

static larder_status open_as(larder_region *region, uint32_t flags)
{
    larder_options options = {
        .struct_bytes = sizeof options,
        .memory_bytes = region->memory_bytes,
        .item_bytes_max = region->item_bytes_max,
        .flags = flags | LARDER_NO_SUBSTITUTE,
        .permissions = region->permissions,
        .path = region->path,
        .processes_max = processes_of(region),
    };
    return larder_open(&options, &region->cache, region->why, sizeof region->why);
}

static void close_region(larder_region *region)
{
    larder_close(region->cache);
    region->cache = NULL;
}

// Opens the cache of a file. With `is_exact`, a cache of another size than the configured one is
// replaced by an empty cache, unless another process uses it: then it keeps its size, with a
// notice.
static bool open_file(larder_region *region, bool is_exact)
{
    region->checked_at = time(NULL);
    if (!larder_place_prepare(region)) {
        return false;
    }
    uint32_t flags = LARDER_REPLACES_UNUSABLE | (is_exact ? LARDER_EXACTLY : 0);
    larder_status status = open_as(region, flags);
    if (status != LARDER_OK && is_exact) {
        char why[sizeof region->why];
        strlcpy(why, region->why, sizeof why);
        status = open_as(region, LARDER_REPLACES_UNUSABLE);
        if (status == LARDER_OK) {
            php_error_docref(NULL, E_NOTICE, "The cache in %s keeps its size: %s", region->path,
                             why);
        }
    }
    if (status == LARDER_OK && larder_place_confirm(region)) {
        return true;
    }
    close_region(region);
    return false;
}

static bool connect_to_server(larder_region *region)
{
    region->checked_at = time(NULL);
    return larder_connect(region->path, region->timeout_ms, &region->cache, region->why,
                          sizeof region->why) == LARDER_OK;
}

// A thread with this many open files closes the least recently used one before it opens another.
// All threads together can have 256 files open, because a process cannot track more across forks.
#define OPEN_MAX 64

static void close_least_used(void)
{
    larder_region *least = NULL;
    uint32_t open = 0;
    for (larder_region *region = LG(named); region != NULL; region = region->next) {
        if (region->cache == NULL || region->is_server) {
            continue;
        }
        ++open;
        if (region->users == 0 && (least == NULL || region->used_at < least->used_at)) {
            least = region;
        }
    }
    if (open >= OPEN_MAX && least != NULL) {
        close_region(least);
        // A region is opened at most once a second. The 0 lets the next use open it immediately.
        least->checked_at = 0;
    }
}

static bool open_anew(larder_region *region)
{
    if (region->is_server) {
        return connect_to_server(region);
    }
    close_least_used();
    region->used_at = ++LG(opens);
    return open_file(region, false);
}

// Called for the first use of a region in this thread. If the region cannot be opened, each later
// use calls it again, and it tries to open the region at most once a second.
larder *larder_region_open(larder_region *region)
{
    bool is_known = region->cache != NULL;
    if (!is_known && region->path != NULL && time(NULL) - region->checked_at >= 1) {
        is_known = open_anew(region);
    }
    if (!is_known && region->why[0] == 0) {
        return NULL;
    }
    if (!is_known) {
        char text[512];
        snprintf(text, sizeof text, "The cache cannot be used, so all keys miss: %s", region->why);
        larder_warn_once(text);
        return NULL;
    }
    return region->cache;
}

larder_region *larder_region_private(uint64_t memory_bytes, uint64_t item_bytes_max)
{
    larder_region *region = new_region(memory_bytes, item_bytes_max);
    open_as(region, LARDER_SHARED_WITH_CHILDREN);
    return region;
}

static larder_region *find_named(const char *path, bool is_server)
{
    for (larder_region *region = LG(named); region != NULL; region = region->next) {
        if (region->is_server == is_server && strcmp(region->path, path) == 0) {
            return region;
        }
    }
    return NULL;
}

static void add_named(larder_region *region)
{
    region->next = LG(named);
    LG(named) = region;
}

larder_region *larder_region_named(const char *path, uint64_t memory_bytes,
                                   uint64_t item_bytes_max, uint32_t permissions)
{
    larder_region *region = find_named(path, false);
    if (region == NULL) {
        region = new_region(memory_bytes, item_bytes_max);
        region->path = pestrdup(path, 1);
        region->permissions = permissions;
        add_named(region);
    }
    larder_region_check(region);
    return region;
}

larder_region *larder_region_server(const char *socket, uint32_t timeout_ms)
{
    larder_region *region = find_named(socket, true);
    if (region == NULL) {
        region = new_region(0, 0);
        region->path = pestrdup(socket, 1);
        region->is_server = true;
        region->timeout_ms = timeout_ms;
        add_named(region);
    }
    return region;
}

void larder_region_free(larder_region *region)
{
    if (region != NULL) {
        larder_close(region->cache);
        if (region->path != NULL) {
            pefree(region->path, 1);
        }
        pefree(region, 1);
    }
}

// Closes the file if its path now refers to another one, which the next use opens. Looks at most
// once a second, and never while a call or an iterator uses the file.
void larder_region_check(larder_region *region)
{
    if (region->path == NULL || region->cache == NULL || region->is_server
        || region->users != 0) {
        return;
    }
    time_t now = time(NULL);
    if (now == region->checked_at) {
        return;
    }
    region->checked_at = now;
    // A process that found the file full of processes can only read. It tries again, because
    // another process may have closed the file since.
    bool only_reads = larder_usable(region->cache, NULL, 0) == LARDER_NOT_OPENED;
    if (only_reads || larder_place_has_changed(region)) {
        close_region(region);
        region->checked_at = 0;
    }
}

// Called at the start of a request. No call and no iterator can use a region then, so this resets
// their number, which is wrong if a fatal error has ended the last request.
void larder_regions_check(void)
{
    for (larder_region *region = LG(named); region != NULL; region = region->next) {
        region->users = 0;
        larder_region_check(region);
    }
}

// Reads a numeric user or group.
static bool number_of(const char *text, uint32_t *number)
{
    char *end;
    *number = (uint32_t)strtoul(text, &end, 10);
    return *text != 0 && *end == 0;
}

static bool user_of(const char *name, uid_t *user)
{
    struct passwd entry;
    struct passwd *found = NULL;
    int error = ERANGE;
    for (size_t bytes = NAME_BYTES; error == ERANGE && bytes <= NAME_BYTES_MAX; bytes *= 2) {
        char *room = emalloc(bytes);
        error = getpwnam_r(name, &entry, room, bytes, &found);
        efree(room);
    }
    if (found == NULL) {
        return number_of(name, user);
    }
    *user = entry.pw_uid;
    return true;
}

static bool group_of(const char *name, gid_t *group)
{
    struct group entry;
    struct group *found = NULL;
    int error = ERANGE;
    for (size_t bytes = NAME_BYTES; error == ERANGE && bytes <= NAME_BYTES_MAX; bytes *= 2) {
        char *room = emalloc(bytes);
        error = getgrnam_r(name, &entry, room, bytes, &found);
        efree(room);
    }
    if (found == NULL) {
        return number_of(name, group);
    }
    *group = entry.gr_gid;
    return true;
}

static bool is_set(const char *setting)
{
    return setting != NULL && *setting != 0;
}

static bool is_member(gid_t group)
{
    gid_t groups[256];
    int count = getgroups(256, groups);
    bool found = getegid() == group;
    for (int at = 0; at < count; ++at) {
        found = found || groups[at] == group;
    }
    return found;
}

// Returns the region of larder.path for this process, or with `is_for_owner` for the processes of
// larder.owner. A process that is neither the owner nor a member of the shared group has a separate
// file next to it, whose name ends in the number of its user.
static larder_region *describe_configured(bool is_for_owner)
{
    uint64_t memory = larder_memory_setting();
    larder_region *region = new_region(memory, 0);
    uid_t owner = geteuid();
    if (is_set(LG(owner)) && !user_of(LG(owner), &owner)) {
        snprintf(region->why, sizeof region->why, "larder.owner: user %s does not exist",
                 LG(owner));
        return region;
    }
    if (is_set(LG(shared_group)) && !group_of(LG(shared_group), &region->group)) {
        snprintf(region->why, sizeof region->why, "larder.shared_group: group %s does not exist",
                 LG(shared_group));
        return region;
    }
    char path[MAXPATHLEN];
    is_for_owner = is_for_owner || geteuid() == owner;
    bool is_of_group = region->group != (gid_t)-1 && (is_for_owner || is_member(region->group));
    if (is_for_owner || is_of_group) {
        strlcpy(path, LG(path), sizeof path);
        region->owner = owner;
    } else {
        snprintf(path, sizeof path, "%s-%u", LG(path), (unsigned)geteuid());
    }
    if (is_of_group) {
        region->permissions = 0660;
    } else {
        region->group = (gid_t)-1;
    }
    region->path = pestrdup(path, 1);
    return region;
}

larder_region *larder_region_shared(void)
{
    // The cache is disabled: this region has no cache and no error, so all keys miss without a
    // warning.
    static larder_region none;
    if (!is_set(LG(path))) {
        return anonymous != NULL ? anonymous : &none;
    }
    if (LG(configured) == NULL) {
        LG(configured) = describe_configured(false);
        if (LG(configured)->path != NULL) {
            add_named(LG(configured));
        }
    }
    larder_region_check(LG(configured));
    return LG(configured);
}

// Makes the file of larder.path when PHP starts, while the process is still root and can set its
// owner. Then closes it again: while any process uses a cache, no cache of another size can
// replace it.
static void prepare_configured(void)
{
    if (geteuid() == 0 && !is_set(LG(owner))) {
        return;
    }
    larder_region *region = describe_configured(true);
    if (geteuid() != 0 && region->owner != geteuid()) {
        // This process cannot make the owner's file. Its workers have the same user, so they use a
        // separate file.
        larder_region_free(region);
        return;
    }
    if (region->path == NULL || !open_file(region, true)) {
        php_error_docref(NULL, E_WARNING, "The cache of larder.path cannot be used: %s",
                         region->why);
    }
    larder_region_free(region);
}

void larder_regions_start(void)
{
    uint64_t memory = larder_memory_setting();
    if (is_set(LG(path))) {
        if (!larder_is_cli()) {
            prepare_configured();
        }
        return;
    }
    if (memory != 0 && (!larder_is_cli() || LG(enable_cli))) {
        anonymous = larder_region_private(memory, 0);
    }
}

void larder_regions_end(void)
{
    larder_region_free(anonymous);
    anonymous = NULL;
}

// Closes all named regions of a thread.
void larder_regions_forget(zend_larder_globals *globals)
{
    if (globals->configured != NULL && globals->configured->path == NULL) {
        larder_region_free(globals->configured);
    }
    globals->configured = NULL;
    while (globals->named != NULL) {
        larder_region *next = globals->named->next;
        larder_region_free(globals->named);
        globals->named = next;
    }
}
