"""Tasks of Celery (examples/celery_app.py) in a pool of forked processes that share a cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from larder_cache import Cache

from .languages import php_on
from .processes import EXAMPLES, running, wait_until

SECS_OF_A_QUERY = 0.2


@pytest.fixture
def environment(path: str, tmp_path: Path) -> dict[str, str]:
    return {"SHOP_CACHE": path, "SHOP_BROKER": str(tmp_path)}


@pytest.fixture
def worker(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    options = ("--pool", "prefork", "--concurrency", "4", "--loglevel", "error")
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    with running(
        "celery", "--quiet", "--app", "celery_app", "worker", *options, *quiet, **environment
    ) as process:
        yield process


def send(numbers: list[int], environment: dict[str, str]) -> None:
    """Sends tasks, as a program that imports them does."""
    program = "import sys, celery_app\nfor n in sys.argv[1:]: celery_app.add_to_total.delay(int(n))"
    path = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, "-P", "-c", program, *map(str, numbers)],
        env={**os.environ, **environment, "PYTHONPATH": path},
        check=True,
        timeout=60,
    )


def test_one_process_of_the_pool_computes_a_price(
    worker: subprocess.Popen[bytes], environment: dict[str, str], path: str
) -> None:
    send([1, 2, 3, 4] * 10, environment)
    cache = Cache(shared=path)
    wait_until(lambda: cache.get("tasks") == 40)
    assert cache.get("total") == 10 * (125 + 250 + 375 + 500)
    assert [cache.get(f"queries:{number}") for number in (1, 2, 3, 4)] == [1] * 4
    assert len(cache.keys("seen:")) > 1


def test_a_killed_process_of_the_pool_leaves_no_load_behind(
    worker: subprocess.Popen[bytes], environment: dict[str, str], path: str, tmp_path: Path
) -> None:
    cache = Cache(shared=path)
    with php_on(path, tmp_path):
        send([7] * 4, environment)
        wait_until(lambda: cache.get("worker:7"))
        os.kill(cache.get("worker:7"), signal.SIGKILL)
        # The other processes are waiting for the price; one of them computes it.
        wait_until(lambda: (cache.get("tasks") or 0) >= 3, 1 + 2 * SECS_OF_A_QUERY)
        # Celery repeats the task of the killed process.
        wait_until(lambda: cache.get("tasks") == 4)
    assert cache.get("total") == 4 * 875
    assert cache.get("queries:7") == 2
