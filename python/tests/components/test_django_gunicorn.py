"""A site of Django (examples/django_app) with four workers of gunicorn that share a cache."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from larder_cache import Cache

from .languages import php_on
from .processes import Load, Site, at_the_same_time, site, wait_until


@pytest.fixture
def gunicorn(path: str, tmp_path: Path) -> Iterator[Site]:
    with site(
        tmp_path,
        "gunicorn",
        *("--workers", "4", "--bind", "unix:{}", "--log-level", "warning"),
        *("--worker-tmp-dir", "/dev/shm", "--no-control-socket", "django_app.wsgi"),
        SHOP_CACHE=path,
        DJANGO_SETTINGS_MODULE="django_app.settings",
    ) as running:
        yield running


@pytest.fixture
def cache(path: str, gunicorn: Site) -> Cache:
    gunicorn.get("/visits")
    return Cache(shared=path, serializer="pickle")


def test_one_worker_of_all_queries_a_product(gunicorn: Site, cache: Cache) -> None:
    pids = set()
    for number in range(5):
        pages = at_the_same_time(12, lambda _, number=number: gunicorn.get(f"/products/{number}"))
        assert {page["name"] for page in pages} == {f"Product {number}"}
        pids |= {page["pid"] for page in pages}
        assert cache.get(f":1:queries:{number}") == 1
    assert len(pids) == 4


def test_sessions_and_counters_are_those_of_all_workers(gunicorn: Site, cache: Cache) -> None:
    cache.set(":1:visits", 0)
    first, headers = gunicorn.request("/visits")
    cookie = headers["Set-Cookie"].split(";")[0]
    pids = {first["pid"]}
    visits = 1
    deadline = time.monotonic() + 30
    while len(pids) < 4 and time.monotonic() < deadline:
        # Other users keep some workers busy, so that the session reaches all of them.
        pages = at_the_same_time(
            4, lambda at: gunicorn.request("/visits", **({} if at else {"Cookie": cookie}))[0]
        )
        visits += 1
        assert pages[0]["visits"] == visits
        assert [page["visits"] for page in pages[1:]] == [1, 1, 1]
        pids.add(pages[0]["pid"])
    assert len(pids) == 4
    assert cache.get(":1:visits") == 1 + 4 * (visits - 1)


def test_killed_workers_do_not_disturb_the_others(
    gunicorn: Site, cache: Cache, path: str, tmp_path: Path
) -> None:
    kills = 0
    get = Load(6, lambda number: gunicorn.get(f"/products/{number // 12}"))
    with php_on(path, tmp_path), get as load:
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            # Kills the worker that queries a product, which others are waiting for.
            numbers = [int(key.rsplit(":", 1)[1]) for key in cache.keys(":1:worker:")]
            number = max(numbers, default=-1) + 1
            wait_until(lambda number=number: cache.get(f":1:worker:{number}"), 10)
            os.kill(cache.get(f":1:worker:{number}"), signal.SIGKILL)
            kills += 1
            time.sleep(0.5)
    assert kills >= 5
    assert load.refused() == []
    # A killed worker answers no request, and takes at most one with it.
    assert len(load.failures) <= kills
    assert len(load.responses) > 50
    # On a busy machine all workers may be starting. core/test_load_processes.py bounds the time
    # until another process takes a load over.
    assert load.longest_secs < 10
    assert len({page["pid"] for page in load.responses}) >= 4
