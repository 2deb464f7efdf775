"""Loads: one caller computes the value of a key while the other callers wait for it.

Callers are threads and tasks of all processes that share the cache. The caller that takes the
key's lease is the leader, and calls its loader. All others wait: they look for the value, and for
the lease, after 1, 2, 4 … up to 50 milliseconds. Tasks wait by a timer of their event loop.

The lease ends with the load. It also ends if the leader is cancelled or its process is killed:
then the next caller that looks becomes the leader. If the loader raises an exception, the leader
leaves a note before it ends the lease. A caller that began before that moment raises the
exception, a later one loads again. Threads and tasks of the leader's process receive the exception
itself, other processes a `LoadError` with its type and message.

`crates/models/src/load` searches all orders of these steps, and shows that each rule is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._errors import LoadError, SerializerError, StoreError

if TYPE_CHECKING:
    from ._cache import Cache
    from ._larder import Lease, Load

T = TypeVar("T")

_FIRST_PAUSE_SECS = 0.001
_LONGEST_PAUSE_SECS = 0.05

# How long a loader waits for the value of another key. The wait is short because two loaders may
# wait for each other's values.
_NESTED_WAIT_SECS = 1.0

# Waiting callers read the note of a failed load within this time.
_NOTE_SECS = 2
_MESSAGE_MAX = 1000

# The loads around the current code. A task that a loader starts has them as well, also after they
# are over, so each load knows whether it is in progress.
_loading: ContextVar[tuple[weakref.ref[Leader[Any]], ...]] = ContextVar(
    "larder_loading", default=()
)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of a load. All times are in seconds.

    `stale` is the part at the end of an item's life, after `ttl`, in which one caller refreshes
    the value while the others receive the old one. `lease` is the longest time that other callers
    wait for a loader that neither returns nor fails. A caller that has waited for `wait` seconds
    computes the value itself.
    """

    ttl: int | None
    stale: int
    lease: float
    wait: float

    @property
    def lifetime(self) -> int | None:
        """The time to live of the item, with the time in which it is stale."""
        return None if self.ttl is None else self.ttl + self.stale


