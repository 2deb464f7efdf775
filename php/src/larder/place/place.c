// Checks the files of caches. A process that can write to such a file can give any values to the
// processes that read it. So a file is used only if other users can neither write to it nor replace
// it.

#include "larder/larder_php.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <unistd.h>

#define FAIL(region, ...) (snprintf((region)->why, sizeof (region)->why, __VA_ARGS__), false)

static bool has_group(const larder_region *region)
{
    return region->group != (gid_t)-1;
}

// Checks that other users cannot replace the file: only its owner and root may write to the folder,
// or the folder has the sticky bit.
static bool check_folder(larder_region *region)
{
    char path[MAXPATHLEN];
    if (strlcpy(path, region->path, sizeof path) >= sizeof path) {
        return FAIL(region, "the path is too long");
    }
    const char *folder = dirname(path);
    struct stat found;
    if (stat(folder, &found) != 0) {
        return FAIL(region, "%s: %s", folder, strerror(errno));
    }
    if (!S_ISDIR(found.st_mode)) {
        return FAIL(region, "%s is not a directory", folder);
    }
    if (found.st_uid != 0 && found.st_uid != region->owner) {
        return FAIL(region, "the directory %s belongs to another user (%u)", folder,
                    (unsigned)found.st_uid);
    }
    bool is_ours = has_group(region) && found.st_gid == region->group;
    mode_t others = is_ours ? S_IWOTH : S_IWGRP | S_IWOTH;
    if ((found.st_mode & others) != 0 && (found.st_mode & S_ISVTX) == 0) {
        return FAIL(region, "other users can write to the directory %s: chmod 755, or 1777",
                    folder);
    }
    return true;
}

static bool check_file(larder_region *region, const struct stat *found)
{
    if (!S_ISREG(found->st_mode)) {
        return FAIL(region, "%s is not a regular file", region->path);
    }
    // The number of names is 0 if the file was replaced since it was opened. This is accepted: only
    // its owner or root can have done it, because other users cannot write to the folder.
    if (found->st_nlink > 1) {
        return FAIL(region, "%s has several hard links", region->path);
    }
    if (found->st_uid != region->owner) {
        return FAIL(region, "%s belongs to user %u, not to user %u: see larder.owner", region->path,
                    (unsigned)found->st_uid, (unsigned)region->owner);
    }
    if (has_group(region) && found->st_gid != region->group) {
        return FAIL(region, "%s belongs to group %u, not to group %u: see larder.shared_group",
                    region->path, (unsigned)found->st_gid, (unsigned)region->group);
    }
    if ((found->st_mode & 07777) != region->permissions) {
        return FAIL(region, "%s has permissions %04o, expected %04o", region->path,
                    (unsigned)found->st_mode & 07777, (unsigned)region->permissions);
    }
    return true;
}

static int open_file(const larder_region *region, int flags)
{
    // O_NONBLOCK, because opening a pipe or a device could wait forever. They are refused later.
    return open(region->path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                (mode_t)region->permissions);
}

// Changes the owner and group of a file that root has made.
static bool give(larder_region *region, int file)
{
    uid_t user = geteuid() != region->owner ? region->owner : (uid_t)-1;
    if (user == (uid_t)-1 && !has_group(region)) {
        return true;
    }
    if (fchown(file, user, region->group) == 0 && fchmod(file, (mode_t)region->permissions) == 0) {
        return true;
    }
    return FAIL(region, "%s: cannot change its owner: %s", region->path, strerror(errno));
}

// Creates the file with its permissions, regardless of the umask.
static int create_file(const larder_region *region)
{
#ifdef ZTS
    // With threads the umask stays unchanged, because all threads share it and may be creating
    // files. Instead the permissions are set after the file is created. Until then other processes
    // refuse the file.
    int file = open_file(region, O_CREAT | O_EXCL);
    bool is_well = file < 0 || fchmod(file, (mode_t)region->permissions) == 0;
    int error = errno;
    if (!is_well) {
        close(file);
        file = -1;
    }
#else
    mode_t mask = umask(0);
    int file = open_file(region, O_CREAT | O_EXCL);
    int error = errno;
    umask(mask);
#endif
    errno = error;
    return file;
}

// Makes an empty file, and sets its owner before it contains a cache.
static bool make(larder_region *region)
{
    int file = create_file(region);
    int error = errno;
    if (file < 0) {
        return error == EEXIST || FAIL(region, "%s: %s", region->path, strerror(error));
    }
    bool is_given = give(region, file);
    close(file);
    return is_given;
}

static bool look(larder_region *region, struct stat *found, bool *is_missing)
{
    int file = open_file(region, 0);
    *is_missing = file < 0 && errno == ENOENT;
    if (file < 0) {
        return FAIL(region, errno == ELOOP ? "%s is a symbolic link" : "%s: %s", region->path,
                    strerror(errno));
    }
    fstat(file, found);
    close(file);
    return true;
}

// Checks the folder and the file before the library opens the file. If the file does not exist,
// makes an empty one. Otherwise another user could create a file between the check and the
// library's open.
bool larder_place_prepare(larder_region *region)
{
    struct stat found;
    bool is_missing;
    if (!check_folder(region)) {
        return false;
    }
    if (!look(region, &found, &is_missing)
        && (!is_missing || !make(region) || !look(region, &found, &is_missing))) {
        return false;
    }
    return check_file(region, &found);
}

// Checks the file that the library has opened, and remembers its numbers. If the library has
// replaced the file with a new one, this first sets its owner.
bool larder_place_confirm(larder_region *region)
{
    int file = open_file(region, 0);
    struct stat found;
    if (file < 0 || fstat(file, &found) != 0) {
        file < 0 ? 0 : close(file);
        return FAIL(region, "%s: %s", region->path, strerror(errno));
    }
    bool is_mine = found.st_uid == geteuid() && found.st_nlink == 1;
    bool is_well = (!is_mine || give(region, file)) && fstat(file, &found) == 0
        && check_file(region, &found);
    close(file);
    region->device = found.st_dev;
    region->inode = found.st_ino;
    return is_well;
}

// True if the path now refers to another file, or to none and this process can make a new one
// there.
bool larder_place_has_changed(const larder_region *region)
{
    struct stat found;
    if (lstat(region->path, &found) == 0) {
        return found.st_dev != region->device || found.st_ino != region->inode;
    }
    if (errno != ENOENT) {
        return false;
    }
    char path[MAXPATHLEN];
    strlcpy(path, region->path, sizeof path);
    return access(dirname(path), W_OK | X_OK) == 0;
}
