"""A file system that passes all calls on to a directory, and holds some of them back on request.

usage: file_system.py DIRECTORY MOUNT_POINT ORDERS

While ORDERS has a file hang-read, hang-write or hang-sync, calls of that kind wait. A file
fail-read, fail-write or fail-sync with the words AFTER COUNT lets AFTER calls of that kind pass,
and then COUNT of them fail with EIO.
"""

import errno
import os
import sys
import threading
import time

# Debian's name of the module. It is installed for the system's interpreter.
import fusepy as fuse

PAUSE_SECS = 0.01
STAT = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")
SPACE = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_frsize", "f_namemax")


class Passing(fuse.Operations):
    def __init__(self, directory, orders):
        self.directory = directory
        self.orders = orders
        self.one_at_a_time = threading.Lock()
        # For each kind of calls: the order that counts them, and how many it has seen.
        self.counted = {}

    def has_order(self, order):
        return os.path.exists(os.path.join(self.orders, order))

    def obey(self, kind):
        while self.has_order("hang-" + kind):
            time.sleep(PAUSE_SECS)
        with self.one_at_a_time:
            if self.is_to_fail(kind):
                raise fuse.FuseOSError(errno.EIO)

    def is_to_fail(self, kind):
        path = os.path.join(self.orders, "fail-" + kind)
        try:
            with open(path, encoding="ascii") as file:
                stat = os.fstat(file.fileno())
                after, count = map(int, file.read().split())
        except FileNotFoundError:
            return False
        order = stat.st_ino, stat.st_mtime_ns
        counting, call = self.counted.get(kind, (None, 0))
        if counting != order:
            call = 0
        self.counted[kind] = order, call + 1
        return after <= call < after + count

    def real(self, path):
        return self.directory + path

    def getattr(self, path, fh=None):
        stat = os.lstat(self.real(path))
        return {name: getattr(stat, name) for name in STAT}

    def statfs(self, path):
        space = os.statvfs(self.real(path))
        return {name: getattr(space, name) for name in SPACE}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.real(path))]

    def mkdir(self, path, mode):
        os.mkdir(self.real(path), mode)

    def chmod(self, path, mode):
        os.chmod(self.real(path), mode)

    def rename(self, old, new):
        os.rename(self.real(old), self.real(new))

    def unlink(self, path):
        os.unlink(self.real(path))

    def open(self, path, flags):
        return os.open(self.real(path), flags & ~os.O_DIRECT)

    def create(self, path, mode, fi=None):
        return os.open(self.real(path), os.O_RDWR | os.O_CREAT, mode)

    def read(self, path, size, offset, fh):
        self.obey("read")
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        self.obey("write")
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(self.real(path), length)

    def fsync(self, path, datasync, fh):
        self.obey("sync")
        os.fsync(fh)

    def release(self, path, fh):
        os.close(fh)


if __name__ == "__main__":
    directory, mount_point, orders = sys.argv[1:]
    fuse.FUSE(Passing(directory, orders), mount_point, foreground=True, direct_io=True)
