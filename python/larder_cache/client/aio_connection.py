"""Connections of `AsyncClient`: many requests of many tasks are under way on each."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from ssl import SSLContext
from typing import Any

from .exceptions import (
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownError,
)
from .protocol import Reply
from .servers import KeepaliveOpts, ServerSpec

# Requests on a connection before another connection is opened, if there may be one.
_GROW_AT = 16
# Most replies that a connection waits for, those of cancelled requests included.
_MAX_PENDING = 1024

_STORES = frozenset((b"set", b"add", b"replace", b"append", b"prepend", b"cas"))


class AsyncConnection(asyncio.Protocol):
    """A connection. Its replies arrive in the order of the requests.

    A cancelled request stays in the queue until its reply has arrived, so that no other request
    receives it.
    """

    def __init__(self) -> None:
        self._transport: Any = None
        self._pending: deque[tuple[Reply, asyncio.Future[None]]] = deque()
        self._is_retired = False
        self.is_open = True
        # Cleared while the transport has too many unsent bytes, or too many replies are due.
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._is_full = False

    @property
    def pending(self) -> int:
        """The number of replies that have not arrived."""
        return len(self._pending)

    async def wait_to_send(self) -> None:
        """Waits until the connection has room for a request, or is closed."""
        # Of the tasks that wake up together, the first ones may use up the room.
        while self.is_open and not self._may_send.is_set():
            await self._may_send.wait()

    def send(self, request: bytes, reply: Reply) -> asyncio.Future[None]:
        """Sends a request. The future completes when the reply is complete."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.is_open:
            future.set_exception(MemcacheUnexpectedCloseError("the connection is closed"))
            return future
        self._pending.append((reply, future))
        if len(self._pending) >= _MAX_PENDING:
            self._may_send.clear()
        self._transport.write(request)
        return future

    async def answered(self, request: bytes, reply: Reply, timeout: float | None) -> None:
        """Sends a request, and waits for its reply, at most `timeout` seconds."""
        future = self.send(request, reply)
        if timeout is None:
            await future
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout, self.expire, future, timeout)
        try:
            await future
        finally:
            timer.cancel()

    def send_noreply(self, request: bytes) -> None:
        """Sends a request that has no reply."""
        if not self.is_open:
            raise MemcacheUnexpectedCloseError("the connection is closed")
        self._transport.write(request)

    def expire(self, future: asyncio.Future[None], timeout: float) -> None:
        """Fails a request that was not answered in time. No other request is sent then, and the
        connection is closed as soon as no request waits on it."""
        if not future.done():
            future.set_exception(TimeoutError(f"no response within {timeout} s"))
        self.retire()

    def retire(self) -> None:
        """Sends no other request, and closes the connection as soon as no request waits on it."""
        self._is_retired = True
        self.is_open = False
        self._may_send.set()
        if all(future.done() for _, future in self._pending):
            self.abort()

    def abort(self) -> None:
        """Closes the connection. Requests that wait on it fail."""
        self.is_open = False
        self._may_send.set()
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        pos = 0
        while pos < len(data):
            if not self._pending:
                # No request may receive these bytes.
                self.abort()
                return
            reply, future = self._pending[0]
            try:
                pos = reply.feed(data, pos)
            except MemcacheUnknownError as error:
                self._pending.popleft()
                if not future.done():
                    future.set_exception(error)
                self.abort()
                return
            if pos < 0:
                return
            self._pending.popleft()
            if not future.done():
                future.set_result(None)
            if not _is_in_sync(reply):
                self.abort()
                return
        if self._is_retired:
            self.retire()
        elif not self._is_full and len(self._pending) < _MAX_PENDING:
            self._may_send.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._may_send.set()
        reason = str(exc) if exc is not None else "the server closed the connection"
        while self._pending:
            future = self._pending.popleft()[1]
            if not future.done():
                future.set_exception(MemcacheUnexpectedCloseError(reason))

    def pause_writing(self) -> None:
        self._is_full = True
        self._may_send.clear()

    def resume_writing(self) -> None:
        self._is_full = False
        if len(self._pending) < _MAX_PENDING:
            self._may_send.set()


def _is_in_sync(reply: Reply) -> bool:
    # After an error in the line of a store command, the server may take the value for commands.
    error = reply.error
    return error is None or isinstance(error, MemcacheServerError) or reply.command not in _STORES


class AsyncPool:
    """The connections of a client in one event loop."""

    def __init__(
        self,
        server: ServerSpec,
        max_connections: int,
        connect_timeout: float | None,
        keepalive: KeepaliveOpts | None,
        tls_context: SSLContext | None,
    ) -> None:
        self._server = server
        self._max_connections = max_connections
        self._connect_timeout = connect_timeout
        self._keepalive = keepalive
        self._tls_context = tls_context
        self._connections: list[AsyncConnection] = []
        self._dialing = asyncio.Lock()
        # The connection on which the server may not have executed a change that it does not
        # answer, and the number of such changes so far.
        self._unordered: AsyncConnection | None = None
        self._unordered_count = 0

    @property
    def is_ordered(self) -> bool:
        """False while the server may not have executed a change that it does not answer."""
        return self._unordered is None

    async def exchange(self, request: bytes, reply: Reply | None, timeout: float | None) -> None:
        """Sends a request, and waits for its reply, unless `reply` is `None`."""
        while True:
            connection = await self._connection()
            await connection.wait_to_send()
            if connection.is_open:
                break
        if reply is None:
            connection.send_noreply(request)
            self._unordered = connection
            self._unordered_count += 1
            return
        count = self._unordered_count
        await connection.answered(request, reply, timeout)
        if self._unordered is connection and self._unordered_count == count:
            self._unordered = None

    async def exchange_alone(self, request: bytes, reply: Reply, timeout: float | None) -> None:
        """Sends a request, and waits for its reply, on a connection that is then closed."""
        connection = await self._dial()
        try:
            await connection.answered(request, reply, timeout)
        finally:
            connection.abort()

    def close(self) -> None:
        """Closes all connections. Requests that wait on them fail."""
        connections, self._connections = self._connections, []
        self._unordered = None
        for connection in connections:
            connection.abort()

    async def _connection(self) -> AsyncConnection:
        unordered = self._unordered
        if unordered is not None:
            if unordered.is_open:
                # A request on the connection of an earlier change is executed after that change.
                return unordered
            self._unordered = None
        connection = self._least_used()
        if connection is not None and (
            connection.pending < _GROW_AT
            or len(self._connections) >= self._max_connections
            or self._dialing.locked()
        ):
            return connection
        async with self._dialing:
            # Another task may have opened one.
            connection = self._least_used()
            if connection is None or (
                connection.pending >= _GROW_AT and len(self._connections) < self._max_connections
            ):
                connection = await self._dial()
                self._connections.append(connection)
            return connection

    def _least_used(self) -> AsyncConnection | None:
        connections = self._connections
        if not all(connection.is_open for connection in connections):
            connections = [connection for connection in connections if connection.is_open]
            self._connections = connections
        return min(connections, key=lambda connection: connection.pending, default=None)

    async def _dial(self) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout):
            if not isinstance(self._server, tuple):
                _, connection = await loop.create_unix_connection(AsyncConnection, self._server)
                return connection
            host, port = self._server
            transport, connection = await loop.create_connection(
                AsyncConnection, host, port, ssl=self._tls_context
            )
        if (keepalive := self._keepalive) is not None:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive.idle)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, keepalive.intvl)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, keepalive.cnt)
        return connection
