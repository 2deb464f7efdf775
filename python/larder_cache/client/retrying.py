"""`RetryingClient`: repeats failed requests of another client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

_ExceptionClasses = Collection[type[Exception]] | None


class RetryingClient:
    """Has the methods of a client, and repeats those that raise an exception.

    `attempts` is the number of calls in total, and `retry_delay` the seconds between them.
    `retry_for` limits the exceptions after which a call is repeated, and `do_not_retry_for`
    excludes some. Both are a tuple, set or list of exception classes.

    A call whose connection broke may be executed twice: this matters for `incr`, `append` and
    `prepend`. A change with `noreply` is not repeated unless it could not be sent.
    """

    def __init__(
        self,
        client: Any,
        attempts: int = 2,
        retry_delay: float = 0,
        retry_for: _ExceptionClasses = None,
        do_not_retry_for: _ExceptionClasses = None,
    ) -> None:
        if attempts < 1:
            raise ValueError(f"attempts is {attempts}, expected at least 1")
        self._client = client
        self._attempts = attempts
        self._retry_delay = retry_delay
        self._retry_for = _classes("retry_for", retry_for)
        self._do_not_retry_for = _classes("do_not_retry_for", do_not_retry_for)
        for both in set(self._retry_for) & set(self._do_not_retry_for):
            raise ValueError(f"{both.__name__} is in retry_for and in do_not_retry_for")
        self._client_dir = dir(client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self._client, name)
        if not callable(member):
            return member
        return lambda *args, **kwargs: self._retry(name, member, *args, **kwargs)

    def _retry(self, name: str, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        for attempt in range(1, self._attempts + 1):
            try:
                return func(*args, **kwargs)
            except Exception as error:
                is_last = attempt == self._attempts or name not in self._client_dir
                if is_last or not self._is_repeated_for(error):
                    raise
            time.sleep(self._retry_delay)
        raise AssertionError("the last attempt returns or raises")

    def _is_repeated_for(self, error: Exception) -> bool:
        if isinstance(error, self._do_not_retry_for):
            return False
        return not self._retry_for or isinstance(error, self._retry_for)

    def __dir__(self) -> list[str]:
        return self._client_dir

    # Items as in a dict: Python looks these methods up in the class.

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value, noreply=True)

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key: Any) -> None:
        self.delete(key, noreply=True)


def _classes(name: str, classes: Any) -> tuple[type[Exception], ...]:
    if classes is None:
        return ()
    if not isinstance(classes, (tuple, set, list)):
        raise ValueError(f"{name} is {classes!r}, expected a tuple, a set or a list")
    for item in classes:
        if not issubclass(item, Exception):
            raise ValueError(f"{name} contains {item!r}, expected subclasses of Exception")
    return tuple(classes)
