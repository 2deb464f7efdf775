"""`LarderCache`: a backend of Django in memory that processes share."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.exceptions import ImproperlyConfigured

from .._cache import Cache
from .._errors import LoadError, StoreError
from .._opened import opened_caches
from .._serializers import Serializer, serializer_of
from .base import LarderBackend, log

_OPTIONS = (
    "memory",
    "serializer",
    "signing_key",
    "item_max",
    "processes",
    "permissions",
    "evict",
    "cas",
)


class LarderCache(LarderBackend):
    """A cache in memory that the processes of this machine share.

    `LOCATION` is the absolute path of a file, preferably in `/dev/shm`. All processes with this
    path share the cache, also after a restart. `""`, `"local"` and `"local:NAME"` are memory of
    this process. Children that are forked after its first use share it: the workers of gunicorn
    with `preload_app`, for example. Aliases with the same LOCATION and OPTIONS share a cache, so
    give them different `KEY_PREFIX`es.

    `OPTIONS` are arguments of `larder_cache.Cache`: `memory` ("64M" by default), `serializer`,
    `signing_key`, `item_max`, `processes`, `permissions`, `evict` and `cas`. `MAX_ENTRIES` and
    `CULL_FREQUENCY` have no effect: `memory` limits the cache.

    The first operation opens the cache. Timeouts are rounded up to whole seconds; 0 and negative
    ones remove the item. Keys have 1 to 250 bytes in UTF-8 and may contain blanks; others raise
    `InvalidCacheKey`. A value that is too large is not stored and a warning is logged, with the
    logger `larder_cache.django`; the item's earlier value is removed.

    `add`, `incr` and `decr` are atomic. `incr` keeps the timeout, and raises `CounterError` if the
    value is not an `int` of 64 bits.

    The asynchronous methods call the synchronous ones directly: an operation takes less time than a
    change of threads. Only the first one, which opens the file, uses a thread, and `aget_or_set`
    waits for other callers without blocking the event loop.
    """

    def __init__(self, server: str | os.PathLike[str], params: dict[str, Any]) -> None:
        super().__init__(params)
        self._location = _checked(os.fspath(server))
        self._options = self.options_of(params, _OPTIONS)
        if self._location.startswith("/"):
            self._options["shared"] = self._location
        else:
            self._options["children"] = True
        self.serializer: Serializer | None = serializer_of(
            self._options.get("serializer"), self._options.get("signing_key")
        )
        self._opened: Cache | None = None

    @property
    def _cache(self) -> Cache:
        if self._opened is None:
            self._opened = opened_caches.open(self._location, self._options)
        return self._opened

    # Operations.

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        name = self.make_and_validate_key(key, version=version)
        seconds = self.seconds_of(timeout)
        if seconds == 0:
            return name not in self._cache
        try:
            return self._cache.add(name, value, seconds)
        except StoreError as error:
            log.warning("cannot add %r: %s", name, error)
            return False
        except TypeError as error:
            raise self.explained(error) from error.__cause__

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._cache.get(self.make_and_validate_key(key, version=version), default)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._set(self.make_and_validate_key(key, version=version), value, timeout)

    def _set(self, name: str, value: Any, timeout: Any) -> bool:
        seconds = self.seconds_of(timeout)
        if seconds == 0:
            self._cache.delete(name)
            return True
        try:
            self._cache.set(name, value, seconds)
        except StoreError as error:
            log.warning("cannot store %r: %s", name, error)
            self._cache.delete(name)
            return False
        except TypeError as error:
            raise self.explained(error) from error.__cause__
        return True

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        name = self.make_and_validate_key(key, version=version)
        seconds = self.seconds_of(timeout)
        return self._cache.delete(name) if seconds == 0 else self._cache.touch(name, seconds)

    def delete(self, key: Any, version: int | None = None) -> bool:
        return self._cache.delete(self.make_and_validate_key(key, version=version))

    def has_key(self, key: Any, version: int | None = None) -> bool:
        return self.make_and_validate_key(key, version=version) in self._cache

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        name = self.make_and_validate_key(key, version=version)
        try:
            return self._cache.incr(name, delta, initial=None)
        except KeyError:
            raise ValueError(f"Key '{key}' not found") from None

    def clear(self) -> None:
        self._cache.clear()

    # Several keys.

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        return {names[name]: value for name, value in self._cache.get_many(names).items()}

    def set_many(
        self,
        data: Mapping[Any, Any],
        timeout: Any = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> list[Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in data}
        return [key for name, key in names.items() if not self._set(name, data[key], timeout)]

    def delete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        names = [self.make_and_validate_key(key, version=version) for key in keys]
        self._cache.delete_many(names)

    # Loads.

    def get_or_set(
        self,
        key: Any,
        default: Any,
        timeout: Any = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> Any:
        """Returns the value of a key; on a miss, stores `default` or, if it is callable, its
        result.

        Of all processes and threads that request the key at the same time, one calls `default`;
        the others wait for the value. If it raises an exception, the callers that are waiting in
        the same process raise it, and those in other processes call their `default`.
        """
        if not callable(default) or self.seconds_of(timeout) == 0:
            return super().get_or_set(key, default, timeout, version)
        name = self.make_and_validate_key(key, version=version)
        load = _Loader(default)
        try:
            value = self._cache.get_or_load(name, load, ttl=self.seconds_of(timeout))
        except LoadError:
            if load.was_called:
                raise
            value = default()
            self.add(key, value, timeout, version)
        except TypeError as error:
            if load.has_returned:
                raise self.explained(error) from error.__cause__
            raise
        # The stored form. A serializer can change a value, and another caller may have set it.
        return self._cache.get(name, value) if load.was_called else value

    # Asynchronous twins.

    async def _aopen(self) -> None:
        if self._opened is None:
            self._opened = await asyncio.to_thread(
                opened_caches.open, self._location, self._options
            )

    async def aadd(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        await self._aopen()
        return self.add(key, value, timeout, version)

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        await self._aopen()
        return self.get(key, default, version)

    async def aset(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        await self._aopen()
        self.set(key, value, timeout, version)

    async def atouch(
        self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        await self._aopen()
        return self.touch(key, timeout, version)

    async def adelete(self, key: Any, version: int | None = None) -> bool:
        await self._aopen()
        return self.delete(key, version)

    async def ahas_key(self, key: Any, version: int | None = None) -> bool:
        await self._aopen()
        return self.has_key(key, version)

    async def aincr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        await self._aopen()
        return self.incr(key, delta, version)

    async def aclear(self) -> None:
        await self._aopen()
        self.clear()

    async def aget_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        await self._aopen()
        return self.get_many(keys, version)

    async def aset_many(
        self,
        data: Mapping[Any, Any],
        timeout: Any = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> list[Any]:
        await self._aopen()
        return self.set_many(data, timeout, version)

    async def adelete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        await self._aopen()
        self.delete_many(keys, version)

    async def aget_or_set(
        self,
        key: Any,
        default: Any,
        timeout: Any = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> Any:
        """Same as `get_or_set`. `default` may be a coroutine function."""
        await self._aopen()
        if not callable(default) or self.seconds_of(timeout) == 0:
            return await super().aget_or_set(key, default, timeout, version)
        name = self.make_and_validate_key(key, version=version)
        load = _AsyncLoader(default)
        try:
            value = await self._cache.get_or_load_async(name, load, ttl=self.seconds_of(timeout))
        except LoadError:
            if load.was_called:
                raise
            value = await load()
            self.add(key, value, timeout, version)
        except TypeError as error:
            if load.has_returned:
                raise self.explained(error) from error.__cause__
            raise
        return self._cache.get(name, value) if load.was_called else value


class _Loader:
    """Calls the default of `get_or_set`."""

    def __init__(self, default: Callable[[], Any]) -> None:
        self._default = default
        self.was_called = False
        self.has_returned = False

    def __call__(self) -> Any:
        self.was_called = True
        value = self._default()
        self.has_returned = True
        return value


class _AsyncLoader(_Loader):
    async def __call__(self) -> Any:
        self.was_called = True
        value = self._default()
        if inspect.isawaitable(value):
            value = await value
        self.has_returned = True
        return value


def _checked(location: str) -> str:
    if location.startswith("/") or location.startswith("local:"):
        return location
    if location in ("", "local"):
        return "local:"
    raise ImproperlyConfigured(
        f"LOCATION of LarderCache is {location!r}, expected the absolute path of a file, 'local',"
        " 'local:NAME' or ''"
    )
