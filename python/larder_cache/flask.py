"""A backend of Flask-Caching in memory that processes share.

app.config.update(
    CACHE_TYPE="larder_cache.flask.LarderCache",
    CACHE_OPTIONS={"shared": "/dev/shm/mysite", "memory": "256M", "serializer": "pickle"},
)
cache = flask_caching.Cache(app)
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from flask import Flask
from flask_caching.backends.base import BaseCache

from ._cache import Cache
from ._errors import StoreError
from ._opened import open_cache

log: logging.Logger = logging.getLogger(__name__)


class LarderCache(BaseCache):
    """A cache in memory that the processes of this machine share.

    `CACHE_OPTIONS` are arguments of `larder_cache.Cache`, or `cache`, an open cache. Without
    `shared` the cache is memory of this process and of children that are forked after `init_app`,
    such as gunicorn's workers with `preload_app`.

    `CACHE_DEFAULT_TIMEOUT` is in seconds, 0 means no limit, and items with a negative timeout are
    removed. `CACHE_KEY_PREFIX` is put in front of all keys. With it, `clear` removes only the items
    with the prefix, so several applications can share a file.

    `cached`, `memoize` and `set` need the option `serializer` for values other than `bytes`, `str`,
    `int`, `float`, `bool` and `None`. `add`, `inc` and `dec` are atomic. A value that is too large
    is not stored: `set` returns False, and a warning is logged.
    """

    def __init__(
        self,
        default_timeout: int | timedelta = 300,
        ignore_delete_many_errors: bool = False,
        key_prefix: str = "",
        cache: Cache | None = None,
        **options: Any,
    ) -> None:
        # cachelib accepts a timedelta as well.
        super().__init__(self._to_seconds(default_timeout), ignore_delete_many_errors)
        self.key_prefix = key_prefix
        if cache is not None and options:
            raise ValueError(f"the cache is open already: leave out {', '.join(sorted(options))}")
        if options.get("shared") is None:
            options.setdefault("children", True)
        self.cache: Cache = open_cache(options) if cache is None else cache

    @classmethod
    def factory(
        cls, app: Flask, config: dict[str, Any], args: list[Any], kwargs: dict[str, Any]
    ) -> LarderCache:
        """Returns the backend for the configuration of an application."""
        prefix = config.get("CACHE_KEY_PREFIX") or ""
        # Flask-Caching allows a function here.
        kwargs.setdefault("key_prefix", prefix() if callable(prefix) else prefix)
        return cls(*args, **kwargs)

    def _seconds_of(self, timeout: int | timedelta | None) -> int | None:
        return self._normalize_timeout(timeout) or None

    def get(self, key: str) -> Any:
        """Returns the value of a key; None if it is absent."""
        return self.cache.get(self.key_prefix + key)

    def get_many(self, *keys: str) -> list[Any]:
        """Returns the values of several keys; None for those that are absent."""
        names = [self.key_prefix + key for key in keys]
        found = self.cache.get_many(names)
        return [found.get(name) for name in names]

    def has(self, key: str) -> bool:
        """True if the key is present."""
        return self.key_prefix + key in self.cache

    def set(self, key: str, value: Any, timeout: int | timedelta | None = None) -> bool:
        """Stores a value. Returns False if it could not be stored; the key is then absent."""
        name = self.key_prefix + key
        seconds = self._seconds_of(timeout)
        if seconds is not None and seconds < 0:
            self.cache.delete(name)
            return True
        try:
            self.cache.set(name, value, seconds)
        except StoreError as error:
            log.warning("cannot store %r: %s", name, error)
            self.cache.delete(name)
            return False
        return True

    def add(self, key: str, value: Any, timeout: int | timedelta | None = None) -> bool:
        """Stores a value if the key is absent. Returns whether it was stored."""
        name = self.key_prefix + key
        seconds = self._seconds_of(timeout)
        if seconds is not None and seconds < 0:
            return name not in self.cache
        try:
            return self.cache.add(name, value, seconds)
        except StoreError as error:
            log.warning("cannot add %r: %s", name, error)
            return False

    def delete(self, key: str) -> bool:
        """Removes an item. Returns whether there was one."""
        return self.cache.delete(self.key_prefix + key)

    def inc(self, key: str, delta: int = 1) -> int:
        """Adds to a counter, atomically. A counter that is absent begins at 0."""
        return self.cache.incr(self.key_prefix + key, delta, ttl=self._seconds_of(None))

    def dec(self, key: str, delta: int = 1) -> int:
        """Subtracts from a counter. Otherwise same as `inc`."""
        return self.cache.decr(self.key_prefix + key, delta, ttl=self._seconds_of(None))

    def clear(self) -> bool:
        """Removes all items, or all items with the prefix."""
        if self.key_prefix:
            self.cache.remove_prefix(self.key_prefix)
        else:
            self.cache.clear()
        return True
