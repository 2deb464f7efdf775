"""The part of a client that does no I/O: its options, the bytes of its requests, and the values of
its replies."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Self

from .exceptions import MemcacheIllegalInputError, MemcacheServerError
from .keys import Key, check_key_helper, is_legal
from .protocol import BATCH_BYTES, BATCH_COMMANDS, Hit
from .servers import ServerSpec, normalize_server_spec
from .values import MAX_FLAGS, FunctionSerde, TaggedSerde, serde_of, stored_bytes

# A removal by prefix runs in the background; its state is requested at these intervals.
FIRST_POLL_SECS, LAST_POLL_SECS = 0.001, 0.1


class Commands:
    """Base class of `Client` and `AsyncClient`."""

    def __init__(
        self,
        server: ServerSpec,
        *,
        serde: Any,
        serializer: Any,
        deserializer: Any,
        signing_key: bytes | str | None,
        trust_server: bool,
        ignore_exc: bool,
        key_prefix: bytes | str,
        default_noreply: bool,
        allow_unicode_keys: bool,
        encoding: str,
    ) -> None:
        self.server = normalize_server_spec(server)
        self.serde = serde_of(serde, serializer, deserializer, signing_key, trust_server)
        # Values are stored as they are if nothing converts them.
        self._is_plain = type(self.serde) is FunctionSerde and self.serde.is_plain
        self._is_tagged = isinstance(self.serde, TaggedSerde)
        self.ignore_exc = ignore_exc
        self.key_prefix = prefix_bytes(key_prefix)
        self.default_noreply = default_noreply
        self.allow_unicode_keys = allow_unicode_keys
        self.encoding = encoding

    def check_key(self, key: Key, key_prefix: bytes | None = None) -> bytes:
        """Returns the stored form of a key: the prefix of the client and the key, as bytes.

        Raises `MemcacheIllegalInputError` if it is empty, longer than 250 bytes, or contains a
        blank or a control character.
        """
        prefix = self.key_prefix if key_prefix is None else key_prefix
        if isinstance(key, str) and key.isascii():
            stored = prefix + key.encode() if prefix else key.encode()
        elif isinstance(key, bytes):
            stored = prefix + key
        else:
            stored = check_key_helper(key, self.allow_unicode_keys, prefix)
        if is_legal(stored) is None:
            check_key_helper(stored, True)
            raise MemcacheIllegalInputError("Key is empty")
        return stored

    # Requests.

    def _store_request(
        self,
        command: bytes,
        key: Key,
        value: Any,
        expire: int,
        noreply: bool,
        flags: int | None,
        cas: bytes | None = None,
    ) -> bytes:
        stored = self.check_key(key)
        data: Any = value
        item_flags = 0
        if self._is_tagged and command in (b"append", b"prepend"):
            # The item keeps its tag, so only raw bytes can be added to it.
            if not isinstance(value, (bytes, str)):
                raise TypeError(
                    f"{command.decode()} adds bytes or str to a value, found"
                    f" {type(value).__qualname__}"
                )
            data = value.encode() if isinstance(value, str) else value
        elif not self._is_plain:
            data, item_flags = self.serde.serialize(stored, value)
        if flags is not None:
            item_flags = flags
        if type(data) is not bytes:
            data = stored_bytes(data, self.encoding)
        if type(expire) is not int:
            check_integer(expire, "expire")
        if type(item_flags) is not int or not 0 <= item_flags <= MAX_FLAGS:
            raise MemcacheIllegalInputError(
                f"flags must be an integer from 0 to {MAX_FLAGS}, got {item_flags!r}"
            )
        end = b"" if cas is None else b" " + cas
        if noreply:
            end += b" noreply"
        return b"%b %b %d %d %d%b\r\n%b\r\n" % (
            command,
            stored,
            item_flags,
            expire,
            len(data),
            end,
            data,
        )

    def _delete_request(self, key: Key, noreply: bool) -> bytes:
        return b"delete %b%b\r\n" % (self.check_key(key), b" noreply" if noreply else b"")

    def _count_request(self, command: bytes, key: Key, delta: int, noreply: bool) -> bytes:
        stored = self.check_key(key)
        check_integer(delta, "value")
        return b"%b %b %d%b\r\n" % (command, stored, delta, b" noreply" if noreply else b"")

    def _touch_request(self, key: Key, expire: int, noreply: bool) -> bytes:
        stored = self.check_key(key)
        check_integer(expire, "expire")
        return b"touch %b %d%b\r\n" % (stored, expire, b" noreply" if noreply else b"")

    def _flush_request(self, delay: int, noreply: bool) -> bytes:
        check_integer(delay, "delay")
        return b"flush_all %d%b\r\n" % (delay, b" noreply" if noreply else b"")

    def _stats_request(self, args: Iterable[Key]) -> bytes:
        words = [b"stats", *(self.check_key(word, b"") for word in args)]
        return b" ".join(words) + b"\r\n"

    def _raw_request(self, command: bytes | str, end: bytes | str) -> tuple[bytes, bytes, bytes]:
        encoding = "utf8" if self.allow_unicode_keys else "ascii"
        if isinstance(command, str):
            command = command.encode(encoding)
        if isinstance(end, str):
            end = end.encode(encoding)
        return command + b"\r\n", command, end or b"\r\n"

    def _prefix_request(self, prefix: Key) -> bytes:
        return b"delete_prefix %b\r\n" % self.check_key(prefix)

    # Replies.

    def _decode(self, key: Key, stored: bytes, data: bytes, flags: int) -> Any:
        if self._is_plain:
            return data
        # Signatures contain the stored key; pymemcache's serdes receive the key of the caller.
        return self.serde.deserialize(stored if self._is_tagged else key, data, flags)

    def _decode_all(
        self, keys: Mapping[Key, bytes], hits: Mapping[bytes, Hit], has_cas: bool
    ) -> dict[Key, Any]:
        if self._is_plain and not has_cas:
            return {key: hits[stored][0] for key, stored in keys.items() if stored in hits}
        values: dict[Key, Any] = {}
        for key, stored in keys.items():
            hit = hits.get(stored)
            if hit is not None:
                data, flags, cas = hit
                value = self._decode(key, stored, data, flags)
                values[key] = (value, cas) if has_cas else value
        return values

    def _stored_keys(self, keys: Iterable[Key]) -> dict[Key, bytes]:
        return {key: self.check_key(key) for key in keys}


def prefix_bytes(key_prefix: bytes | str) -> bytes:
    """Returns a prefix of keys as bytes. Raises `TypeError` if it is neither bytes nor a `str`."""
    if isinstance(key_prefix, str):
        return key_prefix.encode("ascii")
    if not isinstance(key_prefix, bytes):
        raise TypeError(f"key_prefix should be bytes, found {type(key_prefix).__qualname__}")
    return key_prefix


def check_integer(value: int, name: str) -> None:
    """Raises `MemcacheIllegalInputError` if a number of a request is not an `int`."""
    if not isinstance(value, int):
        raise MemcacheIllegalInputError(f"{name} must be integer, got bad value: {value!r}")


def cas_bytes(cas: int | str | bytes) -> bytes:
    """Returns a cas token as decimal digits. Raises `MemcacheIllegalInputError` for others."""
    token: Any = cas
    if isinstance(token, (int, str)):
        token = str(token).encode("utf-8", "backslashreplace")
    if not isinstance(token, bytes):
        raise MemcacheIllegalInputError(
            f"cas must be integer, string, or bytes, got bad value: {cas!r}"
        )
    if not token.isdigit():
        raise MemcacheIllegalInputError(
            f"cas must only contain values in 0-9, got bad value: {cas!r}"
        )
    return token


def removal_result(stats: Mapping[bytes, Any], number: int) -> int | None:
    """Returns the number of removed items, or `None` if the removal is still running.

    Raises `MemcacheServerError` if it was cancelled or has failed, or if another removal has
    replaced it in the statistics, so that its result is unknown.
    """
    if stats.get(b"id") != number:
        raise MemcacheServerError(
            "the result of the removal by prefix is unknown: another removal has begun since"
        )
    state = stats.get(b"state")
    if state == b"running":
        return None
    removed = stats.get(b"removed")
    if state != b"done" or not isinstance(removed, int):
        raise MemcacheServerError(f"the removal by prefix did not complete: {state!r}")
    return removed


NO_PREFIXES = (
    "this server does not have delete_prefix: it is a memcached or a router; larderd has it"
)


def chunks(requests: list[bytes]) -> Iterable[list[bytes]]:
    """Splits requests into lists that are sent before their replies are read.

    A list has at most `BATCH_COMMANDS` requests and `BATCH_BYTES` bytes, or a single request.
    """
    part: list[bytes] = []
    size = 0
    for request in requests:
        if part and (len(part) == BATCH_COMMANDS or size + len(request) > BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(request)
        size += len(request)
    if part:
        yield part


class Picklable:
    """Pickles an object as its class and the arguments of its constructor.

    The unpickled object, in this process or another one, opens its own connections.
    """

    _arguments: dict[str, Any]

    def _keep_arguments(self, arguments: dict[str, Any]) -> None:
        # The arguments of a constructor: its locals() before any other statement.
        self._arguments = {
            name: value for name, value in arguments.items() if name not in ("self", "__class__")
        }

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = dict(self._arguments)
        module = arguments.get("socket_module")
        if isinstance(module, types.ModuleType):
            arguments["socket_module"] = _ModuleName(module.__name__)
        return _restore, (type(self), arguments)

    @classmethod
    def _restored(cls, arguments: dict[str, Any]) -> Self:
        return cls(**arguments)


class _ModuleName(str):
    """The name of a module in a pickle: modules cannot be pickled."""


def _restore(cls: type[Picklable], arguments: dict[str, Any]) -> Picklable:
    module = arguments.get("socket_module")
    if isinstance(module, _ModuleName):
        arguments["socket_module"] = importlib.import_module(module)
    return cls._restored(arguments)
