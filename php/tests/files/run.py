#!/usr/bin/env python3
"""Tests of larder.path with php-fpm, as root: `run.py LARDER_SO [NAME…]`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from pools import Pools, cli, cli_begin

OWNER = ("www-data", "www-data")
OTHER = ("daemon", "daemon")
SET = "$c = Larder\\Cache::shared(); var_dump($c->set('%s', %s));"
GET = "echo json_encode(Larder\\Cache::shared()->get('%s'));"


class Failed(Exception):
    pass


def expect(what, found, wanted):
    if found != wanted:
        raise Failed("%s: %r instead of %r" % (what, found, wanted))


class Case:
    """A folder with the sticky bit for the file, and the pools of the test."""

    def __init__(self, extension):
        self.extension = extension
        self.folder = tempfile.mkdtemp(prefix="larder-files-", dir="/dev/shm")
        os.chmod(self.folder, 0o1777)
        self.path = self.folder + "/region"
        self.settings = {"larder.path": self.path, "larder.owner": "www-data", "larder.memory": "8M"}
        self.pools = None

    def start(self, users=None, **settings):
        self.settings.update({"larder." + name: value for name, value in settings.items()})
        self.pools = Pools(self.extension, users or {"www": OWNER}, self.settings)
        return self.pools

    def cli(self, code, user=OWNER):
        return cli(self.extension, user, self.settings, code)

    def stat(self, path=None):
        found = os.stat(path or self.path)
        return "%o %d:%d" % (found.st_mode & 0o7777, found.st_uid, found.st_gid)

    def end(self):
        if self.pools:
            self.pools.stop()
        shutil.rmtree(self.folder)


def owner(case):
    """The root master gives the file to its owner; workers and the CLI of the owner share it."""
    pools = case.start()
    expect("the file", case.stat(), "600 33:0")
    expect("a set", pools.run(SET % ("a", "[1, 'x']")), "bool(true)\n")
    expect("all workers", set(pools.run_all(GET % "a")), {'[1,"x"]'})
    expect("the CLI", case.cli(GET % "a"), '[1,"x"]')
    expect("a set of the CLI", case.cli(SET % ("b", "2")), "bool(true)")
    expect("the workers", pools.run(GET % "b"), "2")
    expect("warnings", re.findall("Warning|Notice", pools.output()), [])


def reload(case):
    """The items survive a reload of php-fpm, and its end."""
    pools = case.start()
    pools.run(SET % ("a", "1"))
    pools.reload()
    expect("after a reload", pools.run(GET % "a"), "1")
    pools.stop()
    pools = case.start()
    expect("after a restart", pools.run(GET % "a"), "1")


def resize(case):
    """A reload with another size empties the file, unless another process uses it."""
    limit = "echo round(filesize('%s') / 1048576);" % case.path
    # A file has memory for further processes in addition.
    case.settings["larder.processes"] = "16"
    pools = case.start()
    pools.run(SET % ("a", "1"))
    expect("the first size", pools.run(limit), "8")
    case.settings["larder.memory"] = "16M"
    pools.configure(case.settings)
    user = cli_begin(case.extension, OWNER, case.settings, (GET % "a") + " fflush(STDOUT); sleep(60);")
    pools.reload()
    expect("the size while a CLI uses it", pools.run(limit), "8")
    expect("the items", pools.run(GET % "a"), "1")
    if "keeps its size" not in pools.output():
        raise Failed("no notice:\n" + pools.output())
    user.kill()
    user.wait()
    pools.reload()
    expect("the new size", pools.run(limit), "16")
    expect("the owner", case.stat(), "600 33:0")
    expect("the items", pools.run(GET % "a"), "null")
    expect("a set", pools.run(SET % ("a", "2")), "bool(true)\n")


def users(case):
    """A pool of another user has a separate file."""
    pools = case.start({"www": OWNER, "other": OTHER})
    pools.run(SET % ("a", "1"))
    expect("the other pool", pools.run(GET % "a", "other"), "null")
    expect("its set", pools.run(SET % ("a", "2"), "other"), "bool(true)\n")
    expect("its workers", set(pools.run_all(GET % "a", "other")), {"2"})
    expect("the first pool", pools.run(GET % "a"), "1")
    expect("its file", case.stat(case.path + "-1"), "600 1:1")
    expect("the CLI of root", cli_of_root(case), "null")
    expect("warnings", re.findall("Warning|Notice", pools.output()), [])


def cli_of_root(case):
    return cli(case.extension, ("root", "root"), case.settings, GET % "a")


def group(case):
    """With larder.shared_group the members of the group share the file."""
    pools = case.start({"www": OWNER, "other": ("daemon", "www-data")}, shared_group="www-data")
    expect("the file", case.stat(), "660 33:33")
    pools.run(SET % ("a", "1"))
    expect("the other pool", pools.run(GET % "a", "other"), "1")
    expect("a set of the other pool", pools.run(SET % ("a", "2"), "other"), "bool(true)\n")
    expect("the first pool", pools.run(GET % "a"), "2")
    expect("a CLI that is no member", case.cli(GET % "a", ("daemon", "daemon")), "null")


def removed(case):
    """Workers attach the file that the name currently refers to."""
    pools = case.start()
    pools.run(SET % ("a", "1"))
    expect("all workers", set(pools.run_all(GET % "a")), {"1"})
    os.unlink(case.path)
    time.sleep(2.1)
    expect("all workers, without the file", set(pools.run_all(GET % "a")), {"null"})
    expect("a set", pools.run(SET % ("a", "2")), "bool(true)\n")
    time.sleep(1.1)
    expect("all workers, with a new file", set(pools.run_all(GET % "a")), {"2"})
    expect("the CLI", case.cli(GET % "a"), "2")
    # In a folder of root the workers cannot make another file, so they keep the shared one.
    os.chmod(case.folder, 0o755)
    os.unlink(case.path)
    time.sleep(2.1)
    expect("all workers, in a folder of root", set(pools.run_all(GET % "a")), {"2"})


def planted(case):
    """With a file of another user, pages work, all keys miss, and a worker warns once."""
    with open(case.path, "w"):
        pass
    os.chown(case.path, 1, 1)
    os.chmod(case.path, 0o600)
    pools = case.start()
    first = pools.run_all(GET % "a" + " echo ' page';")
    for text in first:
        expect("warnings", text.count("Warning"), 1)
        expect("the page", text.endswith("null page"), True)
    expect("the second time", set(pools.run_all(GET % "a" + " echo ' page';")), {"null page"})
    if "belongs to user 1, not to user 33" not in pools.output():
        raise Failed("no warning at the start:\n" + pools.output())


def anonymous(case):
    """Without larder.path the workers of all pools share the memory of the master."""
    case.settings["larder.path"] = ""
    pools = case.start({"www": OWNER, "other": OTHER})
    pools.run(SET % ("a", "1"))
    expect("all workers", set(pools.run_all(GET % "a")), {"1"})
    expect("the other pool", pools.run(GET % "a", "other"), "1")
    pools.reload()
    expect("after a reload", pools.run(GET % "a"), "null")
    expect("warnings", re.findall("Warning|Notice", pools.output()), [])


def pool(case):
    """A pool can have a separate file by php_admin_value, and sessions in it."""
    settings = {"larder.path": "", "larder.memory": "8M", "session.save_handler": "larder"}
    admin = {"other": {"larder.path": case.path, "larder.owner": "daemon"}}
    pools = case.pools = Pools(case.extension, {"www": OWNER, "other": OTHER}, settings, admin=admin)
    pools.run(SET % ("a", "1"))
    pools.run(SET % ("a", "2"), "other")
    expect("all workers", set(pools.run_all(GET % "a")), {"1"})
    expect("all workers of the other pool", set(pools.run_all(GET % "a", "other")), {"2"})
    expect("the file", case.stat(), "600 1:1")
    count = "session_id('visitor'); session_start(['use_strict_mode' => 0, 'use_cookies' => 0]); " \
        "usleep(20000); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;"
    found = pools.run_all(count, "other") + pools.run_all(count, "other")
    expect("a session", sorted(found), ["1", "2", "3", "4", "5", "6"])
    expect("a session of the first pool", pools.run(count), "1")
    expect("warnings", re.findall("Warning|Notice", pools.output()), [])


def jail(case):
    """A pool with chroot shares the memory of the master."""
    settings = {"larder.memory": "8M"}
    pools = case.pools = Pools(case.extension, {"www": OWNER, "jail": OTHER}, settings, jails=["jail"])
    expect("the root", pools.run("echo file_exists('/run.php') ? 'yes' : 'no';", "jail"), "yes")
    expect("a set", pools.run(SET % ("a", "1"), "jail"), "bool(true)\n")
    expect("all workers", set(pools.run_all(GET % "a")), {"1"})
    expect("a set of the other pool", pools.run(SET % ("b", "2")), "bool(true)\n")
    expect("all workers of the jail", set(pools.run_all(GET % "b", "jail")), {"2"})
    expect("warnings", re.findall("Warning|Notice", pools.output()), [])


def jail_with_file(case):
    """A file of a pool with chroot is inside its root, where users have no names."""
    settings = {"larder.memory": "8M"}
    admin = {"jail": {"larder.path": "/cache/region"}}
    pools = case.pools = Pools(
        case.extension, {"www": OWNER, "jail": OTHER}, settings, admin=admin, jails=["jail"])
    os.mkdir(pools.folder + "/cache")
    os.chmod(pools.folder + "/cache", 0o1777)
    expect("a set", pools.run(SET % ("a", "1"), "jail"), "bool(true)\n")
    expect("all workers of the jail", set(pools.run_all(GET % "a", "jail")), {"1"})
    expect("the other pool", pools.run(GET % "a"), "null")
    expect("the file", case.stat(pools.folder + "/cache/region"), "600 1:1")
    pools.reload()
    expect("after a reload", pools.run(GET % "a", "jail"), "1")
    expect("warnings", re.findall("Warning|Notice", pools.output()), [])


def jail_without_file(case):
    """A pool with chroot cannot reach the file of the other pools: all keys miss, and each worker
    warns once."""
    case.settings["larder.owner"] = "33"
    pools = case.pools = Pools(
        case.extension, {"www": OWNER, "jail": OWNER}, case.settings, jails=["jail"])
    expect("a set of the other pool", pools.run(SET % ("a", "1")), "bool(true)\n")
    for text in pools.run_all(GET % "a" + " echo ' page';", "jail"):
        expect("warnings", text.count("Warning"), 1)
        expect("the reason", "No such file or directory" in text, True)
        expect("the page", text.endswith("null page"), True)
    expect("the second time", set(pools.run_all(GET % "a", "jail")), {"null"})
    expect("the other pool", pools.run(GET % "a"), "1")


def ended(case):
    """A worker that is killed, or whose request ends in the middle, leaves the cache usable."""
    pools = case.start()
    for end in ("posix_kill(getmypid(), 9);", "exit;", "str_repeat('x', 1 << 30);"):
        code = "Larder\\Cache::shared()->getOrCompute('k', function () { %s });" % end
        try:
            pools.run(code)
        except OSError:
            pass
        time.sleep(0.2)
        begin = time.monotonic()
        computed = pools.run("echo Larder\\Cache::shared()->getOrCompute('k', fn () => 5);")
        expect("after " + end, computed, "5")
        expect("the time after " + end, time.monotonic() - begin < 1, True)
        pools.run("Larder\\Cache::shared()->delete('k');")


CASES = [owner, reload, resize, users, group, removed, planted, anonymous, pool, jail,
         jail_with_file, jail_without_file, ended]


def main():
    if os.geteuid() != 0:
        raise SystemExit("run.py needs root, for pools of several users")
    with tempfile.TemporaryDirectory(prefix="larder-module-") as folder:
        # Other users may not be able to read the checkout, in root's home for example.
        os.chmod(folder, 0o755)
        extension = shutil.copy(sys.argv[1], folder)
        failures = run_cases(extension, sys.argv[2:])
    raise SystemExit(failures != 0)


def run_cases(extension, names):
    """Runs the cases with these names, or all of them. Returns how many failed."""
    failures = 0
    for run in CASES:
        if names and run.__name__ not in names:
            continue
        case = Case(extension)
        try:
            run(case)
            print("ok", run.__name__)
        except Failed as failure:
            failures += 1
            print("FAILED", run.__name__, failure)
            print(case.pools.output() if case.pools else "")
        finally:
            case.end()
    return failures


main()
