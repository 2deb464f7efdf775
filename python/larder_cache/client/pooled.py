"""`PooledClient`: several blocking connections to a server, for the threads of a process."""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

from .._serializers import Serializer
from . import forks
from .blocking import BlockingCommands
from .client import Client
from .commands import Picklable
from .connection import check_keepalive
from .local import LocalReads
from .pool import ObjectPool
from .protocol import Reply
from .servers import KeepaliveOpts, ServerSpec
from .values import DeserializeFunction, Serde, SerializeFunction


class PooledClient(Picklable, BlockingCommands):
    """Same as `Client`, but its threads use separate connections.

    `max_pool_size` bounds the connections; without it there are as many as threads send requests
    at the same time. If all are in use, a request waits up to `pool_wait` seconds, then raises
    `RuntimeError`; the default is to raise immediately, as in pymemcache. Connections that are
    unused for `pool_idle_timeout` seconds are closed; with 0 they stay open.

    A request with `noreply` may be executed after the next request of another thread.
    """

    #: The class of the connections.
    client_class: type[Client] = Client

    def __init__(
        self,
        server: ServerSpec,
        serde: Serde | None = None,
        serializer: str | Serializer | SerializeFunction | None = None,
        deserializer: DeserializeFunction | None = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        no_delay: bool = False,
        ignore_exc: bool = False,
        socket_module: Any = socket,
        socket_keepalive: KeepaliveOpts | None = None,
        key_prefix: bytes | str = b"",
        max_pool_size: int | None = None,
        pool_idle_timeout: float = 0,
        lock_generator: Callable[[], Any] | None = None,
        default_noreply: bool = True,
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        tls_context: SSLContext | None = None,
        *,
        signing_key: bytes | str | None = None,
        trust_server: bool = False,
        local_reads: bool = True,
        pool_wait: float = 0,
    ) -> None:
        self._keep_arguments(locals())
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
        self._client_options: dict[str, Any] = {
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "no_delay": no_delay,
            "socket_module": socket_module,
            "socket_keepalive": socket_keepalive,
            "tls_context": tls_context,
            "lock_generator": lock_generator,
            "local_reads": False,
        }
        self._pool_options: dict[str, Any] = {
            "max_size": max_pool_size,
            "idle_timeout": pool_idle_timeout,
            "lock_generator": lock_generator,
            "wait": pool_wait,
        }
        self._local: LocalReads | None = None
        if local_reads and socket_module is socket and isinstance(self.server, str):
            self._local = LocalReads(self.server, timeout)
        # Connections on which the server may not have executed a change that it does not answer.
        # Weak, because the pool does not count connections that an interrupted request has lost.
        self._unordered: set[weakref.ref[Client]] = set()
        self.client_pool = self._new_pool()
        forks.register(self)

    def _new_pool(self) -> ObjectPool[Client]:
        return ObjectPool(self._create_client, self._close_client, **self._pool_options)

    def _create_client(self) -> Client:
        return self.client_class(self.server, **self._client_options)

    def _close_client(self, client: Client) -> None:
        self._unordered.discard(weakref.ref(client))
        client.close()

    def close(self) -> None:
        """Closes all connections. The next request opens one again."""
        self.client_pool.clear()
        if self._local is not None:
            self._local.close()

    def _may_read_memory(self) -> bool:
        return not self._unordered

    def _is_unordered(self, client: Client) -> bool:
        return weakref.ref(client) in self._unordered

    def _exchange(self, request: bytes, reply: Reply | None) -> None:
        pool = self.client_pool
        # A request on the connection of an earlier change is executed after that change.
        client = pool.get(self._is_unordered if self._unordered else None)
        try:
            client._exchange(request, reply)
            if self._local is not None and self._local.is_suspended:
                self._local.resume()
        except OSError:
            if self._local is not None:
                # The server may have been replaced, and its memory with it.
                self._local.suspend()
            raise
        finally:
            try:
                if self._local is not None:
                    self._record_order(client)
            finally:
                # The client is usable after any error: it has closed its connection.
                pool.release(client)

    def _record_order(self, client: Client) -> None:
        unordered = self._unordered
        if client._may_read_memory():
            unordered.discard(weakref.ref(client))
        elif weakref.ref(client) not in unordered:
            unordered.add(weakref.ref(client, unordered.discard))

    def _after_fork(self) -> None:
        # Its connections close theirs. The lock of the pool may be held by a thread of the parent.
        self.client_pool = self._new_pool()
        self._unordered = set()
        if self._local is not None:
            self._local.after_fork()
