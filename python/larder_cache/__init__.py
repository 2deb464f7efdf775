"""A cache that the processes of a machine share in memory, and a client for memcached.

    >>> from larder_cache import Cache
    >>> cache = Cache(memory="64M")
    >>> cache.set("greeting", "hello", ttl=60)
    >>> cache.get("greeting")
    'hello'

With `shared=path` all processes that name the same file share one cache: the workers of gunicorn
or uvicorn, Celery's pool, a program in PHP, Go, C or Rust. A hit reads the shared memory without a
lock and without a system call.

* `Cache`: the cache. It is a mapping with times to live, cas tokens, counters, and loads.
* `Cache.cached` and `Cache.get_or_load`: one process computes a value while others wait for it.
* `larder_cache.client`: clients for larderd and memcached, blocking and for asyncio.
* `larder_cache.django`, `.dogpile`, `.cachetools`, `.flask`: backends of other libraries.
"""

from __future__ import annotations

from ._cache import Cache
from ._cached import CacheInfo
from ._errors import (
    CasError,
    ClosedError,
    CounterError,
    LarderError,
    LoadError,
    OpenError,
    SerializerError,
    ServerError,
    SignatureError,
    StoreError,
    TooLargeError,
    UnavailableError,
    UntrustedError,
)
from ._serializers import Serializer

__all__ = [
    "Cache",
    "CacheInfo",
    "CasError",
    "ClosedError",
    "CounterError",
    "LarderError",
    "LoadError",
    "OpenError",
    "Serializer",
    "SerializerError",
    "ServerError",
    "SignatureError",
    "StoreError",
    "TooLargeError",
    "UnavailableError",
    "UntrustedError",
]
