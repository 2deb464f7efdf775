"""`AsyncHashClient`: several servers, each of which has a part of the keys, for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self, TypeVar

from .._serializers import Serializer
from .aio import AsyncClient
from .hashers import Hasher
from .keys import Items, Key
from .servers import KeepaliveOpts, ServerSpec
from .several import SeveralServers
from .values import DeserializeFunction, Serde, SerializeFunction

T = TypeVar("T")


class AsyncHashClient(SeveralServers[AsyncClient]):
    """A client of several servers for asyncio. Each key belongs to one of them: the same as in
    `HashClient`.

    Its methods are those of `AsyncClient`. Requests with many keys are sent to all their servers
    concurrently. They return, or raise the first error, when each of the servers has answered or
    failed; if they are cancelled, their requests to all servers are.

    `hasher`, `retry_attempts`, `retry_timeout`, `dead_timeout` and `ignore_exc` are those of
    `HashClient`, and further arguments those of `AsyncClient`, for each server. A cancelled request
    is no failure of its server, so pass a `timeout`: without it, a server that hangs never fails.
    Requests that were under way when a server failed count as one failure.

    Raises `MemcacheError` if all servers are dead, unless `ignore_exc` is set.
    """

    #: The class of the clients.
    client_class: type[AsyncClient] = AsyncClient

    def __init__(
        self,
        servers: Iterable[ServerSpec],
        hasher: str | Callable[[], Hasher] = "ketama",
        *,
        serde: Serde | None = None,
        serializer: str | Serializer | SerializeFunction | None = None,
        deserializer: DeserializeFunction | None = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        ignore_exc: bool = False,
        socket_keepalive: KeepaliveOpts | None = None,
        key_prefix: bytes | str = b"",
        default_noreply: bool = False,
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        tls_context: SSLContext | None = None,
        max_connections: int = 4,
        retry_attempts: int = 2,
        retry_timeout: float = 1,
        dead_timeout: float = 60,
        signing_key: bytes | str | None = None,
        trust_server: bool = False,
        local_reads: bool = True,
    ) -> None:
        self._keep_arguments(locals())
        super().__init__(
            hasher=hasher,
            retry_attempts=retry_attempts,
            retry_timeout=retry_timeout,
            dead_timeout=dead_timeout,
            ignore_exc=ignore_exc,
            key_prefix=key_prefix,
            allow_unicode_keys=allow_unicode_keys,
        )
        self.default_kwargs: dict[str, Any] = {
            "serde": serde,
            "serializer": serializer,
            "deserializer": deserializer,
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "socket_keepalive": socket_keepalive,
            "key_prefix": key_prefix,
            "default_noreply": default_noreply,
            "allow_unicode_keys": allow_unicode_keys,
            "encoding": encoding,
            "tls_context": tls_context,
            "max_connections": max_connections,
            "signing_key": signing_key,
            "trust_server": trust_server,
            "local_reads": local_reads,
        }
        self._add_servers(servers)

    # The servers.

    def _new_client(self, server: ServerSpec) -> AsyncClient:
        return self.client_class(server, **self.default_kwargs)

    async def remove_server(self, server: ServerSpec, port: int | None = None) -> None:
        """Removes a server. Its keys move to the others. If it is failing, it counts as dead, and
        returns after `dead_timeout`."""
        client = self._remove_server(server, port)
        if client is not None:
            await client.close()

    @property
    def reads_memory(self) -> bool:
        """True if hits of all servers are currently read in their memory. See
        `AsyncClient.reads_memory`."""
        return all(client.reads_memory for client in list(self.clients.values()))

    async def close(self) -> None:
        """Closes the connections of the current event loop. See `AsyncClient.close`."""
        await _together([client.close() for client in list(self.clients.values())])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _call(
        self, client: AsyncClient, func: Callable[..., Awaitable[Any]], default: Any, *args: Any
    ) -> Any:
        # Returns the result of a request, or `default` if its server is failing.
        if self._failed_clients and self._is_resting(client.server):
            return default
        began = time.monotonic()
        try:
            result = await func(*args)
        except Exception as error:
            if self._is_raised(client.server, error, began):
                raise
            return default
        self._record_success(client.server)
        return result

    async def _one(self, command: str, key: Key, default: Any, *args: Any) -> Any:
        client = self._get_client(key)
        if client is None:
            return default
        return await self._call(client, getattr(client, command), default, key, *args)

    async def _all(self, command: str, default: Any, *args: Any) -> dict[str, Any]:
        # Returns the result of each server, by its name.
        clients = dict(self.clients)
        calls = [
            self._call(client, getattr(client, command), default, *args)
            for client in clients.values()
        ]
        return dict(zip(clients, await _together(calls), strict=True))

    # Reads.

    async def get(self, key: Key, default: Any = None) -> Any:
        """See `Client.get`."""
        return await self._one("get", key, default, default)

    async def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> tuple[Any, Any]:
        """See `Client.gets`."""
        missing = (default, cas_default)
        found: tuple[Any, Any] = await self._one("gets", key, missing, *missing)
        return found

    async def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """See `Client.gat`."""
        return await self._one("gat", key, default, expire, default)

    async def gats(
        self, key: Key, expire: int = 0, default: Any = None, cas_default: Any = None
    ) -> tuple[Any, Any]:
        """See `Client.gats`."""
        missing = (default, cas_default)
        found: tuple[Any, Any] = await self._one("gats", key, missing, expire, *missing)
        return found

    async def get_many(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """See `Client.get_many`. The keys of a failing server are misses."""
        return await self._get_many("get_many", keys)

    get_multi = get_many

    async def gets_many(self, keys: Iterable[Key]) -> dict[Key, tuple[Any, Any]]:
        """See `Client.gets_many`. The keys of a failing server are misses."""
        return await self._get_many("gets_many", keys)

    gets_multi = gets_many

    async def _get_many(self, command: str, keys: Iterable[Key]) -> dict[Key, Any]:
        found: dict[Key, Any] = {}
        calls = [
            self._call(client, getattr(client, command), {}, group)
            for client, group in self._by_client(keys)[0]
        ]
        for part in await _together(calls):
            found.update(part)
        return found

    # Changes. Their results are those of `AsyncClient`, and those of an item that is not there if
    # the server is failing or dead.

    async def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool | None:
        """See `Client.set`."""
        return await self._store("set", key, value, expire, noreply, flags)

    async def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.add`."""
        return bool(await self._store("add", key, value, expire, noreply, flags))

    async def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.replace`."""
        return bool(await self._store("replace", key, value, expire, noreply, flags))

    async def append(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.append`."""
        return bool(await self._store("append", key, value, expire, noreply, flags))

    async def prepend(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.prepend`."""
        return bool(await self._store("prepend", key, value, expire, noreply, flags))

    async def cas(
        self,
        key: Key,
        value: Any,
        cas: int | str | bytes,
        expire: int = 0,
        noreply: bool = False,
        flags: int | None = None,
    ) -> bool | None:
        """See `Client.cas`."""
        return await self._store("cas", key, value, cas, expire, noreply, flags)

    async def _store(self, command: str, key: Key, *args: Any) -> bool | None:
        stored: bool | None = await self._one(command, key, False, *args)
        return stored

    async def set_many(
        self,
        values: Items,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> list[Key]:
        """See `Client.set_many`. The keys of a server that is failing or dead are among the keys
        that were not stored."""
        items: dict[Any, Any] = dict(values)
        groups, failed = self._by_client(items)
        calls = []
        for client, group in groups:
            part = {key: items[key] for key in group}
            calls.append(self._call(client, client.set_many, group, part, expire, noreply, flags))
        for part_failed in await _together(calls):
            failed += part_failed
        return failed

    set_multi = set_many

    async def delete(self, key: Key, noreply: bool | None = None) -> bool:
        """See `Client.delete`."""
        return bool(await self._one("delete", key, False, noreply))

    async def delete_many(self, keys: Iterable[Key], noreply: bool | None = None) -> bool:
        """See `Client.delete_many`. Returns `True`, also if a server is failing or dead."""
        calls = [
            self._call(client, client.delete_many, False, group, noreply)
            for client, group in self._by_client(keys)[0]
        ]
        await _together(calls)
        return True

    delete_multi = delete_many

    async def incr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """See `Client.incr`. Returns `None` if the server is failing or dead."""
        count: int | None = await self._one("incr", key, None, value, noreply)
        return count

    async def decr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """See `Client.decr`. Returns `None` if the server is failing or dead."""
        count: int | None = await self._one("decr", key, None, value, noreply)
        return count

    async def touch(self, key: Key, expire: int = 0, noreply: bool | None = None) -> bool:
        """See `Client.touch`."""
        return bool(await self._one("touch", key, False, expire, noreply))

    # All servers.

    async def flush_all(self, delay: int = 0, noreply: bool | None = None) -> bool:
        """Removes all items of all servers. `False` if some are failing."""
        return all((await self._all("flush_all", False, delay, noreply)).values())

    async def remove_prefix(self, prefix: Key) -> int:
        """Removes all items of all servers whose keys begin with `prefix`, and returns their
        number. See `Client.remove_prefix`. Raises the exception of a server that does not remove
        them, also if it is failing."""
        clients = list(self.clients.values())
        return sum(await _together([client.remove_prefix(prefix) for client in clients]))

    async def stats(self, *args: Key) -> dict[str, dict[bytes, Any]]:
        """Returns the statistics of each server, by `host:port` or path; none of a server that is
        failing."""
        return await self._all("stats", {}, *args)

    async def version(self) -> dict[str, bytes]:
        """Returns the version of each server, by `host:port` or path; no bytes for a server that is
        failing."""
        return await self._all("version", b"")

    async def cache_memlimit(self, memlimit: int) -> bool:
        """Sets the memory limit of each server. See `Client.cache_memlimit`. `False` if some are
        failing."""
        return all((await self._all("cache_memlimit", False, memlimit)).values())

    async def raw_command(
        self, command: bytes | str, end_tokens: bytes | str = "\r\n"
    ) -> dict[str, bytes]:
        """Returns the response of each server, by `host:port` or path; no bytes for a server that
        is failing. See `AsyncClient.raw_command`."""
        return await self._all("raw_command", b"", command, end_tokens)

    async def quit(self) -> None:
        """Same as `close`: each awaited request has been executed."""
        await self.close()

    async def shutdown(self, graceful: bool = False) -> None:
        """Stops all servers. See `Client.shutdown`."""
        await self._all("shutdown", None, graceful)


async def _together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs coroutines concurrently, and returns their results or raises the first exception.

    All of them have ended then, also if this function is cancelled: it cancels them.
    """
    if len(calls) == 1:
        return [await calls[0]]
    results: list[T] = []
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
