"""The products of a shop."""

from __future__ import annotations

import os
import time
from typing import Any

from django.core.cache import cache

SECS_OF_A_QUERY = 0.2


def product(number: int) -> dict[str, Any]:
    """Returns a product. One worker of all reads it from the database; the others wait for it."""
    found: Any = cache.get_or_set(f"product:{number}", lambda: query_product(number), timeout=60)
    return dict(found)


def query_product(number: int) -> dict[str, Any]:
    """Reads a product from the database, which takes some time."""
    cache.add(f"queries:{number}", 0, timeout=None)
    cache.incr(f"queries:{number}")
    cache.set(f"worker:{number}", os.getpid())
    time.sleep(SECS_OF_A_QUERY)
    return {"number": number, "name": f"Product {number}"}
