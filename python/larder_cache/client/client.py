"""`Client`: one blocking connection to a server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

from .._serializers import Serializer
from . import forks
from .blocking import BlockingCommands
from .commands import Picklable
from .connection import Dialer, check_keepalive
from .exceptions import MemcacheUnexpectedCloseError
from .local import LocalReads
from .protocol import RECV_BYTES, Reply
from .servers import KeepaliveOpts, ServerSpec
from .values import DeserializeFunction, Serde, SerializeFunction


class Client(Picklable, BlockingCommands):
    """A client of one larderd or memcached, with the methods of pymemcache's `Client`.

    `server` is `"host:port"`, `("host", port)`, `"unix:/path"` or `"/path"`. The first request
    opens the connection, and so does the first one after an error or `close()`. A list of servers
    makes a `HashClient`, whose arguments must be given by name.

    Several threads may use a client; its requests wait for each other. `PooledClient` has several
    connections. A forked child opens its own connection. Clients can be pickled, unless they have a
    `tls_context`.

    Values are stored as bytes; other types as the ASCII bytes of their `str()`, and `get` returns
    bytes. `serializer="json"`, `"msgspec"` or `"pickle"` stores other types, and
    `serializer="tags"` only `bytes`, `str`, `int`, `float`, `bool` and `None`; `get` then returns
    the type that was stored. These four are compatible with `larder_cache.Cache`. `"pickle"` needs
    a `signing_key` or `trust_server=True`. `serde` is an object with `serialize` and `deserialize`,
    as in pymemcache, and `serializer` and `deserializer` may be such functions.

    If the server is a larderd at a unix socket that shares its memory (`--local-readers`), hits are
    read in this memory, without a request. `local_reads=False` turns this off. A read after a
    change with `noreply` is a request, so that it returns the changed value.

    `timeout` and `connect_timeout` are seconds for each operation of the socket, `None` waits
    forever. `expire` is in seconds: 0 never expires, and above 2592000 it is a Unix time.
    `default_noreply` is the default of `noreply` in changes except `cas`, `incr` and `decr`: with
    it they do not wait for the server and do not report failures. `ignore_exc` turns failed reads
    into misses.

    All requests may raise the exceptions of `larder_cache.client.exceptions` and `OSError`,
    `TimeoutError` included. The connection is closed after each of them except
    `MemcacheIllegalInputError`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        servers = args[0] if args else kwargs.get("server")
        if cls is Client and isinstance(servers, list):
            from .hash_client import HashClient

            if len(args) > 1:
                raise TypeError("a client of several servers takes only keyword arguments")
            kwargs.pop("server", None)
            return HashClient(servers, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        server: ServerSpec | list[Any],
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
        default_noreply: bool = True,
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        tls_context: SSLContext | None = None,
        *,
        signing_key: bytes | str | None = None,
        trust_server: bool = False,
        local_reads: bool = True,
        lock_generator: Callable[[], Any] | None = None,
    ) -> None:
        self._keep_arguments(locals())
        super().__init__(
            server,  # type: ignore[arg-type]
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
        self.connect_timeout = connect_timeout
        self.timeout = timeout
        self.no_delay = no_delay
        self.socket_module = socket_module
        self.socket_keepalive = socket_keepalive
        self.tls_context = tls_context
        self.sock: Any = None
        self._new_lock = lock_generator or threading.RLock
        self._lock = self._new_lock()
        self._is_busy = False
        self._was_connected = False
        # True while the server may not have executed a change that it does not answer.
        self._is_unordered = False
        self._local: LocalReads | None = None
        if local_reads and socket_module is socket and isinstance(self.server, str):
            self._local = LocalReads(self.server, timeout)
        forks.register(self)

    def close(self) -> None:
        """Closes the connection, after a request of another thread that uses it. The next request
        opens it again."""
        with self._lock:
            self._drop()
        if self._local is not None:
            self._local.close()

    def _may_read_memory(self) -> bool:
        return not self._is_unordered

    def _connect(self) -> None:
        self._drop()
        dialer = Dialer(
            self.server,
            self.socket_module,
            self.connect_timeout,
            self.timeout,
            self.no_delay,
            self.socket_keepalive,
            self.tls_context,
        )
        self.sock = dialer.dial()
        if self._local is not None and self._was_connected:
            # The server may be another one, with another memory.
            self._local.resume()
        self._was_connected = True

    def _connected(self) -> Any:
        self._connect()
        return self.sock

    def _drop(self) -> None:
        sock, self.sock = self.sock, None
        _close(sock)

    def _after_fork(self) -> None:
        # Closes the descriptor of the child; the connection of the parent stays open.
        self._drop()
        self._lock = self._new_lock()
        self._is_busy = False
        self._is_unordered = False
        if self._local is not None:
            self._local.after_fork()

    def _exchange(self, request: bytes, reply: Reply | None) -> None:
        # On any error, and if bytes follow the reply, the connection is closed: a later request
        # must not receive them.
        with self._lock:
            if self._is_busy:
                raise RuntimeError(
                    "the client is used again while it waits for a response, by a signal handler"
                    " or by another green thread; pass lock_generator, for example"
                    " gevent.lock.RLock, or use one client for each"
                )
            try:
                self._is_busy = True
                sock = self.sock or self._connected()
                if reply is None:
                    self._is_unordered = True
                    sock.sendall(request)
                    return
                sock.sendall(request)
                data = _receive(sock, RECV_BYTES)
                while (end := reply.feed(data, 0)) < 0:
                    data = _receive(sock, reply.wanted)
                self._is_unordered = False
                if end != len(data) or reply.error is not None:
                    self._drop()
            except BaseException as error:
                # First, and without a call: a signal handler may interrupt calls.
                dropped, self.sock = self.sock, None
                _close(dropped)
                if self._local is not None and isinstance(error, OSError):
                    self._local.suspend()
                raise
            finally:
                self._is_busy = False


def _close(sock: Any) -> None:
    if sock is not None:
        # The connection is useless, whatever the operating system reports.
        with contextlib.suppress(Exception):
            sock.close()


def _receive(sock: Any, size: int) -> bytes:
    # Returns at least one byte. Sockets of Python repeat interrupted calls, others may not.
    while True:
        try:
            data: bytes = sock.recv(size)
        except InterruptedError:
            continue
        if not data:
            raise MemcacheUnexpectedCloseError("the server closed the connection")
        return data
