"""A cache in several processes: forks, spawned children, pickled handles, replaced files."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import PACKAGE, output_of

from larder_cache import Cache, OpenError, UntrustedError

Start = Callable[..., subprocess.Popen[str]]


def in_child(function: Callable[[], None]) -> None:
    """Runs a function in a forked child, and fails if it fails there."""
    child = os.fork()
    if child == 0:
        try:
            function()
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_two_handles_share_a_file(path: Path) -> None:
    with Cache(shared=path) as one, Cache(shared=str(path)) as other:
        one["k"] = "v"
        assert other["k"] == "v"
        assert other.incr("n") == 1
        assert one.incr("n") == 2
        assert one.path == str(path)
        assert path.stat().st_mode & 0o777 == 0o600


def test_many_handles_of_a_process_count_once(path: Path) -> None:
    handles = [Cache(shared=path, memory="16M", processes=2) for _ in range(300)]
    for number, handle in enumerate(handles):
        handle["k"] = number
    for handle in handles[1:]:
        handle.close()
    assert handles[0]["k"] == 299
    in_child(lambda: handles[0].set("k", "of the child"))
    assert handles[0]["k"] == "of the child"
    handles[0].close()


def test_a_handle_of_a_file_that_was_replaced_is_not_shared(path: Path) -> None:
    with Cache(shared=path, memory="16M") as old:
        old["k"] = "old"
        path.unlink()
        with Cache(shared=path, memory="16M") as new:
            assert "k" not in new


def test_a_forked_child_shares_the_file(path: Path) -> None:
    with Cache(shared=path) as cache:
        cache["k"] = "of the parent"

        def child() -> None:
            assert cache["k"] == "of the parent"
            cache["k"] = "of the child"

        in_child(child)
        assert cache["k"] == "of the child"


def test_children_share_memory_without_a_file() -> None:
    with Cache(memory="16M", children=True) as cache:
        assert cache.is_shared
        in_child(lambda: cache.set("k", "of the child"))
        assert cache["k"] == "of the child"


def test_a_private_cache_stays_private() -> None:
    with Cache(memory="16M") as cache:
        cache["k"] = "of the parent"

        def child() -> None:
            cache["k"] = "of the child"
            assert cache["k"] == "of the child"

        in_child(child)
        assert cache["k"] == "of the parent"


def add(cache: Cache, times: int) -> None:
    for _ in range(times):
        cache.incr("n")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_handle_is_passed_to_other_processes(path: Path, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with Cache(shared=path, memory="16M") as cache:
        processes = [context.Process(target=add, args=(cache, 1000)) for _ in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(30)
            assert process.exitcode == 0
        assert cache["n"] == 3000


def test_a_pickled_handle_keeps_its_options(path: Path) -> None:
    key = b"k" * 32
    with Cache(shared=path, serializer="pickle", signing_key=key, ttl=60) as cache:
        cache["k"] = [1]
        with pickle.loads(pickle.dumps(cache)) as copy:
            assert copy["k"] == [1]
            assert copy.default_ttl == 60
            copy["k"] = [2]
        assert cache["k"] == [2]
    for name in ("json", "msgspec", "pickle"):
        with Cache(shared=path, serializer=name) as cache:
            cache["k"] = [1]
            assert pickle.loads(pickle.dumps(cache))["k"] == [1]
    for children in (False, True):
        private = Cache(memory="16M", children=children)
        with private, pytest.raises(TypeError, match="cannot be pickled: open it with shared=path"):
            pickle.dumps(private)


def test_a_file_that_is_replaced(path: Path) -> None:
    """After a deploy that removes the file, old and new processes must not stay apart."""
    with Cache(shared=path, memory="16M") as old:
        old["k"] = "old"
        path.unlink()
        time.sleep(1.1)
        assert old["k"] == "old", "the processes that share the removed file still use it"
        with Cache(shared=path, memory="16M") as new:
            assert "k" not in new
            new["k"] = "new"
            deadline = time.monotonic() + 5
            while old.get("k") != "new":
                assert time.monotonic() < deadline, "the old handle stays in the removed file"
                time.sleep(0.05)
            old["back"] = 1
            assert new["back"] == 1


def test_a_file_that_is_replaced_by_something_else(path: Path) -> None:
    with Cache(shared=path, memory="16M") as cache:
        cache["k"] = "v"
        other = path.with_name("other")
        other.write_text("This is a letter, not a cache." * 1000)
        other.rename(path)
        time.sleep(1.1)
        with pytest.warns(RuntimeWarning, match="was replaced, but the new file cannot be used"):
            assert cache["k"] == "v"
        assert path.read_text().startswith("This is a letter"), "a foreign file is never changed"
        time.sleep(1.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="stays in use"):
                cache.get("k")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"x" * 100_000, "cannot open a shared cache"), (None, "cannot open a shared cache")],
)
def test_a_path_that_is_no_cache(path: Path, content: bytes | None, message: str) -> None:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(OpenError, match=message) as raised:
        Cache(shared=path)
    assert str(path) in str(raised.value)


def test_a_folder_that_does_not_exist(path: Path) -> None:
    with pytest.raises(OpenError, match="No such file"):
        Cache(shared=path / "cache")


def test_memory_that_is_too_small() -> None:
    with pytest.raises(OpenError, match="1000 bytes"):
        Cache(memory=1000)


def test_a_file_that_others_can_write_to(path: Path) -> None:
    Cache(shared=path).close()
    path.chmod(0o666)
    with pytest.raises(UntrustedError, match="can end the processes that use it: pass permissions"):
        Cache(shared=path)
    with pytest.raises(UntrustedError):
        Cache(shared=path, permissions=0o660)
    Cache(shared=path, permissions=0o666).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
def test_a_file_of_another_user(path: Path) -> None:
    Cache(shared=path, serializer="json").close()
    os.chown(path, 65534, 65534)
    with pytest.raises(UntrustedError, match="belongs to user 65534 and has the mode 0600"):
        Cache(shared=path)
    with pytest.raises(UntrustedError, match="reading a pickled value runs code"):
        Cache(shared=path, serializer="pickle", permissions=0o666)
    # The other way round: root's file, another user.
    os.chown(path, 0, 0)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    program = f"""
