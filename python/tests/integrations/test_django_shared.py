"""`larder_cache.django.LarderCache`. Django's own tests of backends run in suites/django.sh."""

from __future__ import annotations

import asyncio
import inspect
import logging
import multiprocessing
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache, caches
from django.core.cache.backends.base import BaseCache, InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django.utils.safestring import SafeString, mark_safe

from larder_cache import Cache, CounterError, UntrustedError
from larder_cache.django import LarderCache


def backend(location: object = "local", timeout: object = 300, **options: Any) -> LarderCache:
    options.setdefault("memory", "16M")
    return LarderCache(location, {"OPTIONS": options, "TIMEOUT": timeout})  # type: ignore[arg-type]


def make_local(name: str, **options: Any) -> LarderCache:
    made = backend(f"local:{name}", **options)
    made.clear()
    return made


def test_django_finds_the_backend_by_its_name(path: str) -> None:
    settings = {"default": {"BACKEND": "larder_cache.django.LarderCache", "LOCATION": path}}
    with override_settings(CACHES=settings):
        cache.set("key", "value")
        assert isinstance(caches["default"], LarderCache)
        assert cache.get("key") == "value"
        assert Cache(shared=path).get(":1:key") == "value"


def test_values_without_a_serializer_keep_their_types() -> None:
    plain = make_local("plain")
    values = {"b": b"\0\xff", "s": "text ü", "i": -(2**70), "f": 0.5, "t": True, "n": None}
    assert plain.set_many(values) == []
    found = plain.get_many([*values, "absent"])
    assert found == values
    assert [type(value) for value in found.values()] == [type(value) for value in values.values()]


@pytest.mark.parametrize("value", [[1], {"a": 1}, mark_safe("<b>")], ids=["list", "dict", "safe"])
def test_other_values_need_a_serializer_in_options(value: object) -> None:
    plain = make_local("plain")
    for store in (
        lambda: plain.set("key", value),
        lambda: plain.add("key", value),
        lambda: plain.set_many({"key": value}),
        lambda: plain.get_or_set("key", value),
        lambda: plain.get_or_set("key", lambda: value),
        lambda: asyncio.run(plain.aget_or_set("key", lambda: value)),
    ):
        with pytest.raises(TypeError, match=r"OPTIONS=.'serializer'"):
            store()
    assert plain.get("key") is None


def test_a_safe_string_stays_one_with_pickle() -> None:
    pickling = make_local("pickling", serializer="pickle")
    pickling.set("key", mark_safe("<b>"))
    assert isinstance(pickling.get("key"), SafeString)


def test_type_errors_of_a_loader_are_its_own() -> None:
    def fail() -> object:
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        make_local("plain").get_or_set("key", fail)


def test_pickle_is_refused_in_a_file_that_others_can_write_to(path: str) -> None:
    everyone: Any = {"permissions": 0o666}
    Cache(shared=path, memory="16M", **everyone).close()
    unsigned = backend(path, serializer="pickle", **everyone)
    with pytest.raises(UntrustedError):
        unsigned.get("key")
    signed = backend(path, serializer="pickle", signing_key="a key for the tests only", **everyone)
    signed.set("key", [1])
    assert signed.get("key") == [1]


def test_options_are_those_of_the_cache(path: str) -> None:
    shared = backend(path, memory="32M", permissions=0o640, item_max="2M")
    shared.set("key", b"x" * 1_500_000)
    assert len(shared.get("key")) == 1_500_000
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    assert Cache(shared=path).memory_usage()["limit"] == 32 << 20


def test_unknown_options_and_locations_are_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"'memroy'.*expected cas, evict"):
        backend(memroy="16M")
    with pytest.raises(ImproperlyConfigured, match="absolute path"):
        backend("relative/path")
    with pytest.raises(ValueError, match="unknown serializer 'yaml'"):
        backend(serializer="yaml")


def test_a_pathlib_path_is_a_location(path: str) -> None:
    backend(Path(path)).set("key", 1)
    assert backend(path).get("key") == 1


def test_max_entries_and_cull_frequency_have_no_effect() -> None:
    few = make_local("few", MAX_ENTRIES=3, CULL_FREQUENCY=1)
    few.set_many({str(number): number for number in range(100)})
    assert len(few.get_many(map(str, range(100)))) == 100


def test_making_the_backend_opens_nothing(path: str) -> None:
    """`manage.py check` makes all backends, often as another user than that of the site."""
    made = backend(path)
    assert not os.path.exists(path)
    made.get("key")
    assert os.path.exists(path)


