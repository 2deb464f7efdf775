#!/usr/bin/env python3
"""A larderd for the suites that is a near cache: it starts an origin, and becomes the near cache.

It takes larderd's arguments. NEAR_CACHE_OF names the real larderd. NEAR_CACHE_ORIGIN names the program
of the origin, a memcached, if that is not the same larderd. The process that the suite starts
becomes the near cache, so that signals, exit status and `-P` need no help. A second process keeps the
origin until the last process of the near cache has ended: it holds a pipe that they inherit.

Options of items and answers go to both (`-m -I -f -n -M -t -u`, `-o answers_as`), all others to the
near cache. UDP is switched off. An option that a near cache refuses
(`-e`, `-C`, a disk tier, local readers, `drop_privileges`) and one that only prints something (`-h`,
`-V`, `-i`) start larderd alone.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ALONE = re.compile(r"-[eChVi]|--(memory-file|disable-cas|tier-|local-readers|help|version|license)")
ALONE_WORDS = ("ext_path", "drop_privileges", "local_readers")
BOTH = "mIfntu"
# Options of larderd with a value. A word with another letter in front is a group of switches.
WITH_VALUE = BOTH + "oabcDlpPRsUBeY"
START_SECS = 20


def split(words):
    """Returns the arguments of the origin and those of the near cache; None if it needs none."""
    origin, near = [], []
    words = iter(words)
    for word in words:
        if ALONE.match(word) or any(name in word for name in ALONE_WORDS):
            return None
        letter = word[1:2] if re.match(r"-[^-]", word) else ""
        if not letter or letter not in WITH_VALUE:
            near.append(word)
            if letter == "M":
                origin.append(word)
            continue
        value = word[2:] or next(words, None)
        if value is None:
            near.append(word)
        elif letter == "o":
            if any(name in value for name in ALONE_WORDS):
                return None
            origin += ["-o", value] if "answers_as" in value else []
            near += ["-o", value]
        elif letter == "U":
            near += ["-U", "0"]
        else:
            near += [f"-{letter}", value]
            origin += [f"-{letter}", value] if letter in BOTH else []
    return origin, near


def accepts(path):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def origin_command(larderd, path, arguments):
    memcached = os.environ.get("NEAR_CACHE_ORIGIN")
    if not memcached:
        return [larderd, "-s", path, "--followers", "8", *arguments]
    # Words of -o are larderd's. A memcached needs more of them for items below 1 MiB, whose length
    # the near cache limits, too.
    pairs = list(zip(arguments, arguments[1:]))
    dropped = {at for at, (name, value) in enumerate(pairs)
               if name == "-o" or name == "-I" and not value.endswith("m")}
    arguments = [word for at, word in enumerate(arguments)
                 if at not in dropped and at - 1 not in dropped]
    user = ["-u", "root"] if os.geteuid() == 0 and "-u" not in arguments else []
    return [memcached, "-s", path, *user, *arguments]


def keep(larderd, arguments, folder, ready, near):
    """Runs an origin until no process has the other end of the pipe `near`."""
    # A suite may kill its process group, and this process has to end the origin after that.
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(quiet, descriptor)
    path = folder / "origin"
    with (folder / "log").open("wb") as log:
        command = origin_command(larderd, path, arguments)
        origin = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + START_SECS
    while not accepts(path) and origin.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.close(ready)
    os.read(near, 1)
    origin.kill()
    origin.wait()
    shutil.rmtree(folder, ignore_errors=True)


def main():
    larderd = os.environ["NEAR_CACHE_OF"]
    arguments = split(sys.argv[1:])
    if arguments is None:
        os.execv(larderd, [larderd, *sys.argv[1:]])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="near-"))
    ready, is_ready = os.pipe()
    near, near_lives = os.pipe()
    # Two forks: the near cache must not have a child that it does not know.
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.close(near_lives)
            keep(larderd, arguments[0], folder, is_ready, near)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(is_ready)
    os.close(near)
    os.read(ready, 1)
    os.close(ready)
    os.set_inheritable(near_lives, True)
    # Without an origin, because it has refused an option, the near cache refuses the same one.
    # The suites are about answers: those of a busy machine may take a while.
    timeout = "--origin-timeout=1900ms"
    near_cache = [larderd, *arguments[1], f"--origin={folder}/origin", timeout]
    os.execv(larderd, near_cache)


if __name__ == "__main__":
    main()
