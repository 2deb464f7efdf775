"""The requests of blocking clients."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from .commands import (
    FIRST_POLL_SECS,
    LAST_POLL_SECS,
    NO_PREFIXES,
    Commands,
    cas_bytes,
    check_integer,
    chunks,
    removal_result,
)
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


class BlockingCommands(Commands):
    """Base class of `Client` and `PooledClient`, which differ in their connections."""

    _local: LocalReads | None

    @abstractmethod
    def close(self) -> None:
        """Closes the connections. The next request opens one again."""

    @abstractmethod
    def _exchange(self, request: bytes, reply: Reply | None) -> None:
        # Sends a request, and receives its reply, unless `reply` is None.
        ...

    @abstractmethod
    def _may_read_memory(self) -> bool:
        # False while the server may not have executed a change that it does not answer.
        ...

    @property
    def reads_memory(self) -> bool:
        """True if hits are currently read in the memory of the server. May open a connection."""
        return self._local is not None and self._local.reads_memory()

    def disconnect_all(self) -> None:
        """Same as `close`."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _result(self, command: bytes, request: bytes) -> Any:
        reply = LinesReply(command)
        self._exchange(request, reply)
        return reply.result()[0]

    # Reads.

    def get(self, key: Key, default: Any = None) -> Any:
        """Returns the value of a key, or `default` if the item does not exist."""
        return self._get_one(b"get", key, None, default)

    def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> tuple[Any, Any]:
        """Returns the value and the cas token of a key, or `(default, cas_default)`."""
        found: tuple[Any, Any] = self._get_one(b"gets", key, None, (default, cas_default))
        return found

    def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """Returns the value of a key, or `default`, and sets its time to live to `expire`."""
        return self._get_one(b"gat", key, expire, default)

    def gats(
        self, key: Key, expire: int = 0, default: Any = None, cas_default: Any = None
    ) -> tuple[Any, Any]:
        """Same as `gets`, and sets the time to live to `expire`."""
        found: tuple[Any, Any] = self._get_one(b"gats", key, expire, (default, cas_default))
        return found

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """Returns a dict of the keys that have an item, and their values."""
        return self._get_all(b"get", keys)

    get_multi = get_many

    def gets_many(self, keys: Iterable[Key]) -> dict[Key, tuple[Any, Any]]:
        """Returns a dict of the keys that have an item, and their values and cas tokens."""
        return self._get_all(b"gets", keys)

    gets_multi = gets_many

    def _get_one(self, command: bytes, key: Key, expire: int | None, default: Any) -> Any:
        stored = self.check_key(key)
        if expire is not None:
            check_integer(expire, "expire")
        has_cas = command in (b"gets", b"gats")
        try:
            hit: Hit | None = None
            if expire is None and self._local is not None and self._may_read_memory():
                found = self._local.get(stored)
                if found is not None:
                    hit = local_hit(found, True) if has_cas else (found[0], found[1], None)
            if hit is None:
                words = command if expire is None else b"%b %d" % (command, expire)
                request = b"%b %b\r\n" % (words, stored)
                reply = ValuesReply(command, (stored,), has_cas)
                self._exchange(request, reply)
                hit = reply.result().get(stored)
                if hit is None:
                    return default
            data, flags, cas = hit
            value = data if self._is_plain else self._decode(key, stored, data, flags)
        except Exception:
            if self.ignore_exc:
                return default
            raise
        return (value, cas) if has_cas else value

    def _get_all(self, command: bytes, keys: Iterable[Key]) -> dict[Key, Any]:
        stored_keys = self._stored_keys(keys)
        has_cas = command == b"gets"
        try:
            hits = self._local_hits(stored_keys.values(), has_cas)
            # A key is requested once, also if it is given as bytes and as a str.
            missing = dict.fromkeys(key for key in stored_keys.values() if key not in hits)
            for batch in batches(missing):
                reply = ValuesReply(command, set(batch), has_cas)
                self._exchange(b"%b %b\r\n" % (command, b" ".join(batch)), reply)
                hits.update(reply.result())
            return self._decode_all(stored_keys, hits, has_cas)
        except Exception:
            if self.ignore_exc:
                return {}
            raise

    def _local_hits(self, stored_keys: Iterable[bytes], has_cas: bool) -> dict[bytes, Hit]:
        if self._local is None or not self._may_read_memory():
            return {}
        keys = list(stored_keys)
        found = zip(keys, self._local.get_many(keys), strict=True)
        return {key: local_hit(hit, has_cas) for key, hit in found if hit is not None}

    # Stores.

    def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool | None:
        """Stores a value. Returns `True`; with `noreply` also if the store fails.

        `flags` replaces the flags of the serializer.
        """
        return self._store(b"set", key, value, expire, noreply, flags)

    def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """Stores a value if the item does not exist. Returns whether it was stored; `True` with
        `noreply`."""
        return bool(self._store(b"add", key, value, expire, noreply, flags))

    def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """Stores a value if the item exists. Returns whether it was stored; `True` with
        `noreply`."""
        return bool(self._store(b"replace", key, value, expire, noreply, flags))

    def append(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """Adds bytes at the end of a value. Returns whether the item exists; `True` with
        `noreply`. The item keeps its time to live and its flags."""
        return bool(self._store(b"append", key, value, expire, noreply, flags))

    def prepend(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> bool:
        """Adds bytes at the start of a value. Otherwise same as `append`."""
        return bool(self._store(b"prepend", key, value, expire, noreply, flags))

    def cas(
        self,
        key: Key,
        value: Any,
        cas: int | str | bytes,
        expire: int = 0,
        noreply: bool = False,
        flags: int | None = None,
    ) -> bool | None:
        """Stores a value if the item still has the cas token that `gets` returned.

        Returns `False` if the item has changed, and `None` if it does not exist.
        """
        return self._store(b"cas", key, value, expire, noreply, flags, cas_bytes(cas))

    def set_many(
        self,
        values: Items,
        expire: int = 0,
        noreply: bool | None = None,
        flags: int | None = None,
    ) -> list[Key]:
        """Stores several values. Returns the keys that were not stored; none with `noreply`."""
        noreply = self.default_noreply if noreply is None else noreply
        requests = [
            self._store_request(b"set", key, value, expire, noreply, flags)
            for key, value in values.items()
        ]
        stored = self._all(b"set", requests, noreply)
        return [key for key, is_stored in zip(values, stored, strict=False) if not is_stored]

    set_multi = set_many

    def _store(
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
            self._exchange(request, None)
            return True
        stored: bool | None = self._result(command, request)
        return stored

    def _all(self, command: bytes, requests: list[bytes], noreply: bool) -> list[Any]:
        # Returns the result of each request, or nothing with noreply.
        replies: list[LinesReply] = []
        for part in chunks(requests):
            request = b"".join(part)
            if noreply:
                self._exchange(request, None)
            else:
                replies.append(LinesReply(command, len(part)))
                self._exchange(request, replies[-1])
        # A refused request is an exception only after all requests were sent.
        return [result for reply in replies for result in reply.result()]

    # Other changes.

    def delete(self, key: Key, noreply: bool | None = None) -> bool:
        """Removes an item. Returns whether it existed; `True` with `noreply`."""
        noreply = self.default_noreply if noreply is None else noreply
        request = self._delete_request(key, noreply)
        if noreply:
            self._exchange(request, None)
            return True
        return bool(self._result(b"delete", request))

    def delete_many(self, keys: Iterable[Key], noreply: bool | None = None) -> bool:
        """Removes several items. Returns `True`."""
        noreply = self.default_noreply if noreply is None else noreply
        self._all(b"delete", [self._delete_request(key, noreply) for key in keys], noreply)
        return True

    delete_multi = delete_many

    def incr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """Adds to a counter. Returns its new value; `None` if the item does not exist, or with
        `noreply`.

        Raises `MemcacheClientError` if the value is not a number below 2**64.
        """
        return self._count(b"incr", key, value, noreply)

    def decr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """Subtracts from a counter, down to 0. Otherwise same as `incr`."""
        return self._count(b"decr", key, value, noreply)

    def _count(self, command: bytes, key: Key, delta: int, noreply: bool | None) -> int | None:
        request = self._count_request(command, key, delta, bool(noreply))
        if noreply:
            self._exchange(request, None)
            return None
        count: int | None = self._result(command, request)
        return count

    def touch(self, key: Key, expire: int = 0, noreply: bool | None = None) -> bool:
        """Sets the time to live of an item. Returns whether it exists; `True` with `noreply`."""
        noreply = self.default_noreply if noreply is None else noreply
        request = self._touch_request(key, expire, noreply)
        if noreply:
            self._exchange(request, None)
            return True
        return bool(self._result(b"touch", request))

    def flush_all(self, delay: int = 0, noreply: bool | None = None) -> bool:
        """Removes all items of the server, now or in `delay` seconds. Returns `True`."""
        noreply = self.default_noreply if noreply is None else noreply
        request = self._flush_request(delay, noreply)
        if noreply:
            self._exchange(request, None)
            return True
        return bool(self._result(b"flush_all", request))

    def remove_prefix(self, prefix: Key) -> int:
        """Removes all items whose keys begin with `prefix`, after the prefix of the client. Waits
        until they are removed, and returns their number. Only larderd has this command.

        Items that are stored after the call began may stay. Raises `MemcacheUnknownCommandError`
        if the server is not a larderd, and `MemcacheServerError` (`busy`) while another removal
        runs.
        """
        try:
            number = self._result(b"delete_prefix", self._prefix_request(prefix))
        except MemcacheUnknownCommandError:
            raise MemcacheUnknownCommandError(NO_PREFIXES) from None
        pause = FIRST_POLL_SECS
        while (removed := removal_result(self._stats("delete_prefix"), number)) is None:
            time.sleep(pause)
            pause = min(2 * pause, LAST_POLL_SECS)
        return removed

    # The server.

    def stats(self, *args: Key) -> dict[bytes, Any]:
        """Returns statistics of the server; `args` selects others, such as `"settings"`. Numbers
        are `int`, `float` or `bool`, other values are bytes."""
        try:
            return self._stats(*args)
        except MemcacheIllegalInputError:
            raise
        except Exception:
            if self.ignore_exc:
                return {}
            raise

    def _stats(self, *args: Key) -> dict[bytes, Any]:
        reply = StatsReply(b"stats")
        self._exchange(self._stats_request(args), reply)
        return typed_stats(reply.result())

    def version(self) -> bytes:
        """Returns the version of the server. A larderd returns that of the memcached it follows."""
        version: bytes = self._result(b"version", b"version\r\n")
        return version

    def cache_memlimit(self, memlimit: int) -> bool:
        """Sets the memory limit of the server, in MiB. Returns `True`."""
        check_integer(memlimit, "memlimit")
        return bool(self._result(b"cache_memlimit", b"cache_memlimit %d\r\n" % memlimit))

    def raw_command(self, command: bytes | str, end_tokens: bytes | str = "\r\n") -> bytes:
        """Sends a command, and returns the response up to `end_tokens`, which end it.

        The command is sent as it is: the caller is responsible for its contents.
        """
        request, name, end = self._raw_request(command, end_tokens)
        reply = SegmentReply(name, end)
        self._exchange(request, reply)
        return reply.result()

    def quit(self) -> None:
        """Closes the connection after the server has executed all requests."""
        self._exchange(b"quit\r\n", None)
        self.close()

    def shutdown(self, graceful: bool = False) -> None:
        """Stops the server, if it was started with `-A`; with `graceful` after all requests that
        have arrived."""
        request = b"shutdown graceful\r\n" if graceful else b"shutdown\r\n"
        # The server closes the connection in place of a response.
        with contextlib.suppress(MemcacheUnexpectedCloseError, ConnectionResetError):
            self._result(b"shutdown", request)

    # Items as in a dict.

    def __setitem__(self, key: Key, value: Any) -> None:
        self.set(key, value, noreply=True)

    def __getitem__(self, key: Key) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key: Key) -> None:
        self.delete(key, noreply=True)
