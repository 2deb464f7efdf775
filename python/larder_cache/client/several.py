"""The part of a client of several servers that does no I/O: the placement of the keys, and the
servers that fail."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from . import forks
from .commands import Picklable, prefix_bytes
from .exceptions import MemcacheError, MemcacheIllegalInputError
from .hashers import Hasher, hasher_of
from .keys import Key, check_key_helper
from .servers import ServerSpec, normalize_server_spec

logger = logging.getLogger(__name__)

C = TypeVar("C")


class SeveralServers(Picklable, ABC, Generic[C]):
    """Base class of `HashClient` and `AsyncHashClient`."""

    def __init__(
        self,
        *,
        hasher: str | Callable[[], Hasher],
        retry_attempts: int,
        retry_timeout: float,
        dead_timeout: float,
        ignore_exc: bool,
        key_prefix: bytes | str,
        allow_unicode_keys: bool,
    ) -> None:
        self._arguments["servers"] = []
        #: The clients of the servers, by `host:port` or path.
        self.clients: dict[str, C] = {}
        self.hasher = hasher_of(hasher)
        self.retry_attempts = retry_attempts
        self.retry_timeout = retry_timeout
        self.dead_timeout = dead_timeout
        self.ignore_exc = ignore_exc
        self.key_prefix = prefix_bytes(key_prefix)
        self.allow_unicode_keys = allow_unicode_keys
        # Protects the fields below, `clients` and `hasher`.
        self._lock = threading.RLock()
        # Of each failing server: when it failed last, and how often it was tried since.
        self._failed_clients: dict[Any, tuple[float, int]] = {}
        # When each dead server died.
        self._dead_clients: dict[Any, float] = {}
        forks.register(self)

    @abstractmethod
    def _new_client(self, server: ServerSpec) -> C:
        """Returns a client of one server."""

    def check_key(self, key: Key) -> bytes:
        """Returns the stored form of a key. See `Client.check_key`."""
        return check_key_helper(key, self.allow_unicode_keys, self.key_prefix)

    def _add_servers(self, servers: Iterable[ServerSpec]) -> None:
        # The characters of a string are strings, and (host, port) is iterable.
        is_pair = isinstance(servers, tuple) and len(servers) == 2 and isinstance(servers[1], int)
        if is_pair or isinstance(servers, (str, bytes)):
            raise TypeError(f"servers is {servers!r}, expected a list of servers")
        for server in servers:
            self.add_server(server)

    def add_server(self, server: ServerSpec, port: int | None = None) -> None:
        """Adds a server. Its part of the keys moves to it."""
        server = _server_of(server, port)
        node = _node_of(server)
        with self._lock:
            # A server that was dead still has its client.
            if node not in self.clients:
                self.clients[node] = self._new_client(server)
            self.hasher.add_node(node)
            if server not in self._arguments["servers"]:
                self._arguments["servers"].append(server)

    def _remove_server(self, server: ServerSpec, port: int | None = None) -> C | None:
        # Returns the client to close. A failing server counts as dead, and keeps its client.
        server = _server_of(server, port)
        with self._lock:
            self.hasher.remove_node(_node_of(server))
            if self._failed_clients.pop(server, None) is not None:
                self._dead_clients[server] = time.monotonic()
                return None
            if server in self._arguments["servers"]:
                self._arguments["servers"].remove(server)
            return self.clients.pop(_node_of(server), None)

    def _retry_dead(self) -> None:
        now = time.monotonic()
        with self._lock:
            revived = [
                server
                for server, died in self._dead_clients.items()
                if now - died > self.dead_timeout
            ]
            for server in revived:
                del self._dead_clients[server]
                logger.debug("server %s is used again", server)
                self.add_server(server)

    def _mark_failed_server(self, server: Any, began: float | None = None) -> None:
        # `began` is when the request began: one that was under way at an earlier failure has not
        # tried the server again.
        with self._lock:
            if server in self._dead_clients:
                return
            failed = self._failed_clients.get(server)
            if failed is not None and began is not None and began <= failed[0]:
                return
            attempts = 0 if failed is None else failed[1] + 1
            self._failed_clients[server] = time.monotonic(), attempts
            if attempts >= self.retry_attempts:
                logger.debug("server %s is dead", server)
                self._remove_server(server)

    def _is_resting(self, server: Any) -> bool:
        # True until a failing server is tried again.
        failed = self._failed_clients.get(server)
        return failed is not None and time.monotonic() - failed[0] <= self.retry_timeout

    def _is_raised(self, server: Any, error: Exception, began: float) -> bool:
        # Records the error of a request. True if the caller of the request receives it.
        if isinstance(error, OSError):
            self._mark_failed_server(server, began)
        elif isinstance(error, (MemcacheIllegalInputError, TypeError)):
            # Errors of the caller.
            return True
        return not self.ignore_exc

    def _record_success(self, server: Any) -> None:
        if self._failed_clients:
            with self._lock:
                self._failed_clients.pop(server, None)

    def _get_client(self, key: Key) -> C | None:
        # Returns the client of a key; None if all servers are dead.
        self.check_key(key)
        if self._dead_clients:
            self._retry_dead()
        with self._lock:
            node = self.hasher.get_node(key)
            if node is not None:
                return self.clients[node]
        if self.ignore_exc:
            return None
        raise MemcacheError("All servers seem to be down right now")

    def _by_client(self, keys: Iterable[Key]) -> tuple[list[tuple[C, list[Key]]], list[Key]]:
        # Returns the keys of each client, and the keys whose servers are dead.
        groups: dict[int, tuple[C, list[Key]]] = {}
        lost: list[Key] = []
        for key in keys:
            client = self._get_client(key)
            if client is None:
                lost.append(key)
            else:
                groups.setdefault(id(client), (client, []))[1].append(key)
        return list(groups.values()), lost

    def _after_fork(self) -> None:
        self._lock = threading.RLock()


def _server_of(server: ServerSpec, port: int | None) -> ServerSpec:
    if port is None:
        return normalize_server_spec(server)
    if not isinstance(server, str):
        raise TypeError("Server must be a string when passing port.")
    return normalize_server_spec((server, port))


def _node_of(server: ServerSpec) -> str:
    return f"{server[0]}:{server[1]}" if isinstance(server, tuple) else server