import os, sys
sys.path.insert(0, {str(PACKAGE)!r})
from larder_cache import Cache, OpenError
os.setgid(65534)
os.setuid(65534)
try:
    Cache(shared={str(path)!r})
except OpenError as error:
    print(error)
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert "this process has no permission to open" in output.stdout, output.stderr


def test_more_processes_than_the_file_allows(path: Path, start: Start) -> None:
    program = """
import sys
from larder_cache import Cache, StoreError

cache = Cache(shared=sys.argv[1])
while True:
    try:
        cache["k"] = 1
        print("stores", flush=True)
    except StoreError as error:
        print(cache.get("before"), error, flush=True)
    if not sys.stdin.readline():
        break
"""

    def answer(process: subprocess.Popen[str]) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline()

    with Cache(shared=path, memory="16M", processes=2) as cache:
        cache["before"] = "read"
        first = start(program, path)
        assert answer(first) == "stores\n"
        second = start(program, path)
        assert second.stderr is not None
        assert answer(second).startswith("read this process can only read the cache: too many")
        assert "RuntimeWarning: too many processes use the cache" in second.stderr.readline()
        first.kill()
        first.wait()
        deadline = time.monotonic() + 10
        while answer(second) != "stores\n":
            assert time.monotonic() < deadline, "the process does not join after another has left"
            time.sleep(0.1)


def test_a_subinterpreter_cannot_import_the_module() -> None:
    program = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

import larder_cache
interpreter = interpreters.create()
code = '''
try:
    import larder_cache
except ImportError as error:
    print("ImportError:", error, flush=True)
'''
interpreters.run_string(interpreter, code)
"""
    output = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )
    assert "ImportError" in output.stdout, output.stdout + output.stderr
    assert output.returncode == 0


CALLS = {
    "cached": "f()\n    f.cache_clear()",
    "key": "g(1)",
    "json": "cache['k'] = {'a': [1] * 50}\n    cache['k']",
    "many": "cache.get_many(f'k{number}' for number in range(100))",
    "load": "cache.get_or_load('k', f.__wrapped__)\n    cache.delete('k')",
}


@pytest.mark.parametrize("call", CALLS)
def test_the_interpreter_ends_while_the_cache_calls_python(call: str, start: Start) -> None:
    program = f"""
import threading, time
from larder_cache import Cache

cache = Cache(memory="16M", serializer="json")

def slow(number=1):
    time.sleep(0.0001)
    return "x"

@cache.cached
def f():
    return slow()

@cache.cached(key=slow)
def g(number):
    return number

def work():
  while True:
    {CALLS[call]}

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
    for _ in range(3):
        output_of(start(program))


def test_the_interpreter_ends_while_threads_use_the_cache(path: Path, start: Start) -> None:
    program = """
import sys, threading
from larder_cache import Cache

cache = Cache(shared=sys.argv[1], memory="16M")

def work(number):
    while True:
        cache[f"k{number}"] = bytes(100_000)
        cache.get(f"k{number}")

for number in range(8):
    threading.Thread(target=work, args=(number,), daemon=True).start()
import time; time.sleep(0.3)
"""
    for _ in range(3):
        output_of(start(program, path))