def test_threads_and_aliases_use_one_open_cache(path: str) -> None:
    """Django makes a backend for each thread. Each open cache counts as a process."""
    backends = [backend(path, serializer="pickle") for _ in range(200)]
    for number, made in enumerate(backends):
        made.set("key", number)
    assert backends[0].get("key") == 199


def test_timeouts(path: str) -> None:
    shared = backend(path, timeout=100)
    native = Cache(shared=path)
    for timeout, ttl in ((None, None), (1.5, 2), (50, 50), (10**9, 10**9), (float("inf"), None)):
        shared.set("key", 1, timeout)
        assert native.ttl_of(":1:key") == ttl
        assert shared.touch("key", timeout) and native.ttl_of(":1:key") == ttl
    shared.set("key", 1)
    assert native.ttl_of(":1:key") == 100
    for timeout in (0, -1, -0.5):
        shared.set("key", 1)
        shared.set("key", 2, timeout)
        assert "key" not in shared
        assert shared.add("key", 1, timeout) is True and "key" not in shared
        shared.set("key", 1)
        assert shared.add("key", 1, timeout) is False and "key" in shared
        assert shared.touch("key", timeout) is True and "key" not in shared
        assert shared.touch("key", timeout) is False
        assert shared.get_or_set("key", lambda: 7, timeout) == 7 and "key" not in shared
        assert asyncio.run(shared.aget_or_set("key", lambda: 7, timeout)) == 7
        assert shared.set_many({"key": 1}, timeout) == [] and "key" not in shared


def test_keys_may_contain_blanks_and_have_250_bytes() -> None:
    plain = make_local("keys")
    longest = "ü" * 123 + "x"
    for key in ("with blanks", "line\nend", "清", longest):
        plain.set(key, key)
        assert plain.get(key) == key
    for key in (longest + "y", "ü" * 124, "清" * 100):
        with pytest.raises(InvalidCacheKey, match="expected 1 to 250"):
            plain.set(key, 1)
    custom = LarderCache("local:keys", {"KEY_FUNCTION": lambda key, prefix, version: key})
    with pytest.raises(InvalidCacheKey, match="has 0 bytes"):
        custom.get("")


def test_incr_is_atomic_and_keeps_the_timeout(path: str) -> None:
    shared = backend(path)
    shared.set("count", 0, 50)

    def add() -> None:
        for _ in range(2000):
            backend(path).incr("count")

    threads = [threading.Thread(target=add) for _ in range(4)]
    children = [multiprocessing.get_context("fork").Process(target=add) for _ in range(2)]
    for worker in (*children, *threads):
        worker.start()
    for worker in (*children, *threads):
        worker.join()
    assert shared.get("count") == 12_000
    assert Cache(shared=path).ttl_of(":1:count") in range(30, 51)
    assert shared.decr("count", 12_001) == -1
    with pytest.raises(ValueError, match="Key 'absent' not found"):
        shared.incr("absent")
    assert "absent" not in shared
    shared.set("text", "abc")
    with pytest.raises(CounterError):
        shared.incr("text")


