"""The part that both backends have in common: times, keys and settings."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache, InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured

from .._serializers import Serializer

KEY_BYTES_MAX = 250

log: logging.Logger = logging.getLogger("larder_cache.django")

# BaseCache reads these. Larder limits its memory instead of the number of its items, and evicts
# items that were not read recently.
_WITHOUT_EFFECT = {"MAX_ENTRIES", "CULL_FREQUENCY"}


class LarderBackend(BaseCache):
    """Base class of the backends."""

    serializer: Serializer | None

    def options_of(self, params: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
        """Returns OPTIONS, without those of Django.

        Raises `ImproperlyConfigured` for an option that the backend does not have.
        """
        options: dict[str, Any] = dict(params.get("OPTIONS") or {})
        for name in _WITHOUT_EFFECT:
            options.pop(name, None)
        unknown = sorted(options.keys() - set(known))
        if unknown:
            raise ImproperlyConfigured(
                f"unknown OPTIONS {', '.join(map(repr, unknown))} of {type(self).__name__},"
                f" expected {', '.join(sorted(known))}"
            )
        return options

    def seconds_of(self, timeout: Any) -> float | None:
        """Returns a timeout in seconds, 0 if nothing is to be cached, or None for no limit."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        if timeout is None or timeout == math.inf:
            return None
        return timeout if timeout > 0 else 0

    def validate_key(self, key: str) -> None:
        """Raises `InvalidCacheKey` for a key that cannot be stored: an empty one, or one of more
        than 250 bytes in UTF-8. Others, also with blanks, are valid."""
        # No character takes more than four bytes.
        if 0 < 4 * len(key) <= KEY_BYTES_MAX:
            return
        size = len(key.encode(errors="surrogateescape"))
        if not 0 < size <= KEY_BYTES_MAX:
            raise InvalidCacheKey(
                f"the key {key!r} has {size} bytes, expected 1 to {KEY_BYTES_MAX}: shorten it, or"
                " set KEY_FUNCTION to a function that replaces long keys by a hash"
            )

    def explained(self, error: TypeError) -> TypeError:
        """Returns the exception for a value that cannot be stored."""
        if self.serializer is not None:
            return error
        return TypeError(
            f"{error}. In Django's settings, that is OPTIONS={{'serializer': ...}} of"
            f" {type(self).__name__}"
        )
