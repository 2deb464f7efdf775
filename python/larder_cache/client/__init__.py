"""Clients of larderd and memcached.

`Client`, `PooledClient`, `HashClient` and `RetryingClient` have the methods of pymemcache's classes
with these names. `AsyncClient` and `AsyncHashClient` are for asyncio.
"""

from __future__ import annotations

from .aio import AsyncClient
from .aio_hash import AsyncHashClient
from .client import Client
from .exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
)
from .hash_client import HashClient
from .hashers import KetamaHash, RendezvousHash
from .keys import check_key_helper
from .pooled import PooledClient
from .retrying import RetryingClient
from .servers import KeepaliveOpts, normalize_server_spec

__all__ = [
    "AsyncClient",
    "AsyncHashClient",
    "Client",
    "HashClient",
    "KeepaliveOpts",
    "KetamaHash",
    "MemcacheClientError",
    "MemcacheError",
    "MemcacheIllegalInputError",
    "MemcacheServerError",
    "MemcacheUnexpectedCloseError",
    "MemcacheUnknownCommandError",
    "MemcacheUnknownError",
    "PooledClient",
    "RendezvousHash",
    "RetryingClient",
    "check_key_helper",
    "normalize_server_spec",
]
