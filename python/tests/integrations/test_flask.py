"""`larder_cache.flask.LarderCache` in applications. Flask-Caching's own tests run in
suites/flask.sh."""

from __future__ import annotations

import logging
import multiprocessing
import time
from typing import Any

import flask_caching
import pytest
from flask import Flask, request

from larder_cache import Cache
from larder_cache.flask import LarderCache


def site(path: str, **config: Any) -> tuple[Flask, flask_caching.Cache]:
    app = Flask(__name__)
    options = {"shared": path, "memory": "16M", **config.pop("options", {})}
    app.config.update(
        CACHE_TYPE="larder_cache.flask.LarderCache", CACHE_OPTIONS=options, TESTING=True, **config
    )
    return app, flask_caching.Cache(app)


def test_cached_views(path: str) -> None:
    app, cache = site(path)
    runs: list[str] = []

    @app.route("/page")
    @cache.cached(timeout=60, query_string=True)
    def page() -> str:
        runs.append(request.args.get("name", ""))
        return f"page {len(runs)}"

    client = app.test_client()
    assert {client.get("/page?name=a").text for _ in range(3)} == {"page 1"}
    assert client.get("/page?name=b").text == "page 2"
    assert runs == ["a", "b"]
    # Another process of the site removes the page.
    _, other = site(path)
    other.clear()
    assert client.get("/page?name=a").text == "page 3"


def test_memoize_and_delete_memoized(path: str) -> None:
    app, cache = site(path, options={"serializer": "json"})
    calls: list[tuple[int, int]] = []

    @cache.memoize(60)
    def add(one: int, other: int) -> list[int]:
        calls.append((one, other))
        return [one + other]

    with app.app_context():
        assert [add(1, 2), add(1, 2), add(3, 4)] == [[3], [3], [7]]
        cache.delete_memoized(add, 1, 2)
        assert [add(1, 2), add(3, 4)] == [[3], [7]]
        cache.delete_memoized(add)
        assert add(3, 4) == [7]
    assert calls == [(1, 2), (3, 4), (1, 2), (3, 4)]


def test_values_without_a_serializer(path: str) -> None:
    app, cache = site(path)
    with app.app_context():
        values = {"b": b"\0", "s": "ü", "i": 5, "f": 0.5, "t": True}
        assert sorted(cache.set_many(values)) == sorted(values)
        assert cache.get_dict(*values, "absent") == {**values, "absent": None}
        with pytest.raises(TypeError, match="serializer"):
            cache.set("list", [1])


def test_timeouts(path: str) -> None:
    native = Cache(shared=path, memory="16M")
    backend = LarderCache(default_timeout=100, shared=path)
    for timeout, ttl in ((None, 100), (0, None), (50, 50)):
        backend.set("key", 1, timeout)
        assert native.ttl_of("key") == ttl
    assert backend.set("key", 1, -1) is True and not backend.has("key")
    assert backend.add("key", 1, -1) is True and not backend.has("key")
    assert backend.add("key", 1, 50) is True and backend.add("key", 2) is False
    assert backend.inc("count", 5) == 5 and backend.dec("count") == 4
    assert native.ttl_of("count") == 100


def test_a_prefix_separates_applications(path: str) -> None:
    _, one = site(path, CACHE_KEY_PREFIX="one:")
    _, other = site(path, CACHE_KEY_PREFIX="other:")
    one.set("key", 1)
    assert Cache(shared=path).get("one:key") == 1
    assert other.get("key") is None
    other.set("key", 2)
    other.clear()
    assert one.get("key") == 1 and other.get("key") is None
    assert one.delete("key") is True and one.delete("key") is False


def test_a_value_that_is_too_large_is_logged(path: str, caplog: pytest.LogCaptureFixture) -> None:
    backend = LarderCache(shared=path, item_max="10K")
    backend.set("key", "old")
    with caplog.at_level(logging.WARNING, "larder_cache.flask"):
        assert backend.set("key", "x" * 20_000) is False
        assert backend.add("key", "x" * 20_000) is False
    assert backend.get("key") is None and len(caplog.records) == 2


def test_an_open_cache_is_used() -> None:
    cache = Cache(memory="16M")
    backend = LarderCache(cache=cache)
    backend.set("key", 1)
    assert cache["key"] == 1
    with pytest.raises(ValueError, match="leave out memory"):
        LarderCache(cache=cache, memory="16M")


def test_memory_of_the_process_is_shared_with_forked_children() -> None:
    backend = LarderCache(memory="16M")

    def child() -> None:
        backend.set("key", "from the child")

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    deadline = time.monotonic() + 5
    while backend.get("key") is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert backend.get("key") == "from the child"
