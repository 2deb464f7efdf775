"""The class `Cache`."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import (
    Awaitable,
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from datetime import timedelta
from types import EllipsisType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from ._cached import CachedFunction, cached
from ._errors import StoreError
from ._larder import CacheBase
from ._load import Failures, Leader, LoadOptions, load, load_async
from ._serializers import Serializer, is_unsigned_pickle, serializer_of
from ._sizes import size_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Key = str | bytes
# A time to live: seconds, a timedelta, or None for no limit. `...` stands for an omitted argument:
# the default of the cache.
Ttl = float | timedelta | EllipsisType | None

_LEASE_SECS = 60.0
_PROCESSES_MAX = 4096


class Cache(CacheBase, MutableMapping[str, Any]):
    """A cache in the memory of this process, or in memory that processes share.

    `memory` limits everything that the cache needs, items and index, in bytes or as text ("64M").
    A full cache evicts items that were not read recently; with `evict=False` a store fails
    instead.

    `shared` names a file, preferably in `/dev/shm`. All processes that open it share the cache,
    and later ones find it warm. The first one creates it with the given `memory`, `cas`, `evict`,
    `processes` (how many processes can use it at the same time) and `permissions`; the others use
    it as it is. The file must belong to this user or root. Other users can write to it only if
    `permissions` says so: 0o660 for its group, 0o666 for everyone. `children=True` shares a cache
    without a file with forked children.

    `bytes`, `str`, `int`, `float`, `bool` and `None` are stored as they are. Other values need a
    `serializer`: "json", "msgspec", "pickle", or an object with the methods of `Serializer`.
    Unpickling runs code of whoever wrote the value. Therefore "pickle" needs a `signing_key` of at
    least 16 bytes, or a file that belongs to this user or root and that nobody else can write to.

    `ttl` is the default time to live in seconds; None means no limit. Times are whole seconds, a
    fraction is rounded up. `item_max` is the longest item in bytes, by default 1 MiB.

    Keys are `str` or `bytes` of 1 to 250 bytes; a `str` is stored as UTF-8. Iterators return `str`
    (for other bytes with lone surrogates, as in `os.fsdecode`).

    A cache can be used by any number of threads, and after a fork. A cache with `shared` can be
    pickled: the other process opens the same file.

        >>> cache = Cache(memory="16M", ttl=300)
        >>> cache["user:17"] = "Ada"
        >>> cache["user:17"]
        'Ada'
        >>> cache.incr("visits"), cache.incr("visits", 5)
        (1, 6)

    Raises `OpenError` if the cache cannot be opened, and its subclass `UntrustedError` if other
    users can write to the file.
    """

    __slots__ = ("__weakref__", "_failures", "_leaders", "_options")
    _failures: Failures
    # The loads in progress in this process.
    _leaders: weakref.WeakValueDictionary[bytes, Leader[Any]]
    _options: dict[str, Any]

    def __new__(
        cls,
        *,
        memory: int | str = "64M",
        shared: str | os.PathLike[str] | None = None,
        serializer: str | Serializer | None = None,
        signing_key: bytes | str | None = None,
        ttl: float | timedelta | None = None,
        cas: bool = True,
        evict: bool = True,
        item_max: int | str | None = None,
        processes: int | None = None,
        permissions: int = 0o600,
        children: bool = False,
    ) -> Self:
        if shared is not None and children:
            raise ValueError("children of this process share the file as well: omit children=True")
        encoder = serializer_of(serializer, signing_key)
        path = None if shared is None else _absolute(shared)
        if processes is not None and not 1 <= processes <= _PROCESSES_MAX:
            raise ValueError(f"processes is {processes}, expected 1 to {_PROCESSES_MAX}")
        self = super().__new__(
            cls,
            memory=size_of(memory, "memory"),
            path=path,
            item_max=None if item_max is None else size_of(item_max, "item_max"),
            cas=cas,
            evict=evict,
            processes=processes or 0,
            permissions=permissions,
            children=children,
            serializer=encoder,
            ttl=ttl,
            unpickles=is_unsigned_pickle(encoder),
        )
        self._failures = Failures()
        self._leaders = weakref.WeakValueDictionary()
        self._options = {
            "memory": memory,
            "shared": path,
            "serializer": encoder,
            "ttl": ttl,
            "cas": cas,
            "evict": evict,
            "item_max": item_max,
            "processes": processes,
            "permissions": permissions,
            "children": children,
        }
        return self

    @property
    def path(self) -> str | None:
        """The file of the cache; None for memory without a file."""
        path: str | None = self._options["shared"]
        return path

    @property
    def is_shared(self) -> bool:
        """True if other processes can use the cache."""
        return self.path is not None or bool(self._options["children"])

    def __repr__(self) -> str:
        place = "" if self.path is None else f"shared={self.path!r}, "
        state = "closed" if self.closed else f"{len(self)} items"
        return f"<{type(self).__name__} {place}{state}>"

    # A mapping compares its items; a cache is the same only as itself.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(
                "a cache in the memory of this process cannot be pickled: open it with"
                " shared=path, and the other process opens the same file"
            )
        return _reopened, (type(self), self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[str]:
        return self._keys("")

    def keys(self, prefix: Key = "") -> KeysView[str]:
        """Returns the keys that begin with `prefix`, as a view.

        A walk over the view returns each key that is present from its beginning to its end. Keys
        that are stored or removed meanwhile may or may not be returned.
        """
        return _Keys(self, prefix)

    def values(self, prefix: Key = "") -> ValuesView[Any]:
        """Returns the values of the keys that begin with `prefix`, as a view."""
        return _Values(self, prefix)

    def items(self, prefix: Key = "") -> ItemsView[str, Any]:
        """Returns the items whose keys begin with `prefix`, as a view: see `keys`."""
        return _Items(self, prefix)

    def pop(self, key: Key, *default: Any) -> Any:
        """Removes an item and returns its value. If several processes pop an item of a cache with
        cas tokens, one of them receives it.

        Raises `KeyError` if the key is absent and there is no default.
        """
        if len(default) > 1:
            raise TypeError(f"pop expected a key and a default, found {len(default) + 1} arguments")
        found = self._pop(key)
        if found is not None:
            return found[0]
        if not default:
            raise KeyError(key)
        return default[0]

    def popitem(self) -> tuple[str, Any]:
        """Removes any item, and returns its key and value. Raises `KeyError` if there is none."""
        for key in self:
            found = self._pop(key)
            if found is not None:
                return key, found[0]
        raise KeyError("the cache is empty")

    def setdefault(self, key: Key, default: Any = None) -> Any:
        """Returns the value of a key. If it is absent, stores `default` and returns it."""
        while True:
            found = self._get_fresh(key, 0)
            if found is not None:
                return found[0]
            if self.add(key, default):
                return default

    def set_many(
        self, items: Mapping[Any, Any] | Iterable[tuple[Key, Any]], ttl: Ttl = ...
    ) -> list[Key]:
        """Stores several items. Returns the keys of those that could not be stored."""
        failed: list[Key] = []
        pairs: Any = items.items() if isinstance(items, Mapping) else items
        for key, value in pairs:
            try:
                self.set(key, value, ttl)
            except StoreError:
                failed.append(key)
        return failed

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Removes several items, and returns how many were present."""
        return sum(self.delete(key) for key in keys)

    def get_and_touch(self, key: Key, ttl: Ttl = ..., default: Any = None) -> Any:
        """Returns the value of a key, and gives the item a new time to live."""
        return self.get(key, default) if self.touch(key, ttl) else default

    def get_or_load(
        self,
        key: Key,
        loader: Callable[[], T],
        *,
        ttl: Ttl = ...,
        stale: float | timedelta = 0,
        lease: float = _LEASE_SECS,
        wait: float | None = None,
    ) -> T:
        """Returns the value of a key; on a miss, calls `loader`, and stores its result for `ttl`.

        Of all threads and processes that request the key at the same time, one calls its loader.
        The others wait. If the loader raises an exception, it is not cached: the callers that are
        waiting raise it, those of other processes as a `LoadError`. For `stale` seconds after the
        time to live one caller refreshes the value, while the others receive the old one; if that
        loader fails, its caller receives the old value as well.

        If the leader's process is killed, another caller takes over within a second. If the loader
        does not return, others try it after `lease` seconds. After `wait` seconds, by default the
        same, a waiting caller calls its loader.

        The result is not stored if the key was stored or deleted during the load.
        """
        return load(self, key, loader, self._load_options(ttl, stale, lease, wait))

    async def get_or_load_async(
        self,
        key: Key,
        loader: Callable[[], Awaitable[T]],
        *,
        ttl: Ttl = ...,
        stale: float | timedelta = 0,
        lease: float = _LEASE_SECS,
        wait: float | None = None,
    ) -> T:
        """Same as `get_or_load`, for asyncio: `loader` returns an awaitable. A task waits by a
        timer of its event loop. If the task of the leader is cancelled, another one takes over."""
        options = self._load_options(ttl, stale, lease, wait)
        return await load_async(self, key, loader, options)

    @overload
    def cached(
        self,
        function: Callable[P, R],
        /,
        *,
        ttl: Ttl = ...,
        key: Callable[..., Key] | None = None,
        prefix: Key | None = None,
        stale: float | timedelta = 0,
        lease: float = _LEASE_SECS,
        wait: float | None = None,
    ) -> CachedFunction[P, R]: ...

    @overload
    def cached(
        self,
        function: None = None,
        /,
        *,
        ttl: Ttl = ...,
        key: Callable[..., Key] | None = None,
        prefix: Key | None = None,
        stale: float | timedelta = 0,
        lease: float = _LEASE_SECS,
        wait: float | None = None,
    ) -> Callable[[Callable[P, R]], CachedFunction[P, R]]: ...

    def cached(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        ttl: Ttl = ...,
        key: Callable[..., Key] | None = None,
        prefix: Key | None = None,
        stale: float | timedelta = 0,
        lease: float = _LEASE_SECS,
        wait: float | None = None,
    ) -> Any:
        """Caches the results of a function, or of a coroutine function.

            >>> cache = Cache(memory="16M")
            >>> @cache.cached(ttl=60)
            ... def square(number: int) -> int:
            ...     return number * number
            >>> square(4), square(4), square.cache_info()
            (16, 16, CacheInfo(hits=1, misses=1))

        The key of a call contains `prefix`, by default the module and name of the function, and
        the arguments: str, bytes, int, float, bool, None and tuples of these. With other arguments
        pass `key`, a function of the same arguments that returns the rest of the key. For the other
        options see `get_or_load`. Processes that share the cache share the results.
        """
        options = self._load_options(ttl, stale, lease, wait)
        if function is not None and not callable(function):
            raise TypeError(
                f"cached() decorates a function, found {function!r}; its options have names:"
                " cached(ttl=60)"
            )

        def decorate(function: Callable[..., T]) -> CachedFunction[..., T]:
            return cached(self, function, prefix=prefix, key=key, options=options)

        return decorate if function is None else decorate(function)

    def _load_options(
        self, ttl: Ttl, stale: float | timedelta, lease: float, wait: float | None
    ) -> LoadOptions:
        if isinstance(stale, timedelta):
            stale = stale.total_seconds()
        for name, seconds in (("stale", stale), ("lease", lease), ("wait", wait)):
            if not isinstance(seconds, (int, float)) and (name, seconds) != ("wait", None):
                raise TypeError(f"{name} is a number of seconds, found {seconds!r}")
        if not 0 <= stale < math.inf:
            raise ValueError(f"stale is {stale} s, expected a finite number, 0 or more")
        if not 0 < lease < math.inf:
            raise ValueError(f"lease is {lease} s, expected more than 0")
        if wait is not None and not wait >= 0:
            raise ValueError(f"wait is {wait} s, expected 0 or more, or None")
        return LoadOptions(
            ttl=self._ttl_secs(ttl),
            stale=math.ceil(stale),
            lease=lease,
            wait=lease if wait is None else wait,
        )