def test_a_value_that_is_too_large_is_logged_and_leaves_no_old_value(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    shared = backend(path, item_max="10K")
    large = b"x" * 20_000
    shared.set("key", b"old")
    with caplog.at_level(logging.WARNING, "larder_cache.django"):
        shared.set("key", large)
        assert shared.get("key") is None
        assert shared.add("key", large) is False
        assert shared.set_many({"small": 1, "large": large}) == ["large"]
        assert shared.get_or_set("key", lambda: large) == large
    assert len(caplog.records) == 3 and ":1:key" in caplog.messages[0]


def test_aliases_share_a_file_and_are_separated_by_prefix_and_version(path: str) -> None:
    one = LarderCache(path, {"KEY_PREFIX": "one", "VERSION": 3})
    other = LarderCache(path, {"KEY_PREFIX": "other"})
    one.set("key", 1)
    assert other.get("key") is None
    assert one.incr_version("key") == 4
    assert one.get("key") is None and one.get("key", version=4) == 1
    other.clear()
    assert one.get("key", version=4) is None


def test_the_memory_of_this_process_is_shared_with_forked_children() -> None:
    local = make_local("family")
    local.set("from the parent", 1)

    def child() -> None:
        seen = backend("local:family").get("from the parent")
        backend("local:family").set("from the child", seen)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert local.get("from the child") == 1
    assert backend("local:other").get("from the parent") is None
    assert backend("local").get("from the parent") is None


# get_or_set.


def test_one_thread_of_many_calls_the_default(path: str) -> None:
    calls: list[int] = []

    def load() -> str:
        calls.append(threading.get_ident())
        time.sleep(0.2)
        return "loaded"

    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(backend(path).get_or_set("key", load)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["loaded"] * 8
    assert len(calls) == 1


def _load_in_child(path: str, start: Any, counter: str) -> None:
    start.wait()

    def load() -> str:
        backend(path).incr(counter)
        time.sleep(0.2)
        return "loaded"

    assert backend(path).get_or_set("key", load) == "loaded"


def test_one_process_of_many_calls_the_default(path: str) -> None:
    backend(path).set("loads", 0)
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    children = [
        context.Process(target=_load_in_child, args=(path, start, "loads")) for _ in range(3)
    ]
    for child in children:
        child.start()
    start.set()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert backend(path).get("loads") == 1


class NotFound(Exception):
    pass


def _fail_in_child(path: str, start: Any) -> None:
    def load() -> str:
        start.set()
        time.sleep(0.3)
        raise NotFound("child")

    with pytest.raises(NotFound, match="child"):
        backend(path).get_or_set("key", load)


def test_an_exception_keeps_its_type_if_the_loader_of_another_process_fails(path: str) -> None:
    """Django turns exceptions such as Http404 into responses."""
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    child = context.Process(target=_fail_in_child, args=(path, start))
    backend(path).get("key")
    child.start()
    assert start.wait(60)

    def load() -> str:
        raise NotFound("parent")

    with pytest.raises(NotFound, match="parent"):
        backend(path).get_or_set("key", load)
    child.join()
    assert child.exitcode == 0


def test_a_value_that_is_stored_during_the_load_wins() -> None:
    local = make_local("race")

    def load() -> str:
        local.set("key", "stored")
        return "loaded"

    assert local.get_or_set("key", load) == "stored"


def test_get_or_set_returns_the_stored_form() -> None:
    local = make_local("json", serializer="json")
    assert local.get_or_set("key", lambda: (1, 2)) == [1, 2]
    assert local.get_or_set("key", lambda: (3, 4)) == [1, 2]
    assert local.get_or_set("none", lambda: None) is None
    assert local.get("none", "default") is None


# asyncio.


def test_there_is_an_asynchronous_twin_of_each_method() -> None:
    twins = [name for name in vars(BaseCache) if name.startswith("a") and name != "add"]
    inherited = [name for name in twins if getattr(LarderCache, name) is getattr(BaseCache, name)]
    # These call other twins.
    assert set(inherited) == {"adecr", "aincr_version", "adecr_version", "aclose"}


async def test_asynchronous_twins(path: str) -> None:
    shared = backend(path, serializer="json")
    await shared.aset("key", 1)
    assert await shared.aget("key") == 1 and await shared.ahas_key("key")
    assert await shared.aadd("key", 2) is False
    assert await shared.aincr("key", 4) == 5 and await shared.adecr("key") == 4
    assert await shared.atouch("key", None) is True
    assert await shared.aset_many({"a": [1], "b": [2]}) == []
    assert await shared.aget_many(["a", "b", "c"]) == {"a": [1], "b": [2]}
    assert await shared.aincr_version("key") == 2 and await shared.aget("key", version=2) == 4
    await shared.adelete_many(["a"])
    assert await shared.adelete("b") is True and await shared.adelete("b") is False
    assert await shared.aget_or_set("d", "value") == "value"
    await shared.aclear()
    assert await shared.aget("d", "default") == "default"
    await shared.aclose()
    assert await shared.aget("d") is None


async def test_tasks_wait_for_one_loader_and_the_loop_runs(path: str) -> None:
    shared = backend(path)
    loads = 0

    async def load() -> str:
        nonlocal loads
        loads += 1
        await asyncio.sleep(0.2)
        return "loaded"

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    results = await asyncio.gather(*(shared.aget_or_set("key", load) for _ in range(20)))
    ticking.cancel()
    assert results == ["loaded"] * 20
    assert loads == 1
    assert ticks > 5


def test_the_signatures_are_those_of_django() -> None:
    for name in ("get", "set", "add", "touch", "incr", "set_many", "get_or_set", "aset", "aget"):
        ours = inspect.signature(getattr(LarderCache, name)).parameters
        theirs = inspect.signature(getattr(BaseCache, name)).parameters
        assert list(ours) == list(theirs)
        assert [p.default for p in ours.values()] == [p.default for p in theirs.values()]
