"""An application of FastAPI (examples/fastapi_app.py) with three workers of uvicorn."""

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

THREADS = 6


@pytest.fixture
def uvicorn(path: str, tmp_path: Path) -> Iterator[Site]:
    options = ("--workers", "3", "--uds", "{}", "--log-level", "warning", "fastapi_app:app")
    with site(tmp_path, "uvicorn", *options, SHOP_CACHE=path) as running:
        running.get("/products/0")
        yield running


@pytest.fixture
def cache(path: str, uvicorn: Site) -> Cache:
    return Cache(shared=path, serializer="json")


def test_one_task_of_all_workers_queries_a_product(uvicorn: Site, cache: Cache) -> None:
    pids: set[int] = set()
    number = 0
    deadline = time.monotonic() + 60
    while len(pids) < 3 and time.monotonic() < deadline:
        number += 1
        pages = at_the_same_time(24, lambda _, number=number: uvicorn.get(f"/products/{number}"))
        assert {page["name"] for page in pages} == {f"Product {number}"}
        assert cache.get(f"queries:{number}") == 1
        pids |= {page["pid"] for page in pages}
    assert len(pids) == 3


def test_a_product_that_one_worker_forgets_is_queried_again(uvicorn: Site, cache: Cache) -> None:
    uvicorn.get("/products/7")
    assert uvicorn.request("/products/7", "DELETE")[0] is True
    assert uvicorn.request("/products/7", "DELETE")[0] is False
    at_the_same_time(12, lambda _: uvicorn.get("/products/7"))
    assert cache.get("queries:7") == 2


def test_a_counter_counts_the_visits_of_all_workers(uvicorn: Site, cache: Cache) -> None:
    counts = at_the_same_time(60, lambda _: uvicorn.request("/visits", "POST")[0])
    assert sorted(counts) == list(range(1, 61))


def test_killed_workers_do_not_disturb_the_others(
    uvicorn: Site, cache: Cache, path: str, tmp_path: Path
) -> None:
    kills = 0
    get = Load(THREADS, lambda number: uvicorn.get(f"/products/{1 + number // 12}"))
    with php_on(path, tmp_path), get as load:
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            number = max(int(key.rsplit(":", 1)[1]) for key in cache.keys("worker:")) + 1
            wait_until(lambda number=number: cache.get(f"worker:{number}"), 10)
            os.kill(cache.get(f"worker:{number}"), signal.SIGKILL)
            kills += 1
            # uvicorn starts another worker, which imports the application first.
            time.sleep(1)
    assert kills >= 3
    assert load.refused() == []
    # All requests in the event loop of a killed worker end with it.
    assert len(load.failures) <= kills * THREADS
    assert len(load.responses) > 50
    # On a busy machine all workers may be starting. core/test_load_processes.py bounds the time
    # until another process takes a load over.
    assert load.longest_secs < 10
