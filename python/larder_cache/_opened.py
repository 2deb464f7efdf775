"""The caches that the backends of other libraries have opened in this process.

Applications make many backends: Django makes one for each thread, and with asyncio for each task;
dogpile.cache has regions. Backends with the same name and options use the same `Cache`: otherwise
each backend of a cache without a file would have its own items, and a request would open a file
again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from ._cache import Cache

_Name = tuple[str, frozenset[tuple[str, Any]]]


class OpenedCaches:
    """Caches by a name and their options."""

    def __init__(self) -> None:
        self._caches: dict[_Name, Cache] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    def open(self, name: str, options: Mapping[str, Any]) -> Cache:
        """Returns the cache with this name and these options for `Cache`, which it opens if this is
        the first call. May wait for another process that creates the file."""
        key = name, frozenset(options.items())
        with self._lock:
            cache = self._caches.get(key)
            if cache is None or cache.closed:
                cache = self._caches[key] = Cache(**options)
            return cache

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the lock.
        self._lock = threading.Lock()


opened_caches = OpenedCaches()


def open_cache(options: Mapping[str, Any]) -> Cache:
    """Returns the cache for the options of `Cache`. Memory of this process is new at each call."""
    path = options.get("shared")
    if path is None:
        return Cache(**options)
    name = os.path.abspath(os.fspath(path))
    return opened_caches.open(name, {**options, "shared": name})
