"""Tasks of Celery whose processes share a cache.

celery --app celery_app --workdir python/examples worker --pool prefork --concurrency 4
"""

from __future__ import annotations

import os
import time

from celery import Celery  # type: ignore[import-untyped]

from larder_cache import Cache

SECS_OF_A_QUERY = 0.2

app = Celery("celery_app")
app.conf.update(
    broker_url="filesystem://",
    broker_transport_options={
        name: os.environ.get("SHOP_BROKER", "/tmp/shop-broker")
        for name in ("data_folder_in", "data_folder_out", "control_folder")
    },
    # A task whose process was killed runs again, after this many seconds.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_lost_wait=1.0,
    task_ignore_result=True,
)
# The pool's processes are forked from this one, and share the file with all others.
cache = Cache(shared=os.environ.get("SHOP_CACHE", "/dev/shm/shop"), memory="64M")


@cache.cached(ttl=60)
def price(number: int) -> float:
    """Returns the price of a product. One process of all computes it."""
    cache.incr(f"queries:{number}")
    cache.set(f"worker:{number}", os.getpid())
    time.sleep(SECS_OF_A_QUERY)
    return number * 1.25


@app.task  # type: ignore[untyped-decorator]
def add_to_total(number: int) -> None:
    """Adds the price of a product, in cents, to the total of all tasks."""
    cache.incr("total", round(100 * price(number)))
    cache.incr("tasks")
    cache.set(f"seen:{os.getpid()}", True)
