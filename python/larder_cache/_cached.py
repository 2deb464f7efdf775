"""`Cache.cached`: functions whose results are cached."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

from ._larder import CachedCall
from ._load import LoadOptions, load, load_async

if TYPE_CHECKING:
    from ._cache import Cache

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# A longer prefix would leave too little of a key for the arguments.
_PREFIX_BYTES_MAX = 100


class CacheInfo(NamedTuple):
    """The hits and misses of a cached function, in this process."""

    hits: int
    misses: int


class CachedFunction(Protocol[P, R_co]):
    """A function whose results are cached."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: type | None = ..., /) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = ..., /) -> Callable[..., R_co]:
        """Returns the method of an instance."""

    def cache_info(self) -> CacheInfo:
        """Returns the hits and misses in this process."""
        ...

    def cache_key(self, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """Returns the key of a call."""
        ...

    def cache_delete(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Removes the result of a call. Returns False if there is none."""
        ...

    def cache_clear(self) -> int:
        """Removes the results of all calls, and returns their number."""
        ...


def prefix_of(function: Callable[..., object]) -> bytes:
    """Returns the first part of the keys of a function: its module and its name."""
    module = getattr(function, "__module__", "")
    name = getattr(function, "__qualname__", None)
    if name is None or name.endswith("<lambda>"):
        raise ValueError(f"{function!r} has no name of its own: pass prefix=, a name for its keys")
    # A spawned child of multiprocessing imports the program under this name.
    module = "__main__" if module == "__mp_main__" else module
    prefix = f"{module}.{name}".encode()
    if len(prefix) > _PREFIX_BYTES_MAX:
        digits = hashlib.blake2b(prefix, digest_size=8).hexdigest()
        prefix = prefix[: _PREFIX_BYTES_MAX - 20] + b"#" + digits.encode()
    return prefix


class _CachedFunction(CachedCall):
    """The function that `cached` returns: a `CachedFunction`."""

    _cache: Cache
    _prefix: bytes
    __qualname__: str

    def __repr__(self) -> str:
        return f"<cached {self.__qualname__}>"

    # pickle finds the function by its name, as any function.
    def __reduce__(self) -> str:
        return self.__qualname__

    def cache_info(self) -> CacheInfo:
        return CacheInfo(*self._counts())

    def cache_delete(self, *args: Any, **kwargs: Any) -> bool:
        return self._cache.delete(self.cache_key(*args, **kwargs))

    def cache_clear(self) -> int:
        return self._cache.remove_prefix(self._prefix)


def cached(
    cache: Cache,
    function: Callable[P, R],
    *,
    prefix: str | bytes | None,
    key: Callable[..., str | bytes] | None,
    options: LoadOptions,
) -> CachedFunction[P, R]:
    """Returns a function that caches the results of `function`."""
    if isinstance(prefix, str):
        prefix = prefix.encode(errors="surrogateescape")
    prefix = prefix_of(function) if prefix is None else prefix
    if not isinstance(prefix, bytes):
        raise TypeError(f"prefix is str or bytes, found {prefix!r}")
    if not 1 <= len(prefix) <= _PREFIX_BYTES_MAX:
        raise ValueError(
            f"the prefix {prefix!r} has {len(prefix)} bytes, expected 1 to {_PREFIX_BYTES_MAX}"
        )
    # So that the keys of one function do not begin with the prefix of another one.
    prefix += b"("
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} is a generator function, whose results cannot be cached")

    def on_miss(name: bytes, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> R:
        return load(cache, name, lambda: function(*args, **(kwargs or {})), options)

    call = _CachedFunction(cache, prefix, key, options.stale, on_miss)
    # After it has copied the attributes of `function`, which may be cached as well.
    functools.update_wrapper(call, function)
    call._cache, call._prefix = cache, prefix
    if inspect.iscoroutinefunction(function):
        return cast("CachedFunction[P, R]", _cached_coroutine(call, function, options))
    return cast("CachedFunction[P, R]", call)


def _cached_coroutine(
    call: _CachedFunction, function: Callable[..., Awaitable[Any]], options: LoadOptions
) -> Any:
    """Returns the coroutine function. `call` finds its hits, but never loads."""
    cache, key_of, look = call._cache, call.cache_key, call._look

    @functools.wraps(function)
    async def cached_function(*args: Any, **kwargs: Any) -> Any:
        name = key_of(*args, **kwargs)
        found = look(name)
        if found is not None:
            return found[0]
        return await load_async(cache, name, lambda: function(*args, **kwargs), options)

    wrapper: Any = cached_function
    wrapper.cache_key = call.cache_key
    wrapper.cache_info = call.cache_info
    wrapper.cache_delete = call.cache_delete
    wrapper.cache_clear = call.cache_clear
    return wrapper