@dataclass(frozen=True, slots=True)
class Hit(Generic[T]):
    """A value that no loader has to compute."""

    value: T


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed load. The time is that of `time.monotonic_ns`, which all processes share."""

    failed_ns: int
    error: Exception
    # Of the loader. Each caller that raises the exception would add its own frames to it.
    traceback: TracebackType | None = None


class Failures:
    """The failed loads of the last seconds, in this process and, by notes in the cache, in
    others."""

    def __init__(self) -> None:
        self._of_this_process: dict[bytes, Failure] = {}

    def record(self, cache: Cache, key: bytes, error: Exception) -> None:
        failure = Failure(time.monotonic_ns(), error, error.__traceback__)
        # In the order of their times, for `forget_old`.
        self._of_this_process.pop(key, None)
        self._of_this_process[key] = failure
        if cache.is_shared:
            _write_note(cache, key, failure)

    def since(self, cache: Cache, key: bytes, began_ns: int) -> Exception | None:
        """Returns the error of the last load of a key that failed after that time."""
        failure = self._of_this_process.get(key)
        if failure is not None and began_ns <= failure.failed_ns:
            return failure.error.with_traceback(failure.traceback)
        failure = _read_note(cache, key) if cache.is_shared else None
        if failure is not None and began_ns <= failure.failed_ns:
            return failure.error
        return None

    def forget_old(self) -> None:
        """Drops the exceptions of failures that no caller waits for any more."""
        oldest = time.monotonic_ns() - _NOTE_SECS * 1_000_000_000
        # Another thread may change the dict in the middle; then it is cleaned up next time.
        with contextlib.suppress(RuntimeError):
            while self._of_this_process:
                key, failure = next(iter(self._of_this_process.items()))
                if failure.failed_ns >= oldest:
                    return
                self._of_this_process.pop(key, None)


def _note_key(key: bytes) -> bytes:
    return b"larder.failed." + hashlib.sha256(key).hexdigest()[:32].encode()


def _write_note(cache: Cache, key: bytes, failure: Failure) -> None:
    error = failure.error
    text = f"{type(error).__qualname__}\n{error}"[:_MESSAGE_MAX]
    note = f"{failure.failed_ns}\n{text}"
    try:
        cache.set(_note_key(key), note.encode(errors="replace"), ttl=_NOTE_SECS)
    except StoreError:
        # Without memory for the note, callers of other processes load the value themselves.
        return


def _read_note(cache: Cache, key: bytes) -> Failure | None:
    note = cache.get(_note_key(key))
    if not isinstance(note, bytes):
        return None
    failed, _, text = note.decode(errors="replace").partition("\n")
    if not (failed.isascii() and failed.isdecimal() and len(failed) < 20):
        return None
    name, _, message = text.partition("\n")
    error = LoadError(f"the loader in another process failed: {name}: {message}", name)
    return Failure(int(failed), error)


class Leader(Generic[T]):
    """The caller that computes a value. `finish`, `fail` or `abandon` ends the load."""

    def __init__(self, cache: Cache, key: bytes, options: LoadOptions, lease: Lease | None) -> None:
        self._cache = cache
        self._key = key
        self._options = options
        self._lease = lease
        # The old value, if one caller refreshes it.
        self.stale: Hit[T] | None = None
        self.is_over = False
        self.thread = threading.get_ident()
        self._load = self._begin_load()
        cache._leaders[key] = self

    def _begin_load(self) -> Load | None:
        try:
            return self._cache._begin_load(self._key, max(1, int(self._options.lease)))
        except StoreError:
            # Without memory the value cannot be stored either, but the caller receives it.
            return None

    def concerns(self, cache: Cache, key: bytes) -> bool:
        """True if this is a load of that key, and in progress."""
        return not self.is_over and self._cache is cache and self._key == key

    def finish(self, value: T) -> None:
        """Stores the value, unless the key has changed since the load began."""
        self.is_over = True
        try:
            if self._load is not None:
                self._load.finish(value, self._options.lifetime)
        except StoreError:
            # The caller receives the value although it is too large or there is no memory. The
            # statistics of the cache count it.
            self._load = None
        self._end()

    def fail(self, error: BaseException) -> T:
        """Ends the load without a value. Returns the old value if the loader has failed and there
        is one, and raises the error otherwise.

        A cancelled load leaves no note, so that a waiting caller takes over.
        """
        self.is_over = True
        try:
            if isinstance(error, Exception):
                self._cache._failures.record(self._cache, self._key, error)
        finally:
            self.abandon()
        if self.stale is not None and isinstance(error, Exception):
            return self.stale.value
        raise error

    def abandon(self) -> None:
        """Ends the load without a value and without a note."""
        self.is_over = True
        try:
            if self._load is not None:
                self._load.cancel()
        finally:
            self._end()

    def _end(self) -> None:
        if self._lease is None:
            return
        try:
            self._lease.release()
        except StoreError:
            # A stopped process holds a lock. The lease ends by itself when its time is over.
            return


class Caller(Generic[T]):
    """A caller that needs the value of a key."""

    def __init__(self, cache: Cache, key: str | bytes, options: LoadOptions) -> None:
        self._cache = cache
        self._key = key.encode(errors="surrogateescape") if isinstance(key, str) else key
        self._options = options
        self._began_ns = time.monotonic_ns()
        self._pause = _FIRST_PAUSE_SECS
        around = [leader for ref in _loading.get() if (leader := ref()) and not leader.is_over]
        self._wait = min(options.wait, _NESTED_WAIT_SECS) if around else options.wait
        self._is_recursive = any(leader.concerns(cache, self._key) for leader in around)
        cache._failures.forget_old()

    def attempt(self) -> Hit[T] | Leader[T] | None:
        """Returns the value, or the leader if this caller has to compute it. None: another caller
        computes it, so try again after a pause.

        Raises the error of the load that this caller has been waiting for.
        """
        found = self._look()
        if found is not None and found[1]:
            return Hit(found[0])
        if self._is_recursive:
            raise RecursionError(
                f"the loader of {self._key!r} waits for itself: it requests the same key"
            )
        lease = self._take_lease()
        if lease is None and time.monotonic_ns() - self._began_ns < self._wait * 1e9:
            if found is not None:
                return Hit(found[0])
            self._raise_error()
            return None
        try:
            # Only after the lease was taken: a leader leaves its note before it ends its lease.
            if found is None:
                self._raise_error()
            return self._lead(lease)
        except BaseException:
            if lease is not None:
                lease.release()
            raise

    def _look(self) -> tuple[Any, bool] | None:
        """Returns the value, and True if it is fresh. A value that cannot be read, for example
        because its class has another name now, is a miss: the load replaces it."""
        try:
            return self._cache._get_fresh(self._key, self._options.stale)
        except SerializerError as error:
            warnings.warn(f"the value is loaded again: {error}", RuntimeWarning, stacklevel=6)
            return None

    def pause(self) -> None:
        """Waits before the next attempt. If the leader is a task of this thread's event loop, the
        next attempt computes the value, because the task cannot continue while the thread waits."""
        leader = self._cache._leaders.get(self._key)
        if (
            leader is not None
            and leader.thread == threading.get_ident()
            and leader.concerns(self._cache, self._key)
        ):
            self._wait = 0.0
        else:
            time.sleep(self.next_pause())

    def _raise_error(self) -> None:
        """Raises the error of a load that failed after this caller began."""
        error = self._cache._failures.since(self._cache, self._key, self._began_ns)
        if error is not None:
            raise error

    def _take_lease(self) -> Lease | None:
        try:
            return self._cache.lease(self._key, self._options.lease)
        except StoreError:
            # Without memory for a lease, each caller computes the value.
            self._wait = 0.0
            return None

    def _lead(self, lease: Lease | None) -> Hit[T] | Leader[T]:
        leader: Leader[T] = Leader(self._cache, self._key, self._options, lease)
        # The last leader may have stored the value after this caller looked for it.
        found = self._look()
        if found is None:
            return leader
        if found[1]:
            leader.abandon()
            return Hit(found[0])
        leader.stale = Hit(found[0])
        return leader

    def next_pause(self) -> float:
        """Returns the seconds to wait before the next attempt."""
        pause = self._pause
        self._pause = min(2 * pause, _LONGEST_PAUSE_SECS)
        return pause


def load(cache: Cache, key: str | bytes, loader: Callable[[], T], options: LoadOptions) -> T:
    """Returns the value of a key; on a miss, the result of `loader`."""
    caller: Caller[T] = Caller(cache, key, options)
    while (found := caller.attempt()) is None:
        caller.pause()
    if isinstance(found, Hit):
        return found.value
    around = _loading.get()
    try:
        _loading.set((*around, weakref.ref(found)))
        value = loader()
        found.finish(value)
        return value
    except BaseException as error:
        return found.fail(error)
    finally:
        _loading.set(around)


async def load_async(
    cache: Cache, key: str | bytes, loader: Callable[[], Awaitable[T]], options: LoadOptions
) -> T:
    """Same as `load`, with a loader whose result is awaited."""
    caller: Caller[T] = Caller(cache, key, options)
    while (found := caller.attempt()) is None:
        await asyncio.sleep(caller.next_pause())
    if isinstance(found, Hit):
        return found.value
    around = _loading.get()
    try:
        _loading.set((*around, weakref.ref(found)))
        value = await loader()
        found.finish(value)
        return value
    except BaseException as error:
        return found.fail(error)
    finally:
        _loading.set(around)
