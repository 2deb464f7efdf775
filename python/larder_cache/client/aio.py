"""`AsyncClient`: the client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self

from .._serializers import Serializer
from . import forks
from .aio_connection import AsyncPool
from .commands import (
    FIRST_POLL_SECS,
    LAST_POLL_SECS,
    NO_PREFIXES,
    Commands,
    Picklable,
    cas_bytes,
    check_integer,
    chunks,
    removal_result,
)
from .connection import check_keepalive
from .exceptions import (
    MemcacheIllegalInputError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)
from .keys import Items, Key
from .local import LocalReads, local_hit
from .protocol import (
    Hit,
    LinesReply,
    Reply,
    SegmentReply,
    StatsReply,
    ValuesReply,
    batches,
    typed_stats,
)
from .servers import KeepaliveOpts, ServerSpec
from .values import DeserializeFunction, Serde, SerializeFunction


class AsyncClient(Picklable, Commands):
    """A client of one larderd or memcached for asyncio. Its methods are coroutines with the
    arguments and results of `Client`. `AsyncHashClient` is for several servers.

    Any number of tasks may use a client. Their requests share at most `max_connections`
    connections, and do not wait for each other's responses. Requests of one task are executed in
    their order only if the task awaits each of them. Hits in the memory of the server are read
    without a request, as by `Client`.

    A cancelled request may have been executed. Its response is dropped. `timeout` bounds each
    request and `connect_timeout` each connection attempt, in seconds; `None` waits forever. After
    a timeout the connection is replaced.

    `default_noreply` is `False`, unlike in `Client`: an awaited change has been executed.

    Each event loop has its own connections. `async with` closes those of the current loop.
    """

    def __init__(
        self,
        server: ServerSpec,
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
        *,
        max_connections: int = 4,
        signing_key: bytes | str | None = None,
        trust_server: bool = False,
        local_reads: bool = True,
    ) -> None:
        self._keep_arguments(locals())
        if isinstance(server, list):
            raise ValueError("AsyncClient has one server; AsyncHashClient takes a list of servers")
        super().__init__(
            server,
            serde=serde,
            serializer=serializer,
            deserializer=deserializer,
            signing_key=signing_key,
            trust_server=trust_server,
            ignore_exc=ignore_exc,
            key_prefix=key_prefix,
            default_noreply=default_noreply,
            allow_unicode_keys=allow_unicode_keys,
            encoding=encoding,
        )
        check_keepalive(socket_keepalive)
        if max_connections < 1:
            raise ValueError(f"max_connections is {max_connections}, expected at least 1")
        self.timeout = timeout
        self._pool_options: dict[str, Any] = {
            "max_connections": max_connections,
            "connect_timeout": connect_timeout,
            "keepalive": socket_keepalive,
            "tls_context": tls_context,
        }
        self._pools: dict[asyncio.AbstractEventLoop, AsyncPool] = {}
        self._local: LocalReads | None = None
        if local_reads and isinstance(self.server, str):
            self._local = LocalReads(self.server, timeout)
        forks.register(self)

    # The connections.

    @property
    def reads_memory(self) -> bool:
        """True if hits are currently read in the memory of the server. May open a connection, and
        then blocks the event loop."""
        return self._local is not None and self._local.reads_memory()

    async def close(self) -> None:
        """Closes the connections of the current event loop. Requests that wait on them fail. The
        next request opens a connection again."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.close()
            # Lets the event loop close the sockets.
            await asyncio.sleep(0)
        if self._local is not None:
            self._local.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _pool(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for closed in [other for other in self._pools if other.is_closed()]:
                self._pools.pop(closed, None)
            pool = self._pools[loop] = AsyncPool(self.server, **self._pool_options)
        return pool

    def _after_fork(self) -> None:
        # The event loops of the parent do not run in the child, and their sockets belong to them.
        self._pools = {}
        if self._local is not None:
            self._local.after_fork()

    async def _exchange(self, request: bytes, reply: Reply | None) -> None:
        try:
            await self._pool().exchange(request, reply, self.timeout)
            if self._local is not None and self._local.is_suspended:
                self._local.resume()
        except OSError:
            if self._local is not None:
                # The server may have been replaced, and its memory with it.
                self._local.suspend()
            raise

    async def _result(self, command: bytes, request: bytes) -> Any:
        reply = LinesReply(command)
        await self._exchange(request, reply)
        return reply.result()[0]

    # Reads.

    async def get(self, key: Key, default: Any = None) -> Any:
        """See `Client.get`."""
        return await self._get_one(b"get", key, None, default)

    async def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> tuple[Any, Any]:
        """See `Client.gets`."""
        found: tuple[Any, Any] = await self._get_one(b"gets", key, None, (default, cas_default))
        return found

    async def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """See `Client.gat`."""
        return await self._get_one(b"gat", key, expire, default)

    async def gats(
        self, key: Key, expire: int = 0, default: Any = None, cas_default: Any = None
    ) -> tuple[Any, Any]:
        """See `Client.gats`."""
        found: tuple[Any, Any] = await self._get_one(b"gats", key, expire, (default, cas_default))
        return found

    async def get_many(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """See `Client.get_many`."""
        return await self._get_all(b"get", keys)

    get_multi = get_many

    async def gets_many(self, keys: Iterable[Key]) -> dict[Key, tuple[Any, Any]]:
        """See `Client.gets_many`."""
        return await self._get_all(b"gets", keys)

    gets_multi = gets_many

    async def _get_one(self, command: bytes, key: Key, expire: int | None, default: Any) -> Any:
        stored = self.check_key(key)
        if expire is not None:
            check_integer(expire, "expire")
        has_cas = command in (b"gets", b"gats")
        try:
            hit: Hit | None = None
            if expire is None and (local := self._local_reads()) is not None:
                if local.is_due:
                    await self._open(local)
                found = local.get(stored)
                hit = None if found is None else local_hit(found, has_cas)
            if hit is None:
                words = command if expire is None else b"%b %d" % (command, expire)
                request = b"%b %b\r\n" % (words, stored)
                reply = ValuesReply(command, (stored,), has_cas)
                await self._exchange(request, reply)
                hit = reply.result().get(stored)
                if hit is None:
                    return default
            data, flags, cas = hit
            value = self._decode(key, stored, data, flags)
        except Exception:
            if self.ignore_exc:
                return default
            raise
        return (value, cas) if has_cas else value

    async def _get_all(self, command: bytes, keys: Iterable[Key]) -> dict[Key, Any]:
        stored_keys = self._stored_keys(keys)
        has_cas = command == b"gets"
        hits: dict[bytes, Hit] = {}
        try:
            if (local := self._local_reads()) is not None:
                if local.is_due:
                    await self._open(local)
                stored = list(stored_keys.values())
                for one, found in zip(stored, local.get_many(stored), strict=True):
                    if found is not None:
                        hits[one] = local_hit(found, has_cas)
            # A key is requested once, also if it is given as bytes and as a str.
            missing = dict.fromkeys(one for one in stored_keys.values() if one not in hits)
            for batch in batches(missing):
                reply = ValuesReply(command, set(batch), has_cas)
                await self._exchange(b"%b %b\r\n" % (command, b" ".join(batch)), reply)
                hits.update(reply.result())
            return self._decode_all(stored_keys, hits, has_cas)
        except Exception:
            if self.ignore_exc:
                return {}
            raise

    def _local_reads(self) -> LocalReads | None:
        # Returns the memory if it may be read.
        local = self._local
        return None if local is None or not self._pool().is_ordered else local

    @staticmethod
    async def _open(local: LocalReads) -> None:
        # Connecting may block.
        await asyncio.get_running_loop().run_in_executor(None, local.open)

    # Stores.

    async def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool | None:
        """See `Client.set`."""
        return await self._store(b"set", key, value, expire, noreply, flags)

    async def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.add`."""
        return bool(await self._store(b"add", key, value, expire, noreply, flags))

    async def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.replace`."""
        return bool(await self._store(b"replace", key, value, expire, noreply, flags))

    async def append(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.append`."""
        return bool(await self._store(b"append", key, value, expire, noreply, flags))

    async def prepend(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """See `Client.prepend`."""
        return bool(await self._store(b"prepend", key, value, expire, noreply, flags))

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
        return await self._store(b"cas", key, value, expire, noreply, flags, cas_bytes(cas))

    async def set_many(
        self,
        values: Items,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> list[Key]:
        """See `Client.set_many`."""
        noreply = self.default_noreply if noreply is None else noreply
        requests = [
            self._store_request(b"set", key, value, expire, noreply, flags)
            for key, value in values.items()
        ]
        stored = await self._all(b"set", requests, noreply)
        return [key for key, is_stored in zip(values, stored, strict=False) if not is_stored]

    set_multi = set_many

    async def _store(
        self,
        command: bytes,
        key: Key,
        value: Any,
        expire: int,
        noreply: bool | None,
        flags: int | None,
        cas: bytes | None = None,
    ) -> bool | None:
        noreply = self.default_noreply if noreply is None else noreply
        request = self._store_request(command, key, value, expire, noreply, flags, cas)
        if noreply:
            await self._exchange(request, None)
            return True
        stored: bool | None = await self._result(command, request)
        return stored

    async def _all(self, command: bytes, requests: list[bytes], noreply: bool) -> list[Any]:
        replies: list[LinesReply] = []
        for part in chunks(requests):
            request = b"".join(part)
            if noreply:
                await self._exchange(request, None)
            else:
                replies.append(LinesReply(command, len(part)))
                await self._exchange(request, replies[-1])
        # A refused request is an exception only after all requests were sent.
        return [result for reply in replies for result in reply.result()]

    # Other changes.

    async def delete(self, key: Key, noreply: bool | None = None) -> bool:
        """See `Client.delete`."""
        noreply = self.default_noreply if noreply is None else noreply
        request = self._delete_request(key, noreply)
        if noreply:
            await self._exchange(request, None)
            return True
        return bool(await self._result(b"delete", request))

    async def delete_many(self, keys: Iterable[Key], noreply: bool | None = None) -> bool:
        """See `Client.delete_many`."""
        noreply = self.default_noreply if noreply is None else noreply
        requests = [self._delete_request(key, noreply) for key in keys]
        await self._all(b"delete", requests, noreply)
        return True

    delete_multi = delete_many

    async def incr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """See `Client.incr`."""
        return await self._count(b"incr", key, value, noreply)

    async def decr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """See `Client.decr`."""
        return await self._count(b"decr", key, value, noreply)

    async def _count(
        self, command: bytes, key: Key, delta: int, noreply: bool | None
    ) -> int | None:
        request = self._count_request(command, key, delta, bool(noreply))
        if noreply:
            await self._exchange(request, None)
            return None
        count: int | None = await self._result(command, request)
        return count

    async def touch(self, key: Key, expire: int = 0, noreply: bool | None = None) -> bool:
        """See `Client.touch`."""
        noreply = self.default_noreply if noreply is None else noreply
        request = self._touch_request(key, expire, noreply)
        if noreply:
            await self._exchange(request, None)
            return True
        return bool(await self._result(b"touch", request))

    async def flush_all(self, delay: int = 0, noreply: bool | None = None) -> bool:
        """See `Client.flush_all`."""
        noreply = self.default_noreply if noreply is None else noreply
        request = self._flush_request(delay, noreply)
        if noreply:
            await self._exchange(request, None)
            return True
        return bool(await self._result(b"flush_all", request))

    async def remove_prefix(self, prefix: Key) -> int:
        """See `Client.remove_prefix`."""
        try:
            number = await self._result(b"delete_prefix", self._prefix_request(prefix))
        except MemcacheUnknownCommandError:
            raise MemcacheUnknownCommandError(NO_PREFIXES) from None
        pause = FIRST_POLL_SECS
        while (removed := removal_result(await self._stats("delete_prefix"), number)) is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_POLL_SECS)
        return removed

    # The server.

    async def stats(self, *args: Key) -> dict[bytes, Any]:
        """See `Client.stats`."""
        try:
            return await self._stats(*args)
        except MemcacheIllegalInputError:
            raise
        except Exception:
            if self.ignore_exc:
                return {}
            raise

    async def _stats(self, *args: Key) -> dict[bytes, Any]:
        reply = StatsReply(b"stats")
        await self._exchange(self._stats_request(args), reply)
        return typed_stats(reply.result())

    async def version(self) -> bytes:
        """See `Client.version`."""
        version: bytes = await self._result(b"version", b"version\r\n")
        return version

    async def cache_memlimit(self, memlimit: int) -> bool:
        """See `Client.cache_memlimit`."""
        check_integer(memlimit, "memlimit")
        return bool(await self._result(b"cache_memlimit", b"cache_memlimit %d\r\n" % memlimit))

    async def raw_command(self, command: bytes | str, end_tokens: bytes | str = "\r\n") -> bytes:
        """See `Client.raw_command`. Uses a separate connection, because other bytes may follow
        `end_tokens`."""
        request, name, end = self._raw_request(command, end_tokens)
        reply = SegmentReply(name, end)
        await self._pool().exchange_alone(request, reply, self.timeout)
        return reply.result()

    async def quit(self) -> None:
        """Same as `close`: each awaited request has been executed."""
        await self.close()

    async def shutdown(self, graceful: bool = False) -> None:
        """See `Client.shutdown`."""
        request = b"shutdown graceful\r\n" if graceful else b"shutdown\r\n"
        # The server closes the connection in place of a response.
        with contextlib.suppress(MemcacheUnexpectedCloseError):
            await self._result(b"shutdown", request)
