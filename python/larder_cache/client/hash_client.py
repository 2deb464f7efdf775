"""`HashClient`: several servers, each of which has a part of the keys."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self

from .._serializers import Serializer
from .client import Client
from .hashers import Hasher
from .keys import Items, Key
from .pooled import PooledClient
from .servers import KeepaliveOpts, ServerSpec
from .several import SeveralServers
from .values import DeserializeFunction, Serde, SerializeFunction


class HashClient(SeveralServers[Any]):
    """A client of several servers. Each key belongs to one of them.

    `hasher` places the keys: `"ketama"`, the default, as libmemcached, php-memcached and the other
    clients of Larder do, or `"rendezvous"` as pymemcache does, or a class with `add_node`,
    `remove_node` and `get_node`. `use_pooling` makes each client a `PooledClient`. Further
    arguments are those of `Client` and `PooledClient`.

    A server that fails with an `OSError` is tried again after `retry_timeout` seconds, up to
    `retry_attempts` times; in between, its keys are misses. Then it is dead: other servers receive
    its keys, until it is tried again after `dead_timeout` seconds. `ignore_exc` turns failed reads
    into misses, and failed changes into `False`.

    Raises `MemcacheError` if all servers are dead, unless `ignore_exc` is set.
    """

    #: The class of the clients.
    client_class: Any = Client

    def __init__(
        self,
        servers: Iterable[ServerSpec],
        hasher: str | Callable[[], Hasher] = "ketama",
        serde: Serde | None = None,
        serializer: str | Serializer | SerializeFunction | None = None,
        deserializer: DeserializeFunction | None = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        no_delay: bool = False,
        socket_module: Any = socket,
        socket_keepalive: KeepaliveOpts | None = None,
        key_prefix: bytes | str = b"",
        max_pool_size: int | None = None,
        pool_idle_timeout: float = 0,
        lock_generator: Callable[[], Any] | None = None,
        retry_attempts: int = 2,
        retry_timeout: float = 1,
        dead_timeout: float = 60,
        use_pooling: bool = False,
        ignore_exc: bool = False,
        allow_unicode_keys: bool = False,
        default_noreply: bool = True,
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
            hasher=hasher,
            retry_attempts=retry_attempts,
            retry_timeout=retry_timeout,
            dead_timeout=dead_timeout,
            ignore_exc=ignore_exc,
            key_prefix=key_prefix,
            allow_unicode_keys=allow_unicode_keys,
        )
        self.use_pooling = use_pooling
        self.encoding = encoding
        self.tls_context = tls_context
        self.default_kwargs: dict[str, Any] = {
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "no_delay": no_delay,
            "socket_module": socket_module,
            "socket_keepalive": socket_keepalive,
            "key_prefix": key_prefix,
            "serde": serde,
            "serializer": serializer,
            "deserializer": deserializer,
            "allow_unicode_keys": allow_unicode_keys,
            "default_noreply": default_noreply,
            "encoding": encoding,
            "tls_context": tls_context,
            "signing_key": signing_key,
            "trust_server": trust_server,
            "local_reads": local_reads,
            "lock_generator": lock_generator,
        }
        if use_pooling:
            self.default_kwargs |= {
                "max_pool_size": max_pool_size,
                "pool_idle_timeout": pool_idle_timeout,
                "pool_wait": pool_wait,
            }
        self._add_servers(servers)

    # The servers.

    def _new_client(self, server: ServerSpec) -> Any:
        if not self.use_pooling:
            return self.client_class(server, **self.default_kwargs)
        client = PooledClient(server, **self.default_kwargs)
        client.client_class = self.client_class
        return client

    def remove_server(self, server: ServerSpec, port: int | None = None) -> None:
        """Removes a server. Its keys move to the others. If it is failing, it counts as dead, and
        returns after `dead_timeout`."""
        client = self._remove_server(server, port)
        if client is not None:
            client.close()

    def _call(
        self, client: Any, func: Callable[..., Any], default: Any, *args: Any, **kwargs: Any
    ) -> Any:
        # Returns the result of a request, or `default` if its server is failing.
        if self._failed_clients and self._is_resting(client.server):
            return default
        began = time.monotonic()
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            if self._is_raised(client.server, error, began):
                raise
            return default
        self._record_success(client.server)
        return result

    def _run_cmd(self, command: str, key: Key, default: Any, *args: Any, **kwargs: Any) -> Any:
        client = self._get_client(key)
        if client is None:
            return default
        return self._call(client, getattr(client, command), default, key, *args, **kwargs)

    # Reads.

    def get(self, key: Key, default: Any = None, **kwargs: Any) -> Any:
        """See `Client.get`."""
        return self._run_cmd("get", key, default, default, **kwargs)

    def gets(
        self, key: Key, default: Any = None, cas_default: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """See `Client.gets`."""
        missing = (default, cas_default)
        found: tuple[Any, Any] = self._run_cmd("gets", key, missing, *missing, **kwargs)
        return found

    def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """See `Client.gat`."""
        return self._run_cmd("gat", key, default, expire, default)

    def gats(
        self, key: Key, expire: int = 0, default: Any = None, cas_default: Any = None
    ) -> tuple[Any, Any]:
        """See `Client.gats`."""
        missing = (default, cas_default)
        found: tuple[Any, Any] = self._run_cmd("gats", key, missing, expire, *missing)
        return found

    def get_many(self, keys: Iterable[Key], gets: bool = False) -> dict[Key, Any]:
        """See `Client.get_many`. The keys of a failing server are misses. `gets` returns values
        and cas tokens."""
        found: dict[Key, Any] = {}
        for client, group in self._by_client(keys)[0]:
            func = client.gets_many if gets else client.get_many
            found.update(self._call(client, func, {}, group))
        return found

    get_multi = get_many

    def gets_many(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """See `Client.gets_many`."""
        return self.get_many(keys, gets=True)

    gets_multi = gets_many

    # Changes. Their results are those of `Client`, and False if the server is failing or dead.

    def set(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.set`."""
        return self._run_cmd("set", key, False, *args, **kwargs)

    def add(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.add`."""
        return self._run_cmd("add", key, False, *args, **kwargs)

    def replace(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.replace`."""
        return self._run_cmd("replace", key, False, *args, **kwargs)

    def append(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.append`."""
        return self._run_cmd("append", key, False, *args, **kwargs)

    def prepend(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.prepend`."""
        return self._run_cmd("prepend", key, False, *args, **kwargs)

    def cas(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.cas`."""
        return self._run_cmd("cas", key, False, *args, **kwargs)

    def incr(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.incr`."""
        return self._run_cmd("incr", key, False, *args, **kwargs)

    def decr(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.decr`."""
        return self._run_cmd("decr", key, False, *args, **kwargs)

    def touch(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.touch`."""
        return self._run_cmd("touch", key, False, *args, **kwargs)

    def delete(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        """See `Client.delete`."""
        return self._run_cmd("delete", key, False, *args, **kwargs)

    def set_many(self, values: Items, *args: Any, **kwargs: Any) -> list[Key]:
        """See `Client.set_many`. The keys of a server that is failing or dead are among the keys
        that were not stored."""
        items: dict[Any, Any] = dict(values)
        groups, failed = self._by_client(items)
        for client, group in groups:
            part = {key: items[key] for key in group}
            failed += self._call(client, client.set_many, group, part, *args, **kwargs)
        return failed

    set_multi = set_many

    def delete_many(self, keys: Iterable[Key], *args: Any, **kwargs: Any) -> bool:
        """See `Client.delete_many`. Returns `True`, also if a server is failing or dead."""
        for client, group in self._by_client(keys)[0]:
            self._call(client, client.delete_many, False, group, *args, **kwargs)
        return True

    delete_multi = delete_many

    # All servers.

    def flush_all(self, *args: Any, **kwargs: Any) -> None:
        """Removes all items of all servers."""
        for client in list(self.clients.values()):
            self._call(client, client.flush_all, False, *args, **kwargs)

    def remove_prefix(self, prefix: Key) -> int:
        """Removes all items of all servers whose keys begin with `prefix`, and returns their
        number. See `Client.remove_prefix`. Stops with an exception at the first server that does
        not remove them."""
        return sum(client.remove_prefix(prefix) for client in list(self.clients.values()))

    def stats(self, *args: Key) -> dict[str, dict[bytes, Any]]:
        """Returns the statistics of each server, by `host:port` or path."""
        clients = list(self.clients.items())
        return {node: self._call(client, client.stats, {}, *args) for node, client in clients}

    def close(self) -> None:
        """Closes all connections. The next request opens one again."""
        for client in list(self.clients.values()):
            client.close()

    disconnect_all = close

    def quit(self) -> None:
        """Closes all connections after the servers have executed all requests."""
        for client in list(self.clients.values()):
            self._call(client, client.quit, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
