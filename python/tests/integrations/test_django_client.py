"""`larder_cache.django.LarderClient`. Django's own tests of backends run in suites/django.sh."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import servers
from asgiref.sync import async_to_sync
from django.core.cache.backends.base import BaseCache, InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured

from larder_cache import CounterError, UntrustedError
from larder_cache.django import LarderClient

SIGNED = {"serializer": "pickle", "signing_key": "a key for the tests only"}


def backend(location: Any, **options: Any) -> LarderClient:
    return LarderClient(location, {"OPTIONS": options})


@pytest.fixture(scope="module")
def one() -> Iterator[servers.Server]:
    with servers.larderd(readers=True, tcp=True) as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[servers.Server]:
    with servers.larderd() as running:
        yield running


@pytest.fixture(scope="module")
def memcached() -> Iterator[servers.Server]:
    with servers.memcached() as running:
        yield running


@pytest.fixture(params=["readers", "tcp", "several", "memcached"])
def location(request: pytest.FixtureRequest) -> Any:
    """The location of the backend: different servers, which are empty."""
    one: servers.Server = request.getfixturevalue("one")
    if request.param == "readers":
        found: Any = one.address
    elif request.param == "tcp":
        found = f"127.0.0.1:{one.port}"
    elif request.param == "several":
        found = [one.address, request.getfixturevalue("other").address]
    else:
        found = request.getfixturevalue("memcached").address
    backend(found).clear()
    return found


def test_values_without_a_serializer_keep_their_types(location: Any) -> None:
    plain = backend(location)
    values = {"b": b"\0\xff", "s": "text ü", "i": -5, "f": 0.5, "t": True, "n": None}
    assert plain.set_many(values) == []
    for found in (plain.get_many([*values, "absent"]), {key: plain.get(key) for key in values}):
        assert found == values
        assert [type(found[key]) for key in values] == [type(value) for value in values.values()]
    assert "n" in plain and "absent" not in plain
    for store in (
        lambda: plain.set("key", [1]),
        lambda: plain.add("key", [1]),
        lambda: plain.set_many({"key": [1]}),
        lambda: asyncio.run(plain.aset("key", [1])),
    ):
        with pytest.raises(TypeError, match=r"OPTIONS=.'serializer'"):
            store()


def test_pickle_needs_a_signature_or_trust(location: Any) -> None:
    with pytest.raises(UntrustedError, match="signing_key"):
        backend(location, serializer="pickle").get("key")
    signed = backend(location, **SIGNED)
    signed.set("key", {1: [2]})
    assert signed.get("key") == {1: [2]}
    trusting = backend(location, serializer="pickle", trust_server=True)
    trusting.set("key", (1,))
    assert trusting.get("key") == (1,)


def test_timeouts(location: Any) -> None:
    shared = backend(location)
    for timeout in (None, 1.5, 50, 40 * 86400, 2 * 10**8, 10**9, 10**12, float("inf")):
        shared.set("key", 1, timeout)
        assert shared.get("key") == 1 and shared.touch("key", timeout)
    for timeout in (0, -1):
        shared.set("key", 1)
        shared.set("key", 2, timeout)
        assert "key" not in shared
        assert shared.add("key", 1, timeout) is True and "key" not in shared
        shared.set("key", 1)
        assert shared.add("key", 1, timeout) is False and "key" in shared
        assert shared.touch("key", timeout) is True and "key" not in shared
        assert shared.touch("key", timeout) is False
        assert shared.get_or_set("key", lambda: 7, timeout) == 7 and "key" not in shared
    shared.set("short", 1, 1)
    time.sleep(2.1)
    assert shared.get("short") is None


def test_counters(location: Any) -> None:
    shared = backend(location)
    shared.set("count", 5)
    assert shared.incr("count", 10) == 15 and shared.decr("count", 4) == 11
    assert shared.incr("count", -1) == 10 and shared.get("count") == 10
    assert shared.decr("count", 100) == 0
    with pytest.raises(ValueError, match="Key 'absent' not found"):
        shared.incr("absent")
    shared.set("text", "abc")
    with pytest.raises(CounterError):
        shared.incr("text")


def test_illegal_keys(location: Any) -> None:
    shared = backend(location)
    for key in ("with blanks", "line\nend", "x" * 248, "清" * 100):
        with pytest.raises(InvalidCacheKey):
            shared.set(key, 1)
        with pytest.raises(InvalidCacheKey):
            asyncio.run(shared.aget(key))
    longest = "ü" * 123 + "x"
    shared.set(longest, 1)
    assert shared.get(longest) == 1


def test_a_value_that_is_too_large_is_logged_and_leaves_no_old_value(
    location: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shared = backend(location)
    large = b"x" * 2_000_000

    async def asynchronously() -> None:
        await shared.aset("key", b"old")
        await shared.aset("key", large)
        assert await shared.aget("key") is None
        assert await shared.aset_many({"small": 1, "large": large}) == ["large"]

    with caplog.at_level(logging.WARNING, "larder_cache.django"):
        shared.set("key", b"old")
        shared.set("key", large)
        assert shared.get("key") is None
        assert shared.add("key", large) is False
        assert shared.set_many({"small": 1, "large": large}) == ["large"]
        asyncio.run(asynchronously())
    assert len(caplog.records) == 5 and ":1:key" in caplog.messages[0]


async def test_asynchronous_twins(location: Any) -> None:
    shared = backend(location, serializer="json")
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
    assert await asyncio.gather(*(shared.aget("d") for _ in range(50))) == ["value"] * 50
    await shared.aclear()
    assert await shared.aget("d", "default") == "default"


def test_synchronous_views_may_call_the_twins(location: Any) -> None:
    """`async_to_sync` makes an event loop for each call."""
    shared = backend(location)
    for number in range(20):
        async_to_sync(shared.aset)("key", number)
        assert async_to_sync(shared.aget)("key") == number


def test_there_is_an_asynchronous_twin_of_each_method() -> None:
    twins = [name for name in vars(BaseCache) if name.startswith("a") and name != "add"]
    inherited = {name for name in twins if getattr(LarderClient, name) is getattr(BaseCache, name)}
    # These call other twins, and `aclose` keeps the connections.
    assert inherited == {"adecr", "aincr_version", "adecr_version", "aget_or_set", "aclose"}


def test_hits_are_read_in_the_memory_of_the_server(one: servers.Server) -> None:
    shared = backend(one.address, timeout=0.5)

    async def read() -> None:
        for _ in range(100):
            assert await shared.aget("key") == "value"
            assert await shared.aget_many(["key"]) == {"key": "value"}

    shared.set("key", "value")
    assert shared.get("key") == "value"
    asyncio.run(read())
    with one.paused():
        for _ in range(100):
            assert shared.get("key") == "value"
            assert shared.get_many(["key"]) == {"key": "value"}
        asyncio.run(read())
        with pytest.raises(TimeoutError):
            shared.get("absent")


def test_backends_of_threads_share_connections_and_children_open_their_own(
    one: servers.Server,
) -> None:
    backend(one.address).set("count", 0)

    def add() -> None:
        for _ in range(300):
            backend(one.address).incr("count")

    threads = [threading.Thread(target=add) for _ in range(4)]
    children = [multiprocessing.get_context("fork").Process(target=add) for _ in range(2)]
    for worker in (*threads, *children):
        worker.start()
    for worker in (*threads, *children):
        worker.join()
    assert backend(one.address).get("count") == 1800
    assert backend(one.address)._client is backend(one.address)._client


def test_a_server_that_is_gone_raises_or_is_a_miss() -> None:
    with servers.larderd() as server:
        raising, missing = backend(server.address), backend(server.address, ignore_exc=True)
        for shared in (raising, missing):
            shared.set("key", 1)
            shared.close()
            assert shared.get("key") == 1
        server.kill()
        with pytest.raises(OSError):
            raising.get("key")
        with pytest.raises(OSError):
            asyncio.run(raising.aget("key"))
        assert missing.get("key", "default") == "default"
        server.start()
        raising.set("key", 2)
        assert raising.get("key") == 2 and missing.get("key") == 2


def test_a_server_that_hangs_delays_a_request_for_the_timeout() -> None:
    with servers.larderd() as server:
        # The default is 3 seconds.
        for shared, secs in (
            (backend(server.address, timeout=0.3), 0.3),
            (backend(server.address), 3),
        ):
            shared.set("key", 1)
            with server.paused():
                began = time.monotonic()
                with pytest.raises(TimeoutError):
                    shared.get("key")
                # A request may also wait for a connection to the memory of the server.
                assert secs <= time.monotonic() - began < 2 * secs + 1
            assert shared.get("key") == 1


def test_locations_and_options() -> None:
    assert backend("a:1;b:2")._servers == ("a:1", "b:2")
    assert backend("a:1,b:2")._servers == ("a:1", "b:2")
    assert backend(["a:1", "unix:/b"])._servers == ("a:1", "unix:/b")
    for wrong in ("", [], "a:1,,b:2"):
        with pytest.raises(ImproperlyConfigured, match="LOCATION"):
            backend(wrong)
    with pytest.raises(ImproperlyConfigured, match="'memory'"):
        backend("a:1", memory="64M")
