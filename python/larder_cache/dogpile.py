"""A backend of dogpile.cache in memory that processes share.

region = make_region().configure(
    "larder",
    expiration_time=300,
    arguments={"shared": "/dev/shm/mysite", "memory": "256M", "serializer": "pickle"},
)
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dogpile.cache import register_backend
from dogpile.cache.api import NO_VALUE, CacheBackend, CachedValue, CacheMutex
from dogpile.cache.util import sha1_mangle_key

from ._cache import Cache
from ._errors import StoreError
from ._larder import Lease
from ._opened import open_cache

log: logging.Logger = logging.getLogger(__name__)

_KEY_BYTES_MAX = 250
_LOCK_SECS = 60.0
_FIRST_PAUSE_SECS = 0.001
_LONGEST_PAUSE_SECS = 0.05

_CACHE_ARGUMENTS = {
    "memory",
    "shared",
    "serializer",
    "signing_key",
    "ttl",
    "cas",
    "evict",
    "item_max",
    "processes",
    "permissions",
    "children",
}
_OWN_ARGUMENTS = {"cache", "distributed_lock", "lock_timeout"}


class LarderBackend(CacheBackend):
    """A backend in memory that the processes of this machine share.

    `arguments` are those of `larder_cache.Cache`, or `cache`, an open cache. Regions with the same
    arguments use the same cache if it is `shared`. `serializer` converts
    the values; a region with its own `serializer` and `deserializer` needs none. `ttl` limits the
    time that an item is stored; it must be longer than the `expiration_time` of the region, which
    decides when a value is computed again.

    One of all processes and threads computes a value, while the others wait or receive the expired
    value. The lock of a process that is killed is free within a second. Others may compute a value
    after `lock_timeout` seconds, by default 60, even if the first one has not finished.
    `distributed_lock=False` locks only the threads of a process.

    A value that is too large is not stored and a warning is logged. Keys of more than 250 bytes are
    replaced by their SHA-1 hash, unless the region has its own `key_mangler`. Unknown arguments are
    ignored with a warning.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        unknown = sorted(arguments.keys() - _CACHE_ARGUMENTS - _OWN_ARGUMENTS)
        if unknown:
            warnings.warn(
                f"LarderBackend ignores unknown arguments: {', '.join(unknown)}", stacklevel=2
            )
        options = {name: arguments[name] for name in _CACHE_ARGUMENTS & arguments.keys()}
        cache = arguments.get("cache")
        if cache is not None and options:
            raise ValueError(f"the cache is open already: leave out {', '.join(sorted(options))}")
        self.cache: Cache = open_cache(options) if cache is None else cache
        self._has_serializer = self.cache._options["serializer"] is not None
        self.lock_timeout: float = float(arguments.get("lock_timeout", _LOCK_SECS))
        if not self.lock_timeout > 0:
            raise ValueError(f"lock_timeout is {self.lock_timeout} s, expected more than 0")
        self.distributed_lock: bool = bool(arguments.get("distributed_lock", True))

    # CacheBackend has this as an attribute that holds a function.
    @staticmethod
    def key_mangler(key: str) -> str:
        """Returns the key, or the SHA-1 hash of one that is too long."""
        stored = key.encode(errors="surrogateescape")
        return sha1_mangle_key(stored) if len(stored) > _KEY_BYTES_MAX else key

    def has_lock_timeout(self) -> bool:
        """True if another process may compute a value before the first one has finished."""
        return self.distributed_lock

    def get_mutex(self, key: str) -> LarderMutex | None:
        """Returns the lock of a key, which all processes share; None for threads only."""
        if not self.distributed_lock:
            return None
        return LarderMutex(self.cache, key, self.lock_timeout)

    # Values that the cache serializes: a pair of the value and its metadata.

    def get(self, key: str) -> Any:
        return _cached_value(self.cache.get(key, NO_VALUE))

    def get_multi(self, keys: Iterable[str]) -> Sequence[Any]:
        keys = list(keys)
        found = self.cache.get_many(keys)
        return [_cached_value(found.get(key, NO_VALUE)) for key in keys]

    def set(self, key: str, value: Any) -> None:
        self._store(key, tuple(value))

    def set_multi(self, mapping: Mapping[str, Any]) -> None:
        for key, value in mapping.items():
            self._store(key, tuple(value))

    # Values that the region has serialized.

    def get_serialized(self, key: str) -> Any:
        return _serialized(self.cache.get(key, NO_VALUE))

    def get_serialized_multi(self, keys: Iterable[str]) -> Sequence[Any]:
        keys = list(keys)
        found = self.cache.get_many(keys)
        return [_serialized(found.get(key, NO_VALUE)) for key in keys]

    def set_serialized(self, key: str, value: bytes) -> None:
        self._store(key, value)

    def set_serialized_multi(self, mapping: Mapping[str, bytes]) -> None:
        for key, value in mapping.items():
            self._store(key, value)

    def _store(self, key: str, value: Any) -> None:
        try:
            self.cache.set(key, value)
        except StoreError as error:
            log.warning("cannot store %r: %s", key, error)
            self.cache.delete(key)
        except TypeError as error:
            if self._has_serializer:
                raise
            raise TypeError(
                "a region stores values together with their age: pass a 'serializer' in the"
                " arguments of the backend, or a serializer and a deserializer to make_region"
            ) from error

    def delete(self, key: str) -> None:
        self.cache.delete(key)

    def delete_multi(self, keys: Iterable[str]) -> None:
        self.cache.delete_many(keys)


class LarderMutex(CacheMutex):
    """The lock of a key in all processes that share the cache. It is free as soon as its owner
    releases it, within a second after its owner's process was killed, and after `seconds`."""

    def __init__(self, cache: Cache, key: str, seconds: float) -> None:
        self._cache = cache
        self._key = key
        self._seconds = seconds
        self._lease: Lease | None = None

    def acquire(self, wait: bool = True) -> bool:
        """Locks the key. If another owner has it, waits, or returns False without `wait`."""
        pause = _FIRST_PAUSE_SECS
        while (lease := self._cache.lease(self._key, self._seconds)) is None:
            if not wait:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECS)
        self._lease = lease
        return True

    def release(self) -> None:
        """Unlocks the key. Does nothing if the lock has timed out and another owner has it."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def locked(self) -> bool:
        """True if this or another owner has the lock. Takes the lock for a moment to find out."""
        lease = self._cache.lease(self._key, self._seconds)
        if lease is None:
            return True
        lease.release()
        return False


def _cached_value(found: Any) -> Any:
    # A serializer may return the pair as a list.
    if isinstance(found, (tuple, list)) and len(found) == 2:
        return CachedValue(*found)
    # Absent, or stored by a program that is not a region.
    return NO_VALUE


def _serialized(found: Any) -> Any:
    return found if isinstance(found, bytes) else NO_VALUE


register_backend("larder", "larder_cache.dogpile", "LarderBackend")  # type: ignore[no-untyped-call]
