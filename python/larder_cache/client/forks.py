"""Forked children: they must not use the sockets of their parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object with sockets."""

    def _after_fork(self) -> None:
        """Drops the sockets and locks of the parent. Runs in the child, before any other thread."""


_OBJECTS: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register(forkable: Forkable) -> None:
    """Calls `_after_fork` of this object in each forked child, as long as the object exists."""
    _OBJECTS.add(forkable)


def _after_fork_in_child() -> None:
    for forkable in list(_OBJECTS):
        forkable._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
