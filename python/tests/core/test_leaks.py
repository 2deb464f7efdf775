"""Memory and descriptors stay constant over many operations."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from larder_cache import Cache, LarderError


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def growth_kib(operation: Callable[[int], Any], times: int) -> int:
    """Returns how much the process grows while it repeats an operation, after a first round."""
    for number in range(times):
        operation(number)
    gc.collect()
    before = resident_kib()
    for number in range(times):
        operation(number)
    gc.collect()
    return resident_kib() - before


def test_operations_do_not_leak() -> None:
    with Cache(memory="4M", serializer="json") as cache:

        def operations(number: int) -> None:
            key = f"k{number % 100}"
            cache.set(key, "x" * 1000, ttl=60)
            cache.get(key)
            cache[key] = {"a": [number]}
            cache[key]
            cache.get_many([key, "absent", b"other"])
            cache.gets(key)
            cache.incr("n")
            cache.get("k" * 300, None)
            cache.get("\udcff")
            cache.pop(key, None)
            cache["large"] = bytes(70_000)
            cache["large"]
            for refused in (lambda: cache["absent"], lambda: cache.set("", 1)):
                with pytest.raises((KeyError, ValueError)):
                    refused()

        assert growth_kib(operations, 5000) < 1500


def test_walks_do_not_leak(cache: Cache) -> None:
    cache.update({f"k{number}": number for number in range(1000)})

    def walk(number: int) -> None:
        items = iter(cache.items())
        for _ in range(number % 10):
            next(items)
        list(cache.keys("k1"))

    assert growth_kib(walk, 300) < 1500


def test_loads_do_not_leak(cache: Cache) -> None:
    def failing() -> None:
        raise ZeroDivisionError(bytes(10_000))

    def load(number: int) -> None:
        cache.get_or_load(f"k{number}", lambda: "v")
        with pytest.raises(ZeroDivisionError):
            cache.get_or_load("failing", failing)
        cache.lease(f"lease{number % 10}", 0.001)
        cache.cached(lambda: number, prefix=f"f{number % 10}")()

    assert growth_kib(load, 1000) < 1500

    async def tasks() -> None:
        for number in range(1000):
            await cache.get_or_load_async(f"a{number}", lambda: asyncio.sleep(0, "v"))

    assert growth_kib(lambda _: asyncio.run(tasks()), 3) < 1500


def test_caches_return_their_memory_and_descriptors(path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    def maps() -> int:
        with open("/proc/self/maps") as lines:
            return sum(1 for _ in lines)

    def open_and_fill(number: int) -> None:
        with Cache(shared=path, memory="8M") as cache:
            cache[f"k{number}"] = bytes(100_000)
        dropped = Cache(memory="8M")
        dropped["k"] = bytes(100_000)
        with pytest.raises(LarderError):
            Cache(shared="/proc/cache")

    open_and_fill(0)
    before = descriptors(), maps()
    assert growth_kib(open_and_fill, 30) < 1500
    assert descriptors() <= before[0]
    assert maps() <= before[1] + 4


def test_threads_that_close_and_use_a_cache() -> None:
    """A cache is closed while other threads use it: each call succeeds or raises ClosedError."""
    from larder_cache import ClosedError

    for _ in range(20):
        cache = Cache(memory="4M")
        cache["k"] = bytes(100_000)
        failures: list[BaseException] = []

        def use(cache: Cache = cache, failures: list[BaseException] = failures) -> None:
            try:
                while True:
                    assert len(cache["k"]) == 100_000
                    cache["other"] = bytes(70_000)
            except ClosedError:
                return
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        cache.close()
        for thread in threads:
            thread.join()
        assert failures == []
