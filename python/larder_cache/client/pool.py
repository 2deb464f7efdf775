"""A pool of objects, such as the connections of a `PooledClient`."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_NO_LIMIT = 2**31


class ObjectPool(Generic[T]):
    """Lends objects, each to one user at a time, and creates them as needed.

    The object that was used last is lent first. `max_size` bounds the number of objects in use;
    0 and `None` mean no bound. If all are in use, `get` waits up to `wait` seconds, then raises
    `RuntimeError`. Objects that were not used for `idle_timeout` seconds are removed by the next
    `get`; with 0 they stay. `after_remove` is called with each removed object.

    An object in use that no longer exists is not counted, so a user that a signal handler
    interrupts keeps no place. Objects need weak references.
    """

    def __init__(
        self,
        obj_creator: Callable[[], T],
        after_remove: Callable[[T], Any] | None = None,
        max_size: int | None = None,
        idle_timeout: float = 0,
        lock_generator: Callable[[], Any] | None = None,
        wait: float = 0,
    ) -> None:
        max_size = max_size or _NO_LIMIT
        if not isinstance(max_size, int) or max_size < 0:
            raise ValueError(f'"max_size" must be a positive integer, found {max_size!r}')
        self.max_size = max_size
        self.idle_timeout = idle_timeout
        self._wait = wait
        self._create = obj_creator
        self._after_remove = after_remove
        # Not a Condition: a signal handler that raises may leave the lock of a Condition locked.
        self._lock = (lock_generator or threading.Lock)()
        # Weak, because an exception of a signal handler may prevent `release`.
        self._used: list[weakref.ref[T]] = []
        # The free objects, and when each was returned. The last one was returned last.
        self._free: deque[tuple[T, float]] = deque()
        # A locked lock of each waiting thread. The next change releases all of them.
        self._waiters: list[threading.Lock] = []
        # Without a timeout no time passes.
        self._idle_clock: Callable[[], float] = time.monotonic if idle_timeout else float

    @property
    def used(self) -> tuple[T, ...]:
        """The objects in use."""
        return tuple(obj for one in self._used if (obj := one()) is not None)

    @property
    def free(self) -> tuple[T, ...]:
        """The objects that are not in use."""
        return tuple(obj for obj, _ in self._free)

    @contextlib.contextmanager
    def get_and_release(self, destroy_on_fail: bool = False) -> Iterator[T]:
        """Lends an object to a `with` block. `destroy_on_fail` removes it if the block raises."""
        obj = self.get()
        try:
            yield obj
        except BaseException:
            if destroy_on_fail:
                self.destroy(obj)
            else:
                self.release(obj)
            raise
        self.release(obj)

    def get(self, is_preferred: Callable[[T], bool] | None = None) -> T:
        """Lends an object; one that `is_preferred` selects if it is free.

        Raises `RuntimeError` if `max_size` objects stay in use.
        """
        deadline: float | None = None
        while True:
            removed: list[T] = []
            waiter: threading.Lock | None = None
            try:
                with self._lock:
                    oldest = self._idle_clock() - self.idle_timeout
                    while self._free and self._free[0][1] < oldest:
                        removed.append(self._free.popleft()[0])
                    if self._free or self._may_create():
                        obj = self._take(is_preferred) if self._free else self._create()
                        self._used.append(weakref.ref(obj))
                        return obj
                    now = time.monotonic()
                    deadline = now + self._wait if deadline is None else deadline
                    if now >= deadline:
                        count = len(self._used)
                        raise RuntimeError(f"Too many objects, {count} >= {self.max_size}")
                    waiter = threading.Lock()
                    waiter.acquire()
                    self._waiters.append(waiter)
            finally:
                self._remove(removed)
            self._await(waiter, deadline - now)

    def _may_create(self) -> bool:
        # Objects are created rarely: this is the time to forget those that no longer exist.
        self._used = [one for one in self._used if one() is not None]
        return len(self._used) < self.max_size

    def _take(self, is_preferred: Callable[[T], bool] | None) -> T:
        if is_preferred is not None:
            for entry in self._free:
                if is_preferred(entry[0]):
                    self._free.remove(entry)
                    return entry[0]
        return self._free.pop()[0]

    def _await(self, waiter: threading.Lock, timeout: float) -> None:
        # Waits until an object is returned or removed.
        try:
            waiter.acquire(timeout=timeout)
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _wake(self) -> None:
        # Wakes all threads, since an interrupted one does not pass the object on.
        while self._waiters:
            self._waiters.pop().release()

    def release(self, obj: T, silent: bool = True) -> None:
        """Returns an object. An unknown one is an error (`ValueError`) unless `silent`."""
        with self._lock:
            if self._forget(obj, silent):
                self._free.append((obj, self._idle_clock()))
                self._wake()

    def destroy(self, obj: T, silent: bool = True) -> None:
        """Removes an object in use. An unknown one is an error (`ValueError`) unless `silent`."""
        with self._lock:
            is_known = self._forget(obj, silent)
            self._wake()
        if is_known:
            self._remove([obj])

    def clear(self) -> None:
        """Removes all objects."""
        with self._lock:
            removed = [*self.used, *self.free]
            self._used.clear()
            self._free.clear()
            self._wake()
        self._remove(removed)

    def _forget(self, obj: T, silent: bool) -> bool:
        try:
            self._used.remove(weakref.ref(obj))
        except ValueError:
            if not silent:
                raise
            return False
        return True

    def _remove(self, objs: list[T]) -> None:
        if self._after_remove is not None:
            for obj in objs:
                self._after_remove(obj)
