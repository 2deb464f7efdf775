"""memcached's text protocol without I/O: the bytes of requests, and parsers of replies.

A parser receives the bytes of a connection in pieces of any length. It allocates memory only for
bytes that have arrived: a length that the server announces is never trusted.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable
from typing import Any

from .exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheServerError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
)
from .keys import MAX_KEY_BYTES

Hit = tuple[bytes, int, bytes | None]
"""The value, the flags and, if the command was `gets` or `gats`, the cas token of an item."""

# A value is at most 1 GiB, the upper bound of the option -I of the servers.
MAX_VALUE_BYTES = 1 << 30
# Longest line of a reply. No server sends lines of this length.
MAX_LINE_BYTES = 64 * 1024
# Most lines of a reply with statistics; `stats cachedump` has up to 2 MiB of them.
MAX_STAT_LINES = 1_000_000

# A request waits for its replies after this many commands, or bytes. Otherwise client and server
# could both wait until the other one reads: a server that cannot send its replies stops reading. A
# request of this length fits into the buffer of a socket.
BATCH_COMMANDS = 1000
BATCH_BYTES = 64 * 1024
BATCH_KEY_BYTES = 16 * 1024

# The number of bytes that one call receives.
RECV_BYTES = 8 * 1024
_MAX_RECV_BYTES = 1024 * 1024


def error_of(line: bytes, command: bytes) -> MemcacheError | None:
    """Returns the exception for a line, or `None` if the line is not an error."""
    if b"ERROR" not in line[:12]:
        return None
    if line.startswith(b"ERROR"):
        text = line[6:].decode("ascii", "backslashreplace")
        name = command.decode("ascii", "backslashreplace")
        return MemcacheUnknownCommandError(f"{name}: {text}" if text else name)
    kind, _, text_bytes = line.partition(b" ")
    text = text_bytes.decode("utf-8", "backslashreplace")
    if kind == b"CLIENT_ERROR":
        return MemcacheClientError(text)
    if kind.rstrip(b":") == b"SERVER_ERROR":
        return MemcacheServerError(text)
    return None


def unknown(line: bytes) -> MemcacheUnknownError:
    """Returns the exception for a line that does not belong to the protocol."""
    return MemcacheUnknownError(f"unexpected response {line[:32]!r}")


class Reply(ABC):
    """Parses one reply. `error` is set if the reply is complete and is an error."""

    # Most replies need only one call of `feed`, and leave these values as they are.
    error: MemcacheError | None = None
    _tail = b""

    def __init__(self, command: bytes) -> None:
        self.command = command

    @property
    def wanted(self) -> int:
        """The number of bytes to receive next."""
        return RECV_BYTES

    @abstractmethod
    def feed(self, data: bytes, pos: int) -> int:
        """Parses `data` from `pos` on. Returns the position after the reply, or -1 if the reply
        continues after `data`.

        Raises `MemcacheUnknownError` if the bytes are not a reply. The stream is then unusable.
        """

    @abstractmethod
    def result(self) -> Any:
        """Returns the content of a complete reply. Raises `error` if it is set."""

    def _line(self, data: bytes, pos: int) -> tuple[bytes | None, int]:
        # Returns a line without its end, and the position after it.
        end = data.find(b"\n", pos)
        if end < 0:
            self._tail += data[pos:]
            self._check_length(self._tail)
            return None, len(data)
        line = data[pos:end]
        if self._tail:
            line = self._tail + line
            self._tail = b""
        self._check_length(line)
        if not line.endswith(b"\r"):
            raise unknown(line)
        return line[:-1], end + 1

    @staticmethod
    def _check_length(line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            raise MemcacheUnknownError(
                f"a line of the response exceeds {MAX_LINE_BYTES} bytes: {line[:32]!r}"
            )


_STORED: dict[bytes, Any] = {b"STORED": True, b"NOT_STORED": False}
# The results of the lines that answer a command.
_RESULTS: dict[bytes, dict[bytes, Any]] = {
    b"set": _STORED,
    b"add": _STORED,
    b"replace": _STORED,
    b"append": _STORED,
    b"prepend": _STORED,
    b"cas": {b"STORED": True, b"EXISTS": False, b"NOT_FOUND": None},
    b"delete": {b"DELETED": True, b"NOT_FOUND": False},
    b"touch": {b"TOUCHED": True, b"NOT_FOUND": False},
    b"incr": {b"NOT_FOUND": None},
    b"decr": {b"NOT_FOUND": None},
    b"cache_memlimit": {b"OK": True},
    b"flush_all": {b"OK": True},
}
_NO_RESULTS: dict[bytes, Any] = {}
_COUNTS = (b"incr", b"decr")


def _number(line: bytes) -> int | None:
    # The value of a counter. A server pads a shorter number with spaces.
    digits = line.rstrip(b" ")
    return int(digits) if digits.isdigit() and len(digits) <= 20 else None


def _removal(line: bytes) -> int | None:
    # The number of a removal by prefix.
    kind, _, number = line.partition(b" ")
    return _number(number) if kind == b"OK" else None


# The results of other lines, or None if the line is not valid.
_PARSERS: dict[bytes, Callable[[bytes], Any]] = {
    b"incr": _number,
    b"decr": _number,
    b"delete_prefix": _removal,
    b"version": lambda line: line[8:] if line.startswith(b"VERSION ") else None,
    # pymemcache returns False for any other line.
    b"flush_all": lambda line: False,
}


class LinesReply(Reply):
    """A line for each of several commands. The result is the list of their results."""

    def __init__(self, command: bytes, count: int = 1) -> None:
        self.command = command
        self._count = count
        self._results: list[Any] = []

    def feed(self, data: bytes, pos: int) -> int:
        results = _RESULTS.get(self.command, _NO_RESULTS)
        while True:
            end = data.find(b"\r\n", pos)
            if end >= 0 and not self._tail:
                line = data[pos:end]
                pos = end + 2
            else:
                complete, pos = self._line(data, pos)
                if complete is None:
                    return -1
                line = complete
            self._results.append(results[line] if line in results else self._other(line))
            if len(self._results) == self._count:
                return pos

    def result(self) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self._results

    def _other(self, line: bytes) -> Any:
        # Returns the result of a line that is not a word of the protocol.
        if line.isdigit() and len(line) <= 20 and self.command in _COUNTS:
            return int(line)
        error = error_of(line, self.command)
        if error is not None:
            self.error = self.error or error
            return None
        parser = _PARSERS.get(self.command)
        result = None if parser is None else parser(line)
        if result is None:
            raise unknown(line)
        return result


# The line before a value. Longer numbers are refused: a value has at most 1 GiB, flags have 32
# bits, cas tokens 64.
_VALUE = re.compile(
    rb"VALUE ([^ \r\n]{1,250}) ([0-9]{1,10}) ([0-9]{1,10})(?: ([0-9]{1,20}))?\r\n"
).match


class ValuesReply(Reply):
    """The items of a `get`. The result maps their keys to values, flags and cas tokens."""

    # A value that has not arrived completely: its key, flags and cas token, its pieces, and the
    # number of bytes that are missing.
    _header: tuple[bytes, int, bytes | None]
    _pieces: list[bytes]
    _missing = 0

    def __init__(self, command: bytes, keys: Container[bytes], has_cas: bool) -> None:
        self.command = command
        self._keys = keys
        self._has_cas = has_cas
        self._hits: dict[bytes, Hit] = {}

    @property
    def wanted(self) -> int:
        return min(max(self._missing, RECV_BYTES), _MAX_RECV_BYTES)

    def feed(self, data: bytes, pos: int) -> int:
        if self._missing:
            pos = self._resume(data, pos)
            if pos < 0:
                return -1
        if self._tail:
            # Begins again at the line that was not complete.
            tail, self._tail = self._tail, b""
            end = self.feed(tail + data[pos:], 0)
            return end if end < 0 else end - len(tail) + pos
        hits = self._hits
        while True:
            found = _VALUE(data, pos)
            if found is None:
                break
            key, flags, size, cas = found.groups()
            start = found.end()
            end = start + int(size)
            if (
                data[end : end + 2] != b"\r\n"
                or key not in self._keys
                or (cas is not None) is not self._has_cas
            ):
                self._begin(data, start, key, int(flags), int(size), cas)
                return -1
            hits[key] = data[start:end], int(flags), cas
            pos = end + 2
        if data.startswith(b"END\r\n", pos):
            return pos + 5
        line, end = self._line(data, pos)
        if line is None:
            return -1
        self.error = error_of(line, self.command)
        if self.error is None:
            raise unknown(line)
        return end

    def result(self) -> dict[bytes, Hit]:
        if self.error is not None:
            raise self.error
        return self._hits

    def _begin(
        self, data: bytes, start: int, key: bytes, flags: int, size: int, cas: bytes | None
    ) -> None:
        # Begins a value that has not arrived completely. Other values are errors.
        if (cas is not None) is not self._has_cas:
            raise MemcacheUnknownError(f"the value of {key!r} has a wrong number of words")
        if key not in self._keys:
            raise MemcacheUnknownError(f"the response contains {key!r}, which was not requested")
        if size > MAX_VALUE_BYTES:
            raise MemcacheUnknownError(
                f"the response announces a value of {size} bytes, expected at most"
                f" {MAX_VALUE_BYTES}"
            )
        self._header = key, flags, cas
        self._pieces = [data[start:]]
        self._missing = start + size + 2 - len(data)
        if self._missing <= 0:
            raise MemcacheUnknownError(f"the value of {key!r} does not end after {size} bytes")

    def _resume(self, data: bytes, pos: int) -> int:
        # Continues a value. Returns the position after it, or -1.
        end = pos + self._missing
        piece = data[pos:end]
        self._missing -= len(piece)
        self._pieces.append(piece)
        if self._missing:
            return -1
        key, flags, cas = self._header
        value = b"".join(self._pieces)
        self._pieces = []
        if not value.endswith(b"\r\n"):
            raise MemcacheUnknownError(
                f"the value of {key!r} does not end after {len(value) - 2} bytes"
            )
        self._hits[key] = value[:-2], flags, cas
        return end


class StatsReply(Reply):
    """The lines of `stats`. The result maps the names of the statistics to their values."""

    def __init__(self, command: bytes) -> None:
        super().__init__(command)
        self._stats: dict[bytes, bytes] = {}

    @property
    def wanted(self) -> int:
        return 8 * RECV_BYTES

    def feed(self, data: bytes, pos: int) -> int:
        while True:
            line, pos = self._line(data, pos)
            if line is None:
                return -1
            if line in (b"END", b"OK", b"RESET"):
                return pos
            kind, _, rest = line.partition(b" ")
            if kind not in (b"STAT", b"ITEM", b"PREFIX"):
                self.error = error_of(line, self.command)
                if self.error is None:
                    raise unknown(line)
                return pos
            name, _, value = rest.partition(b" ")
            self._stats[name] = value
            if len(self._stats) > MAX_STAT_LINES:
                raise MemcacheUnknownError(f"more than {MAX_STAT_LINES} statistics")

    def result(self) -> dict[bytes, bytes]:
        if self.error is not None:
            raise self.error
        return self._stats


class SegmentReply(Reply):
    """All bytes up to an end that the caller states. The result is these bytes."""

    def __init__(self, command: bytes, end: bytes) -> None:
        super().__init__(command)
        self._end = end
        self._data = bytearray()

    @property
    def wanted(self) -> int:
        return 8 * RECV_BYTES

    def feed(self, data: bytes, pos: int) -> int:
        before = len(self._data)
        self._data += data[pos:]
        # The end may have begun in an earlier piece.
        found = self._data.find(self._end, max(0, before - len(self._end) + 1))
        after = found + len(self._end)
        first_line = self._data.find(b"\r\n", 0, MAX_LINE_BYTES)
        if first_line >= 0:
            self.error = error_of(bytes(self._data[:first_line]), self.command)
        if self.error is not None:
            # An error is one line, whatever the end of the expected response is.
            after = first_line + 2
        elif found < 0:
            return -1
        else:
            del self._data[found:]
        return pos + after - before

    def result(self) -> bytes:
        if self.error is not None:
            raise self.error
        return bytes(self._data)


def batches(keys: Collection[bytes]) -> Iterable[Collection[bytes]]:
    """Splits keys into lists that fit into one request each."""
    if len(keys) * (MAX_KEY_BYTES + 1) <= BATCH_KEY_BYTES:
        return (keys,) if keys else ()
    return _split(keys)


def _split(keys: Iterable[bytes]) -> Iterable[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for key in keys:
        if size + len(key) > BATCH_KEY_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += len(key) + 1
    if batch:
        yield batch


# Statistics whose values are not integers.
def _bool(value: bytes) -> bool:
    return int(value) != 0


def _seconds(value: bytes) -> float:
    return float(value.replace(b":", b"."))


_STAT_TYPES: dict[bytes, Any] = {
    b"version": bytes,
    b"inter": bytes,
    b"stat_key_prefix": bytes,
    b"rusage_user": _seconds,
    b"rusage_system": _seconds,
    b"growth_factor": float,
    b"umask": lambda value: int(value, 8),
    b"auth_enabled_sasl": lambda value: value == b"yes",
    b"hash_is_expanding": _bool,
    b"slab_reassign_running": _bool,
    b"detail_enabled": _bool,
    b"cas_enabled": _bool,
    b"maxconns_fast": _bool,
    b"slab_reassign": _bool,
    b"slab_automove": _bool,
}


def typed_stats(stats: dict[bytes, bytes]) -> dict[bytes, Any]:
    """Converts the values of statistics to `int`, `float` or `bool` where they have that form.
    The others stay bytes."""
    typed: dict[bytes, Any] = {}
    for name, value in stats.items():
        try:
            typed[name] = _STAT_TYPES.get(name, int)(value)
        except ValueError:
            typed[name] = value
    return typed
