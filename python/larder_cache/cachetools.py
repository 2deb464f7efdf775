"""A cache for the decorators of cachetools, in memory that processes share.

    squares = LarderMapping(Cache(shared="/dev/shm/mysite"), "squares:", ttl=60)

    @cachetools.cached(cache=squares)
    def square(number: int) -> int: ...

This module does not import cachetools. For new code `Cache.cached` is better: of all callers that
need a value at the same time, one computes it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, MutableMapping
from typing import Any

from ._cache import Cache, Key, Ttl
from ._errors import StoreError
from ._larder import encode, key_of_arguments


class LarderMapping(MutableMapping[Hashable, Any]):
    """A part of a cache as a mapping with the attributes of `cachetools.Cache`.

    `prefix` distinguishes the mappings of a cache: give each decorated function its own. `ttl` is
    the time to live of its items, by default that of the cache.

    Keys are `str`, `bytes`, `int`, `float`, `bool`, `None`, classes, and tuples of these. These are
    all keys that `hashkey` and `typedkey` make from such arguments. Other keys raise `TypeError`.
    1, 1.0 and True are the same key, as in a dict; `typedkey` distinguishes them.

    The cache evicts items, and `maxsize` and `currsize` are the bytes of the whole cache. Storing a
    value that is too large raises `ValueError`, as in cachetools. `len`, iterators and `clear` walk
    over the cache. An iterator omits keys that were too long to be stored without hashing, about
    250 bytes minus the prefix.
    """

    def __init__(self, cache: Cache, prefix: Key, ttl: Ttl = ...) -> None:
        self.cache = cache
        self._prefix = prefix.encode() if isinstance(prefix, str) else prefix
        if not self._prefix:
            raise ValueError("the prefix is empty: each mapping of a cache needs its own prefix")
        self._ttl = ttl

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cache!r}, {self._prefix!r})"

    def _stored(self, key: Hashable) -> bytes:
        return key_of_arguments(self._prefix, (_plain(key),))

    def __getitem__(self, key: Hashable) -> Any:
        try:
            return self.cache[self._stored(key)]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Hashable, value: Any) -> None:
        try:
            self.cache.set(self._stored(key), value, self._ttl)
        except StoreError as error:
            raise ValueError(f"the value cannot be stored: {error}") from error

    def __delitem__(self, key: Hashable) -> None:
        if not self.cache.delete(self._stored(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Hashable) and self.cache.__contains__(self._stored(key))

    def setdefault(self, key: Hashable, default: Any = None) -> Any:
        """Returns the value of a key. If it is absent, stores `default` and returns it. Of several
        processes that call this at the same time, all return the same value."""
        stored = self._stored(key)
        while True:
            value = self.cache.get(stored, _ABSENT)
            if value is not _ABSENT:
                return value
            try:
                if self.cache.add(stored, default, self._ttl):
                    return default
            except StoreError as error:
                raise ValueError(f"the value cannot be stored: {error}") from error

    def __iter__(self) -> Iterator[Hashable]:
        for stored in self.cache.keys(self._prefix):
            key = _Parser(stored.encode(errors="surrogateescape"), len(self._prefix)).key()
            if key is not _ABSENT:
                yield key

    def __len__(self) -> int:
        return len(self.cache.keys(self._prefix))

    def clear(self) -> None:
        """Removes the items of this mapping. Others in the same cache stay."""
        self.cache.remove_prefix(self._prefix)

    @property
    def maxsize(self) -> int:
        """The memory limit of the cache, in bytes."""
        return self.cache.memory_usage()["limit"]

    @property
    def currsize(self) -> int:
        """The memory that the items of the cache use, in bytes."""
        return self.cache.memory_usage()["items"]

    def getsizeof(self, value: Any) -> int:
        """Returns the length of a stored value, in bytes."""
        return len(encode(value, b"", self.cache._options["serializer"])[0])


_ABSENT = object()


def _plain(key: Any) -> Any:
    """Returns a key in a form that `key_of_arguments` takes. Different keys have different forms:
    a tuple begins with False, and a class is a tuple that begins with True."""
    if isinstance(key, tuple):
        return (False, *map(_plain, key))
    if isinstance(key, type):
        return True, key.__module__, key.__qualname__
    if key is None or type(key) in (str, bytes, int):
        return key
    if type(key) in (float, bool):
        # Equal numbers are the same key, as in a dict.
        return int(key) if key == key // 1 else key
    raise TypeError(
        f"a key of type {type(key).__qualname__} cannot be stored: pass the decorator key=, a"
        " function that returns str, bytes, int, float, bool, None or tuples of these, for example"
        " cachetools.keys.hashkey with the identifiers of its arguments"
    )


class _Parser:
    """Reads the form that `key_of_arguments` writes."""

    def __init__(self, stored: bytes, start: int) -> None:
        self._stored = stored
        self._at = start

    def key(self) -> Any:
        """Returns the key, or `_ABSENT` if it is not stored as a whole."""
        try:
            value = _original(self._value())
        except (ValueError, IndexError, LookupError):
            return _ABSENT
        return value if self._at == len(self._stored) else _ABSENT

    def _value(self) -> Any:
        letter = self._stored[self._at : self._at + 1]
        self._at += 1
        match letter:
            case b"s":
                return self._counted().decode()
            case b"b":
                return self._counted()
            case b"i":
                return int(self._until(b";"))
            case b"f":
                return float(self._until(b";"))
            case b"T" | b"F":
                return letter == b"T"
            case b"N":
                return None
            case b"(":
                items = []
                while self._stored[self._at] != ord(")"):
                    items.append(self._value())
                self._at += 1
                return tuple(items)
        raise ValueError(f"unknown type {letter!r}")

    def _until(self, end: bytes) -> bytes:
        start, self._at = self._at, self._stored.index(end, self._at) + 1
        return self._stored[start : self._at - 1]

    def _counted(self) -> bytes:
        size = int(self._until(b":"))
        start, self._at = self._at, self._at + size
        if self._at > len(self._stored):
            raise ValueError("the end is missing")
        return self._stored[start : self._at]


def _original(plain: Any) -> Any:
    """Returns the key of a form of `_plain`. Raises `LookupError` for a class that this process has
    not imported."""
    if not isinstance(plain, tuple):
        return plain
    if not plain[0]:
        return tuple(map(_original, plain[1:]))
    found: Any = sys.modules[plain[1]]
    for name in plain[2].split("."):
        found = getattr(found, name, None)
    if not isinstance(found, type):
        raise LookupError(plain[2])
    return found
