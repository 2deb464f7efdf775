"""The caches that the benchmark compares: how a process opens each of them, and the code of each
operation. `load.py` inserts the code into its loops as text, so that the times include no calls of
wrappers."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY_MIB = 512


@dataclasses.dataclass(frozen=True)
class Settings:
    """The sockets of the servers, a folder for files, and one in memory."""

    larderd: str
    memcached: str
    folder: str
    memory: str


@dataclasses.dataclass(frozen=True)
class Contender:
    """A cache.

    open: returns the cache; the code of the operations calls it `cache`, and a key `key`
    get, set, get_many: the operations, on `key`, `value` and `group`, a list of keys
    requests: how many operations of a pass are measured, if not all
    is_remote: true for a client of a server; each thread and each process has its own
    is_shared: true if several processes can use it
    """

    open: Callable[[Settings], Any]
    get: str = "cache.get(key)"
    set: str = "cache.set(key, value)"
    get_many: str | None = "cache.get_many(group)"
    requests: int | None = None
    is_remote: bool = False
    is_shared: bool = False


def _dict(settings: Settings) -> Any:
    return {}


def _ttl_cache(settings: Settings) -> Any:
    import cachetools

    cache = cachetools.TTLCache(maxsize=1 << 18, ttl=3600)
    cache.lock = threading.Lock()
    return cache


def _larder(settings: Settings, **options: Any) -> Any:
    from larder_cache import Cache

    return Cache(memory=f"{MEMORY_MIB}M", **options)


def _larder_file(settings: Settings) -> Any:
    return _larder(settings, shared=f"{settings.memory}/{os.getpid()}")


def _client(settings: Settings, **options: Any) -> Any:
    from larder_cache.client import Client

    client = Client(settings.larderd, default_noreply=False, **options)
    assert client.reads_memory is options.get("local_reads", True)
    return client


def _pymemcache(settings: Settings, server: str) -> Any:
    from pymemcache.client.base import Client

    return Client(getattr(settings, server), default_noreply=False)


def _diskcache(settings: Settings) -> Any:
    import diskcache

    folder = Path(settings.folder, f"diskcache-{os.getpid()}")
    return diskcache.Cache(str(folder), size_limit=MEMORY_MIB << 21)


CONTENDERS = {
    "dict": Contender(
        _dict,
        get="cache[key]",
        set="cache[key] = value",
        get_many="{key: cache[key] for key in group}",
    ),
    "cachetools, lock": Contender(
        _ttl_cache,
        get="with cache.lock: cache.get(key)",
        set="with cache.lock: cache[key] = value",
        get_many="with cache.lock: {key: cache[key] for key in group}",
    ),
    "Cache": Contender(_larder),
    "Cache, shared": Contender(_larder_file, is_shared=True),
    "Client, local reads": Contender(_client, requests=20_000, is_remote=True, is_shared=True),
    "Client": Contender(
        functools.partial(_client, local_reads=False),
        requests=2_000,
        is_remote=True,
        is_shared=True,
    ),
    "pymemcache, larderd": Contender(
        functools.partial(_pymemcache, server="larderd"),
        requests=2_000,
        is_remote=True,
        is_shared=True,
    ),
    "pymemcache, memcached": Contender(
        functools.partial(_pymemcache, server="memcached"),
        requests=2_000,
        is_remote=True,
        is_shared=True,
    ),
    "diskcache": Contender(_diskcache, get_many=None, requests=2_000, is_shared=True),
}
