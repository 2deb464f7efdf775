"""An application of FastAPI whose workers share a cache.

uvicorn --app-dir python/examples --workers 2 fastapi_app:app
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from fastapi import FastAPI

from larder_cache import Cache

SECS_OF_A_QUERY = 0.2

app = FastAPI()
cache = Cache(shared=os.environ.get("SHOP_CACHE", "/dev/shm/shop"), memory="64M", serializer="json")


@cache.cached(ttl=60)
async def product(number: int) -> dict[str, Any]:
    """Returns a product. One worker of all reads it from the database. The tasks of all workers
    that need it at the same time wait without blocking their event loops."""
    cache.incr(f"queries:{number}")
    cache.set(f"worker:{number}", os.getpid())
    await asyncio.sleep(SECS_OF_A_QUERY)
    return {"number": number, "name": f"Product {number}"}


@app.get("/products/{number}")
async def show_product(number: int) -> dict[str, Any]:
    return {**await product(number), "pid": os.getpid()}


@app.delete("/products/{number}")
async def forget_product(number: int) -> bool:
    """Removes a product from the cache, for all workers."""
    return product.cache_delete(number)


@app.post("/visits")
async def count_visit() -> int:
    return cache.incr("visits")
