"""Hits that are read in the memory of a larderd on the same machine, without a request."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from .._errors import LarderError
from .protocol import Hit

if TYPE_CHECKING:
    from .._larder import LocalReader

LocalHit = tuple[bytes, int, int]
"""The value, the flags and the cas token of an item in the memory."""

_TIMEOUT = 5.0

# Seconds until a server that does not share its memory is asked again; they double each time. A
# near cache shares its memory as soon as it follows its origin.
_FIRST_RETRY_SECS, _LAST_RETRY_SECS = 0.1, 30.0


class LocalReads:
    """Reads items in the memory of the larderd at a unix socket, if it shares its memory.

    The first read opens the connection to the memory, and the first read after `resume()` opens it
    again.
    """

    def __init__(self, path: str, timeout: float | None) -> None:
        self._path = path
        self._timeout = _TIMEOUT if timeout is None else timeout
        self._opening = threading.Lock()
        self._reader: LocalReader | None = None
        # When the memory is opened, by the clock time.monotonic.
        self._due = 0.0
        self._retry_secs = _FIRST_RETRY_SECS
        self.is_suspended = False

    def get(self, key: bytes) -> LocalHit | None:
        """Returns value, flags and cas token of an item; `None` if the server must be asked."""
        reader = self._reader
        if reader is None:
            reader = self.open()
        return None if reader is None else reader.get(key)

    def get_many(self, keys: list[bytes]) -> list[LocalHit | None]:
        """Returns the result of `get` for each of the keys."""
        reader = self._reader
        if reader is None:
            reader = self.open()
        return [None] * len(keys) if reader is None else reader.get_many(keys)

    def reads_memory(self) -> bool:
        """True if items are currently read in the memory."""
        reader = self._reader
        if reader is None:
            reader = self.open()
        return reader is not None and reader.reads_memory()

    @property
    def is_due(self) -> bool:
        """True if the next read opens the memory, which may block up to the timeout."""
        return self._reader is None and time.monotonic() >= self._due

    def suspend(self) -> None:
        """Reads nothing until `resume()`, because the server cannot be reached."""
        self._reader = None
        self._due = math.inf
        self.is_suspended = True

    def resume(self) -> None:
        """Lets the next read open the memory again, because the server may be another one."""
        self._reader = None
        self._due = 0.0
        self._retry_secs = _FIRST_RETRY_SECS
        self.is_suspended = False

    close = resume

    def open(self) -> LocalReader | None:
        """Opens the memory if that is due. Returns `None` if the server does not share it.

        May block up to the timeout.
        """
        if not self.is_due:
            return self._reader
        from .._larder import LocalReader

        with self._opening:
            if not self.is_due:
                return self._reader
            self._due = time.monotonic() + self._retry_secs
            self._retry_secs = min(2 * self._retry_secs, _LAST_RETRY_SECS)
            try:
                reader = LocalReader(self._path, self._timeout)
            except (LarderError, OSError):
                # The request that follows on the socket reports a server that is away.
                return None
            if reader.reads_memory():
                self._reader = reader
            return self._reader

    def after_fork(self) -> None:
        """Gives a forked child its own connection and lock."""
        self._opening = threading.Lock()
        self.resume()


def local_hit(found: LocalHit, has_cas: bool) -> Hit:
    """Returns a hit in the memory in the form of a response."""
    data, flags, cas = found
    return data, flags, b"%d" % cas if has_cas else None
