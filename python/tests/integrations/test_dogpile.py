"""`larder_cache.dogpile`. dogpile.cache's own tests of backends run in suites/dogpile.sh."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from dogpile.cache import CacheRegion, make_region
from dogpile.cache.api import NO_VALUE, CachedValue
from dogpile.cache.region import value_version

import larder_cache.dogpile
from larder_cache import Cache, SignatureError, UntrustedError


def region(path: str, expiration: float = 60, **arguments: Any) -> CacheRegion:
    arguments = {"shared": path, "memory": "16M", "serializer": "pickle", **arguments}
    return make_region().configure("larder", expiration_time=expiration, arguments=arguments)


def test_values_and_the_time_of_their_creation(path: str) -> None:
    one = region(path)
    value = {"list": [1, (2,)], "bytes": b"\0"}
    one.set("key", value)
    one.set_multi({"a": 1, "b": None})
    assert region(path).get("key") == value
    assert region(path).get_multi(["a", "absent", "b"]) == [1, NO_VALUE, None]
    found = one.get_value_metadata("key")
    assert isinstance(found, CachedValue)
    assert time.time() - 10 < found.metadata["ct"] <= time.time()
    assert found.metadata["v"] == value_version


@pytest.mark.parametrize("serializer", ["json", "msgspec"])
def test_other_serializers(path: str, serializer: str) -> None:
    one = region(path, serializer=serializer)
    one.set("key", {"a": [1, "ü", None]})
    assert one.get("key") == {"a": [1, "ü", None]}
    assert isinstance(one.get_value_metadata("key"), CachedValue)


def test_a_region_needs_a_serializer(path: str) -> None:
    with pytest.raises(TypeError, match="pass a 'serializer' in the arguments"):
        region(path, serializer=None).set("key", 1)
    own = make_region(serializer=lambda value: repr(value).encode(), deserializer=eval)
    own.configure("larder", arguments={"shared": path})
    own.set("key", [1])
    assert own.get("key") == [1]


def test_pickle_is_refused_in_a_file_that_others_can_write_to(path: str) -> None:
    Cache(shared=path, permissions=0o666).close()
    with pytest.raises(UntrustedError):
        region(path, permissions=0o666)
    signed = region(path, permissions=0o666, signing_key="a key for the tests only")
    signed.set("key", [1])
    assert signed.get("key") == [1]
    forged = region(path, permissions=0o666, signing_key="another key of the tests")
    with pytest.raises(SignatureError):
        forged.get("key")


def test_an_item_of_another_program_is_a_miss(path: str) -> None:
    one = region(path)
    Cache(shared=path).set_many({"text": "ab", "number": 1})
    assert one.get("text") is NO_VALUE and one.get("number") is NO_VALUE
    assert one.get_or_create("text", lambda: "created") == "created"


def test_long_keys_are_hashed(path: str) -> None:
    one = region(path)
    long = "ü" * 200
    one.set(long, 1)
    assert one.get(long) == 1 and one.get("ü" * 201) is NO_VALUE
    one.set("x" * 250, 2)
    assert "x" * 250 in Cache(shared=path)
    mangled = make_region(key_mangler=str.upper)
    mangled.configure("larder", arguments={"shared": path, "serializer": "json"})
    mangled.set("key", 3)
    assert "KEY" in Cache(shared=path)


def test_regions_with_the_same_arguments_use_one_open_cache(path: str) -> None:
    """Each open cache counts as a process."""
    regions = [region(path) for _ in range(200)]
    for number, made in enumerate(regions):
        made.set("key", number)
    assert regions[0].get("key") == 199


def test_arguments() -> None:
    cache = Cache(memory="16M", serializer="json")
    backend = larder_cache.dogpile.LarderBackend({"cache": cache})
    assert backend.cache is cache
    with pytest.raises(ValueError, match="leave out memory"):
        larder_cache.dogpile.LarderBackend({"cache": cache, "memory": "16M"})
    with pytest.raises(ValueError, match="lock_timeout"):
        larder_cache.dogpile.LarderBackend({"cache": cache, "lock_timeout": 0})
    with pytest.warns(UserWarning, match="unknown arguments: memroy"):
        larder_cache.dogpile.LarderBackend({"memroy": "16M"})
    configured = make_region().configure_from_config(
        {
            "cache.backend": "larder",
            "cache.expiration_time": "10",
            "cache.arguments.memory": "16M",
            "cache.arguments.serializer": "json",
            "cache.arguments.lock_timeout": "5",
        },
        "cache.",
    )
    assert configured.expiration_time == 10 and configured.actual_backend.lock_timeout == 5


def test_a_value_that_is_too_large_is_logged(path: str, caplog: pytest.LogCaptureFixture) -> None:
    one = region(path, item_max="10K")
    one.set("key", "old")
    with caplog.at_level(logging.WARNING, "larder_cache.dogpile"):
        assert one.get_or_create("large", lambda: "x" * 20_000) == "x" * 20_000
        one.set("key", "x" * 20_000)
    assert one.get("key") is NO_VALUE and len(caplog.records) == 2


def _create(path: str, start: Any) -> None:
    start.wait()

    def creator() -> str:
        Cache(shared=path).incr("creations")
        time.sleep(0.3)
        return "created"

    assert region(path).get_or_create("key", creator) == "created"


def test_one_process_of_many_creates_a_value(path: str) -> None:
    region(path)
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    children = [context.Process(target=_create, args=(path, start)) for _ in range(3)]
    for child in children:
        child.start()
    start.set()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert Cache(shared=path).get("creations") == 1


def test_others_receive_the_expired_value_while_one_creates(path: str) -> None:
    """dogpile's rule for a lock that does not block."""
    one = region(path, expiration=0.2)
    one.set("key", "old")
    time.sleep(0.3)
    creating = threading.Event()

    def creator() -> str:
        creating.set()
        time.sleep(0.3)
        return "new"

    thread = threading.Thread(target=lambda: one.get_or_create("key", creator))
    thread.start()
    creating.wait(10)
    assert one.get_or_create("key", creator) == "old"
    thread.join()
    assert one.get("key", ignore_expiration=True) == "new"


def _lock_and_hang(path: str, locked: Any) -> None:
    mutex = region(path).actual_backend.get_mutex("key")
    mutex.acquire()
    locked.set()
    time.sleep(600)


def test_the_lock_of_a_killed_process_is_free(path: str) -> None:
    mutex = region(path).actual_backend.get_mutex("key")
    context = multiprocessing.get_context("spawn")
    locked = context.Event()
    child = context.Process(target=_lock_and_hang, args=(path, locked))
    child.start()
    assert locked.wait(60)
    assert mutex.locked() and mutex.acquire(False) is False
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    began = time.monotonic()
    assert mutex.acquire() is True
    assert time.monotonic() - began < 2
    mutex.release()
    assert not mutex.locked()


def test_a_lock_times_out(path: str) -> None:
    backend = region(path, lock_timeout=1).actual_backend
    assert backend.has_lock_timeout()
    first, second = backend.get_mutex("key"), backend.get_mutex("key")
    assert first.acquire() and not second.acquire(False)
    assert second.acquire()
    # The first one no longer has the lock, so it does not release it.
    first.release()
    assert second.locked()
    second.release()


def test_locks_of_threads_only(path: str) -> None:
    backend = region(path, distributed_lock=False).actual_backend
    assert backend.get_mutex("key") is None and not backend.has_lock_timeout()


def test_the_entry_point_is_declared() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'larder = "larder_cache.dogpile:LarderBackend"' in project
