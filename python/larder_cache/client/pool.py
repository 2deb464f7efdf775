"""A pool of objects, such as the connections of a `PooledClient`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_NO_LIMIT = 2**31


class ObjectPool(Generic[T]):
    """Lends objects, each to one user at a time, and creates them as needed.

    The object that was used last is lent first. `max_size` bounds the number of objects in use;
    0 and `None` mean no bound. If all are in use, `get` waits up to `wait` seconds, then raises
    `RuntimeError`. Objects that were not used for `idle_timeout` seconds are removed by the next
    `get`; with 0 they stay. `after_remove` is called with each removed object.
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
        self._returned = threading.Condition((lock_generator or threading.Lock)())
        self._used: list[T] = []
        # The free objects, and when each was returned. The last one was returned last.
        self._free: deque[tuple[T, float]] = deque()
        # Without a timeout no time passes.
        self._idle_clock: Callable[[], float] = time.monotonic if idle_timeout else float

    @property
    def used(self) -> tuple[T, ...]:
        """The objects in use."""
        return tuple(self._used)

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

    def get(self, preferred: Collection[T] = ()) -> T:
        """Lends an object; one of the preferred ones if it is free.

        Raises `RuntimeError` if `max_size` objects stay in use.
        """
        removed: list[T] = []
        try:
            with self._returned:
                oldest = self._idle_clock() - self.idle_timeout
                while self._free and self._free[0][1] < oldest:
                    removed.append(self._free.popleft()[0])
                obj = self._free_one(preferred)
                self._used.append(obj)
                return obj
        finally:
            self._removed(removed)

    def _free_one(self, preferred: Collection[T]) -> T:
        if not self._free and len(self._used) >= self.max_size:
            is_free = self._returned.wait_for(
                lambda: self._free or len(self._used) < self.max_size, self._wait
            )
            if not is_free:
                raise RuntimeError(f"Too many objects, {len(self._used)} >= {self.max_size}")
        if not self._free:
            return self._create()
        if preferred:
            for entry in self._free:
                if entry[0] in preferred:
                    self._free.remove(entry)
                    return entry[0]
        return self._free.pop()[0]

    def release(self, obj: T, silent: bool = True) -> None:
        """Returns an object. An unknown one is an error (`ValueError`) unless `silent`."""
        with self._returned:
            if self._forget(obj, silent):
                self._free.append((obj, self._idle_clock()))
                self._returned.notify()

    def destroy(self, obj: T, silent: bool = True) -> None:
        """Removes an object in use. An unknown one is an error (`ValueError`) unless `silent`."""
        with self._returned:
            is_known = self._forget(obj, silent)
            self._returned.notify()
        if is_known:
            self._removed([obj])

    def clear(self) -> None:
        """Removes all objects."""
        with self._returned:
            removed = [*self._used, *self.free]
            self._used.clear()
            self._free.clear()
            self._returned.notify_all()
        self._removed(removed)

    def _forget(self, obj: T, silent: bool) -> bool:
        try:
            self._used.remove(obj)
        except ValueError:
            if not silent:
                raise
            return False
        return True

    def _removed(self, objs: list[T]) -> None:
        if self._after_remove is not None:
            for obj in objs:
                self._after_remove(obj)
