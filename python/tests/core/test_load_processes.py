"""One process computes a value while the others wait, also if processes fork, end or are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from programs import output_of

from larder_cache import Cache, LoadError

Start = Callable[..., subprocess.Popen[str]]

LOADS = """
import sys, time
from larder_cache import Cache

cache = Cache(shared=sys.argv[1])
calls = 0

def loader():
    global calls
    calls += 1
    time.sleep(0.5)
    return 42

print("ready", flush=True)
sys.stdin.readline()
assert cache.get_or_load("k", loader, ttl=60) == 42
print(calls)
"""


def test_processes_wait_for_the_value(path: Path, start: Start) -> None:
    processes = [start(LOADS, path) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    calls = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    calls = [int(output_of(process)) for process in processes]
    assert sum(calls) == 1


# Loads for as long as the test wants, and prints when it has begun.
HOLDS = """
import sys, time
from larder_cache import Cache

cache = Cache(shared=sys.argv[1])

def loader():
    print("loading", flush=True)
    command = sys.stdin.readline().strip()
    if command == "fail":
        raise ValueError("the table is empty")
    return command

cache.get_or_load("k", loader)
"""


def test_a_killed_process_leaves_the_load_to_another(path: Path, start: Start) -> None:
    with Cache(shared=path) as cache:
        holder = start(HOLDS, path)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "loading\n"
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(cache.get_or_load, "k", lambda: "ours") for _ in range(3)]
            time.sleep(0.3)
            assert not any(caller.done() for caller in waiting)
            began = time.monotonic()
            os.kill(holder.pid, signal.SIGKILL)
            assert [caller.result() for caller in waiting] == ["ours"] * 3
            assert time.monotonic() - began < 1


def test_an_exception_reaches_waiting_processes_once(path: Path, start: Start) -> None:
    with Cache(shared=path) as cache:
        holder = start(HOLDS, path)
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "loading\n"

        def never() -> str:
            raise AssertionError("another process loads the value")

        def attempt(_: int) -> LoadError:
            with pytest.raises(LoadError) as raised:
                cache.get_or_load("k", never)
            return raised.value

        with ThreadPoolExecutor(3) as pool:
            waiting = pool.map(attempt, range(3))
            time.sleep(0.3)
            holder.stdin.write("fail\n")
            holder.stdin.flush()
            errors = list(waiting)
        message = "the loader in another process failed: ValueError: the table is empty"
        assert [str(error) for error in errors] == [message] * 3
        assert {error.type_name for error in errors} == {"ValueError"}
        assert cache.get_or_load("k", lambda: "again") == "again"
        assert list(cache) == ["k"], "the note about the failure is not an item"


def test_a_fork_in_the_middle_of_a_load(path: Path) -> None:
    with Cache(shared=path) as cache:

        def loader() -> str:
            child = os.fork()
            if child == 0:
                # The child returns from the loader as well, and must end neither the lease nor
                # the load of its parent.
                return "of the child"
            assert os.waitpid(child, 0)[1] == 0
            return "of the parent"

        parent = os.getpid()
        result = cache.get_or_load("k", loader, ttl=60)
        if os.getpid() != parent:
            os._exit(0 if result == "of the child" else 1)
        assert result == "of the parent"
        assert cache["k"] in ("of the parent", "of the child")
        lease = cache.lease("k", 1)
        assert lease is not None, "the load is over"
        lease.release()


def test_a_load_survives_the_end_of_the_interpreter(path: Path, start: Start) -> None:
    program = """
import sys, threading, time
from larder_cache import Cache

cache = Cache(shared=sys.argv[1])
begun = threading.Event()

def loader():
    begun.set()
    time.sleep(60)

threads = [
    threading.Thread(target=cache.get_or_load, args=("k", loader), daemon=True) for _ in range(8)
]
for thread in threads:
    thread.start()
begun.wait()
time.sleep(0.1)
print("ends")
"""
    with Cache(shared=path) as cache:
        assert output_of(start(program, path)) == "ends\n"
        began = time.monotonic()
        assert cache.get_or_load("k", lambda: "next") == "next"
        assert time.monotonic() - began < 1


KILLED = """
import os, sys, threading, time
from larder_cache import Cache

cache = Cache(shared=sys.argv[1], memory="16M")
seed = int(sys.argv[2])
print("ready", flush=True)
number = 0
while True:
    number += 1
    key = f"k{(number * 7919 + seed) % 50}"
    value = cache.get_or_load(key, lambda: key * 100, ttl=1)
    assert value == key * 100, value[:20]
    cache.set(f"s{number % 200}", bytes([number % 256]) * (number % 5000))
    cache.delete(key)
    cache.incr("n")
"""


def repeated(key: str) -> str:
    return key * 100


def test_killed_workers_harm_nobody(path: Path, start: Start) -> None:
    """Four workers load, store, count and delete. One after the other is killed and replaced."""
    seconds = float(os.environ.get("SECS", "5"))
    with Cache(shared=path, memory="16M") as cache:
        workers = [start(KILLED, path, seed) for seed in range(4)]
        ends, longest, kills, reads = time.monotonic() + seconds, 0.0, 0, 0
        while time.monotonic() < ends:
            victim = workers.pop(0)
            victim.kill()
            victim.wait()
            kills += 1
            workers.append(start(KILLED, path, kills))
            pause = time.monotonic() + 0.1
            while time.monotonic() < pause:
                began = time.monotonic()
                key = f"k{reads % 50}"
                assert cache.get_or_load(key, partial(repeated, key)) == key * 100
                cache[f"own{reads % 100}"] = reads
                longest = max(longest, time.monotonic() - began)
                reads += 1
        for worker in workers:
            assert worker.poll() is None, worker.communicate()[1]
        assert kills > 5
        assert longest < 2, f"a caller waited for {longest:.1f} s"
        for key, value in cache.items():
            if key.startswith("s"):
                assert len(set(value)) <= 1, f"{key} is torn"