def _absolute(path: str | bytes | os.PathLike[str]) -> str:
    """Returns the absolute path of a file, so that a later chdir does not change it."""
    text = os.fsdecode(path)
    if not text:
        raise ValueError("shared is empty, expected the path of a file, for example in /dev/shm")
    return os.path.abspath(text)


class _Keys(KeysView[str]):
    def __init__(self, cache: Cache, prefix: Key) -> None:
        super().__init__(cache)
        self._cache, self._prefix = cache, prefix

    def __iter__(self) -> Iterator[str]:
        return self._cache._keys(self._prefix)

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._prefix else len(self._cache)


class _Values(ValuesView[Any]):
    def __init__(self, cache: Cache, prefix: Key) -> None:
        super().__init__(cache)
        self._cache, self._prefix = cache, prefix

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._cache._items(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self._cache._keys(self._prefix))


class _Items(ItemsView[str, Any]):
    def __init__(self, cache: Cache, prefix: Key) -> None:
        super().__init__(cache)
        self._cache, self._prefix = cache, prefix

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._cache._items(self._prefix)

    def __len__(self) -> int:
        return sum(1 for _ in self._cache._keys(self._prefix))


def _reopened(cls: type[Cache], options: dict[str, Any]) -> Cache:
    """Opens a pickled cache in another process."""
    return cls(**options)
