"""A hostile local reader. Prints each forbidden operation that succeeds, one per line, then `done`.

usage: hostile.py SOCKET [ask | as UID]    with `ask` it only prints the response to larder_region
As another user than the server's, it also tries to open the memory again for writing.
"""

import ctypes
import fcntl
import mmap
import os
import signal
import socket
import sys

F_ADD_SEALS, F_SEAL_WRITE = 1033, 8
MADV_REMOVE, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE = 9, 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def region(path):
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    server.sendall(b"larder_region\r\n")
    answer, ancillary, _, _ = server.recvmsg(4096, socket.CMSG_SPACE(4))
    descriptors = [int.from_bytes(data[:4], sys.byteorder) for _, _, data in ancillary]
    return server, answer.decode().strip(), descriptors[0] if descriptors else None


def succeeds(what, act):
    try:
        act()
    except (OSError, ValueError):
        return
    print(f"could {what}")


def libc(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "refused")


def scribble(address, offset):
    """Writes in a child process, which the write must kill."""
    child = os.fork()
    if child == 0:
        ctypes.memset(address + offset, 0xAA, 8)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGSEGV:
        print(f"could write to memory at {offset}")


def attack(descriptor, name):
    size = os.fstat(descriptor).st_size
    whole = mmap.MAP_SHARED
    read_write = mmap.PROT_READ | mmap.PROT_WRITE
    succeeds(f"map {name} for writing", lambda: mmap.mmap(descriptor, size, whole, read_write))
    succeeds(f"write to {name}", lambda: os.pwrite(descriptor, b"x" * 4096, 0))
    succeeds(f"write to the end of {name}", lambda: os.pwrite(descriptor, b"x", size))
    for length in [0, size - 4096, size + 4096]:
        succeeds(f"make {name} {length} long", lambda: os.ftruncate(descriptor, length))
    succeeds(f"seal {name}", lambda: fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE))
    hole = FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE
    succeeds(f"take pages out of {name}", lambda: libc(
        LIBC.fallocate, descriptor, hole, ctypes.c_long(0), ctypes.c_long(size)))
    succeeds(f"sendfile into {name}", lambda: os.sendfile(descriptor, descriptor, 0, 4096))


def main():
    if "as" in sys.argv[2:]:
        uid = int(sys.argv[3])
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    server, answer, descriptor = region(sys.argv[1])
    if "ask" in sys.argv[2:]:
        print(answer)
        return
    attack(descriptor, "what was passed")
    # A process of the server's user, or of root, can open the memory again.
    owner = os.fstat(descriptor).st_uid
    reopened = [] if os.getuid() in (0, owner) else [
        (os.O_RDWR, "both"), (os.O_WRONLY, "writing"), (os.O_RDWR | os.O_TRUNC, "nothing")]
    if reopened:
        succeeds("change the mode", lambda: os.fchmod(descriptor, 0o666))
        print("of another user")
    for flags, how in reopened:
        try:
            again = os.open(f"/proc/self/fd/{descriptor}", flags)
        except OSError:
            continue
        attack(again, f"what was opened again for {how}")
        os.close(again)
    size = os.fstat(descriptor).st_size
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    address = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    assert address not in (None, ctypes.c_void_p(-1).value), "it cannot be read at all"
    assert ctypes.string_at(address, 8) == b"LARDERRG", ctypes.string_at(address, 8)
    succeeds("have memory made writable",
             lambda: libc(LIBC.mprotect, address, size, mmap.PROT_READ | mmap.PROT_WRITE))
    succeeds("take pages out of memory", lambda: libc(LIBC.madvise, address, size, MADV_REMOVE))
    for offset in [0, 64, 4096, size // 2, size - 8]:
        scribble(address, offset)
    print("done")
    sys.stdout.flush()
    server.close()


main()
