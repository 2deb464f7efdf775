"""Cache backends of Django.

Shared memory, for the processes of one machine. A hit takes about a microsecond:

    CACHES = {
        "default": {
            "BACKEND": "larder_cache.django.LarderCache",
            "LOCATION": "/dev/shm/mysite",
            "OPTIONS": {"memory": "256M", "serializer": "pickle"},
        },
    }

Servers, larderd or memcached, for several machines. Hits of a larderd or a near cache at a unix
socket that shares its memory are read there:

    CACHES = {
        "default": {
            "BACKEND": "larder_cache.django.LarderClient",
            "LOCATION": "unix:/run/larder/larder.sock",
            "OPTIONS": {"serializer": "pickle", "signing_key": SIGNING_KEY},
        },
    }

`bytes`, `str`, `int`, `float`, `bool` and `None` are stored without a serializer. Other values,
such as sessions, responses and template fragments, need `OPTIONS["serializer"]`.
"""

from __future__ import annotations

from .servers import LarderClient
from .shared import LarderCache

__all__ = ["LarderCache", "LarderClient"]
