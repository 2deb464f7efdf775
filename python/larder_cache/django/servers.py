"""`LarderClient`: a backend of Django on servers."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured

from .._errors import CounterError
from .._serializers import Serializer, serializer_of
from ..client import (
    AsyncClient,
    AsyncHashClient,
    HashClient,
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    PooledClient,
)
from .base import LarderBackend, log

# Options of the connections to each server.
_CONNECTION_OPTIONS = {
    "serializer",
    "signing_key",
    "trust_server",
    "connect_timeout",
    "timeout",
    "ignore_exc",
    "socket_keepalive",
    "tls_context",
    "local_reads",
}
_POOL_OPTIONS = {"no_delay", "max_pool_size", "pool_idle_timeout", "pool_wait"}
_SEVERAL_OPTIONS = {"hasher", "retry_attempts", "retry_timeout", "dead_timeout"}
_OPTIONS = _CONNECTION_OPTIONS | _POOL_OPTIONS | _SEVERAL_OPTIONS

# A server that hangs delays a request of Django by this many seconds, not forever.
_CONNECT_SECS = 1.0
_TIMEOUT_SECS = 3.0

# A longer time to live is a Unix time in the protocol, which reads later times as past.
_RELATIVE_SECS_MAX = 30 * 24 * 3600
_UNIX_TIME_MAX = 2**31 - 1

_ILLEGAL = re.compile(r"[\x00-\x20\x7f]").search

_Name = tuple[tuple[str, ...], frozenset[tuple[str, Any]]]


class _Clients:
    """The clients of this process: blocking ones and those for asyncio. Django makes a backend for
    each thread and, with asyncio, for each task; those with the same settings use the same clients.
    """

    def __init__(self) -> None:
        self._clients: dict[_Name, tuple[Any, Any]] = {}
        self._lock = threading.Lock()

    def open(self, servers: tuple[str, ...], options: dict[str, Any]) -> tuple[Any, Any]:
        name = servers, frozenset(options.items())
        with self._lock:
            clients = self._clients.get(name)
            if clients is None:
                clients = self._clients[name] = _new_clients(servers, options)
            return clients

    def after_fork(self) -> None:
        # Another thread of the parent may have held the lock. The clients open connections of
        # their own in the child.
        self._lock = threading.Lock()


def _new_clients(servers: tuple[str, ...], options: dict[str, Any]) -> tuple[Any, Any]:
    options = {
        "connect_timeout": _CONNECT_SECS,
        "timeout": _TIMEOUT_SECS,
        "default_noreply": False,
        "allow_unicode_keys": True,
        **options,
    }
    if options.get("serializer") is None:
        options["serializer"] = "tags"
    server, *others = servers
    of_asyncio = {name: value for name, value in options.items() if name not in _POOL_OPTIONS}
    if others:
        several = HashClient(servers, use_pooling=True, **options)
        return several, AsyncHashClient(servers, **of_asyncio)
    for name in _SEVERAL_OPTIONS:
        options.pop(name, None)
        of_asyncio.pop(name, None)
    return PooledClient(server, **options), AsyncClient(server, **of_asyncio)


_clients = _Clients()
os.register_at_fork(after_in_child=_clients.after_fork)


class LarderClient(LarderBackend):
    """A cache on larderd or memcached.

    `LOCATION` is a server or a list of servers: `"host:port"`, `"unix:/path"` or `"/path"`. Hits of
    a larderd or near cache at a unix socket that shares its memory (`--local-readers`) are read in
    this memory. Several servers share the keys by the ketama method, as in libmemcached.

    `OPTIONS` are arguments of `larder_cache.client.PooledClient` and `HashClient`: `serializer`,
    `signing_key`, `trust_server`, `timeout` (3 seconds by default), `connect_timeout` (1 second),
    `ignore_exc`, `max_pool_size`, `pool_wait`, `pool_idle_timeout`, `no_delay`, `socket_keepalive`,
    `tls_context`, `local_reads`, and for several servers `hasher`, `retry_attempts`,
    `retry_timeout` and `dead_timeout`. `MAX_ENTRIES` and `CULL_FREQUENCY` have no effect.
    serializer="pickle" needs `signing_key` or `trust_server`.

    The threads of the process share the connections, which stay open between Django's requests. A
    server that cannot be reached raises an `OSError`; with `ignore_exc` it is a miss.

    Timeouts are rounded up to whole seconds; 0 and negative ones remove the item, and those that
    end after the year 2037 never end. Keys have 1 to 250 bytes in UTF-8 without blanks and control
    characters; others raise `InvalidCacheKey`. A value that is too large is not stored and a
    warning is logged; the item's earlier value is removed.

    `get_or_set` calls its default in each process that finds no value; `add` decides which result
    stays. `add`, `incr` and `decr` are atomic. `decr` stops at 0, and a negative number cannot be
    incremented. `incr` keeps the timeout, and raises `CounterError` if the value is not an integer.

    The asynchronous methods send their requests by an `AsyncClient`, or an `AsyncHashClient` to
    several servers, so they need no threads.
    """

    def __init__(self, server: str | Iterable[str], params: dict[str, Any]) -> None:
        super().__init__(params)
        names = re.split("[;,]", server) if isinstance(server, str) else server
        self._servers = tuple(name.strip() for name in names)
        if not all(self._servers) or not self._servers:
            raise ImproperlyConfigured(
                f"LOCATION of LarderClient is {server!r}, expected 'host:port' or 'unix:/path',"
                " or a list of these"
            )
        self._options = self.options_of(params, _OPTIONS)
        self.serializer: Serializer | None = serializer_of(
            self._options.get("serializer"), self._options.get("signing_key")
        )

    # The clients connect at their first request.

    @property
    def _client(self) -> Any:
        return _clients.open(self._servers, self._options)[0]

    @property
    def _aclient(self) -> Any:
        return _clients.open(self._servers, self._options)[1]

    def validate_key(self, key: str) -> None:
        """Raises `InvalidCacheKey` for a key that the protocol does not allow."""
        super().validate_key(key)
        if _ILLEGAL(key) is not None:
            raise InvalidCacheKey(
                f"the key {key!r} contains a blank or a control character, which the protocol of"
                " memcached does not allow: set KEY_FUNCTION to a function that replaces them"
            )

    def _expire(self, timeout: Any) -> int:
        """Returns a timeout in the form of the protocol; negative if nothing is to be cached."""
        seconds = self.seconds_of(timeout)
        if seconds is None:
            return 0
        if seconds == 0:
            return -1
        whole = math.ceil(seconds)
        if whole <= _RELATIVE_SECS_MAX:
            return whole
        end = whole + int(time.time())
        return end if end <= _UNIX_TIME_MAX else 0

    # Operations.

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        name = self.make_and_validate_key(key, version=version)
        try:
            return bool(self._client.add(name, value, self._expire(timeout)))
        except MemcacheServerError as error:
            self._log_refused(name, error)
            return False
        except TypeError as error:
            raise self.explained(error) from error.__cause__

    async def aadd(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        name = self.make_and_validate_key(key, version=version)
        try:
            return bool(await self._aclient.add(name, value, self._expire(timeout)))
        except MemcacheServerError as error:
            self._log_refused(name, error)
            return False
        except TypeError as error:
            raise self.explained(error) from error.__cause__

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._client.get(self.make_and_validate_key(key, version=version), default)

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return await self._aclient.get(self.make_and_validate_key(key, version=version), default)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._set(self.make_and_validate_key(key, version=version), value, self._expire(timeout))

    def _set(self, name: str, value: Any, expire: int) -> bool:
        try:
            return bool(self._client.set(name, value, expire))
        except MemcacheServerError as error:
            # The server has removed the item's earlier value.
            self._log_refused(name, error)
            return False
        except TypeError as error:
            raise self.explained(error) from error.__cause__

    async def aset(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        name = self.make_and_validate_key(key, version=version)
        await self._aset(name, value, self._expire(timeout))

    async def _aset(self, name: str, value: Any, expire: int) -> bool:
        try:
            return bool(await self._aclient.set(name, value, expire))
        except MemcacheServerError as error:
            self._log_refused(name, error)
            return False
        except TypeError as error:
            raise self.explained(error) from error.__cause__

    def _log_refused(self, name: str, error: MemcacheServerError) -> None:
        """Logs that the server refused a value. Raises the error if the server is gone."""
        if isinstance(error, MemcacheUnexpectedCloseError):
            raise error
        log.warning("cannot store %r: %s", name, error)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        name = self.make_and_validate_key(key, version=version)
        expire = self._expire(timeout)
        if expire < 0:
            return bool(self._client.delete(name))
        return bool(self._client.touch(name, expire))

    async def atouch(
        self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        name = self.make_and_validate_key(key, version=version)
        expire = self._expire(timeout)
        if expire < 0:
            return bool(await self._aclient.delete(name))
        return bool(await self._aclient.touch(name, expire))

    def delete(self, key: Any, version: int | None = None) -> bool:
        return bool(self._client.delete(self.make_and_validate_key(key, version=version)))

    async def adelete(self, key: Any, version: int | None = None) -> bool:
        return bool(await self._aclient.delete(self.make_and_validate_key(key, version=version)))

    def has_key(self, key: Any, version: int | None = None) -> bool:
        return self.get(key, _ABSENT, version) is not _ABSENT

    async def ahas_key(self, key: Any, version: int | None = None) -> bool:
        return await self.aget(key, _ABSENT, version) is not _ABSENT

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        name = self.make_and_validate_key(key, version=version)
        # The protocol has no negative deltas.
        request = self._client.incr if delta >= 0 else self._client.decr
        try:
            return _number(key, request(name, abs(delta)))
        except MemcacheClientError as error:
            raise CounterError(str(error)) from error

    async def aincr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        name = self.make_and_validate_key(key, version=version)
        request = self._aclient.incr if delta >= 0 else self._aclient.decr
        try:
            return _number(key, await request(name, abs(delta)))
        except MemcacheClientError as error:
            raise CounterError(str(error)) from error

    def clear(self) -> None:
        self._client.flush_all()

    async def aclear(self) -> None:
        await self._aclient.flush_all()

    # Several keys: one request for each server.

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        names = self._names(keys, version)
        return {names[name]: value for name, value in self._client.get_many(names).items()}

    async def aget_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        names = self._names(keys, version)
        found = await self._aclient.get_many(names)
        return {names[name]: value for name, value in found.items()}

    def set_many(
        self,
        data: Mapping[Any, Any],
        timeout: Any = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> list[Any]:
        names = self._names(data, version)
        values = {name: data[key] for name, key in names.items()}
        expire = self._expire(timeout)
        try:
            failed = self._client.set_many(values, expire)
        except MemcacheServerError as error:
            # The error does not tell which value the server refused.
            if isinstance(error, MemcacheUnexpectedCloseError):
                raise
            failed = [name for name, value in values.items() if not self._set(name, value, expire)]
        except TypeError as error:
            raise self.explained(error) from error.__cause__
        return [names[name] for name in failed]

    async def aset_many(
        self,
        data: Mapping[Any, Any],
        timeout: Any = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> list[Any]:
        names = self._names(data, version)
        values = {name: data[key] for name, key in names.items()}
        expire = self._expire(timeout)
        try:
            failed = await self._aclient.set_many(values, expire)
        except MemcacheServerError as error:
            if isinstance(error, MemcacheUnexpectedCloseError):
                raise
            failed = [
                name for name, value in values.items() if not await self._aset(name, value, expire)
            ]
        except TypeError as error:
            raise self.explained(error) from error.__cause__
        return [names[name] for name in failed]

    def delete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        self._client.delete_many(list(self._names(keys, version)))

    async def adelete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        await self._aclient.delete_many(list(self._names(keys, version)))

    def _names(self, keys: Iterable[Any], version: int | None) -> dict[str, Any]:
        return {self.make_and_validate_key(key, version=version): key for key in keys}


_ABSENT = object()


def _number(key: Any, count: int | None) -> int:
    # With a server that is failing, a HashClient returns False.
    if count is None or count is False:
        raise ValueError(f"Key '{key}' not found")
    return count
