"""Keys as the server stores them: 1 to 250 bytes without blanks and control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .exceptions import MemcacheIllegalInputError

Key = bytes | str
"""A key of an item. A `str` must be ASCII, unless `allow_unicode_keys` is set."""

Items = Mapping[str, Any] | Mapping[bytes, Any] | Mapping[Key, Any]
"""Several keys and their values."""

MAX_KEY_BYTES = 250

_ILLEGAL = re.compile(rb"[\x00-\x20\x7f]").search

is_legal = re.compile(rb"[^\x00-\x20\x7f]{1,250}").fullmatch
"""Matches the stored form of a legal key."""


def check_key_helper(key: Key, allow_unicode_keys: bool, key_prefix: bytes = b"") -> bytes:
    """Returns the stored form of a key: the prefix and the key, as bytes.

    `allow_unicode_keys` encodes a `str` in UTF-8; otherwise it must be ASCII. The stored form may
    be empty, which no server accepts.

    Raises `MemcacheIllegalInputError` if it is longer than 250 bytes, or contains a blank or a
    control character.
    """
    if isinstance(key, str):
        try:
            key = key.encode("utf-8" if allow_unicode_keys else "ascii")
        except UnicodeEncodeError:
            kind = "Key cannot be encoded" if allow_unicode_keys else "Non-ASCII key"
            raise MemcacheIllegalInputError(f"{kind}: {key!r}") from None
    stored = key_prefix + key
    if len(stored) > MAX_KEY_BYTES:
        raise MemcacheIllegalInputError(f"Key is too long: {len(stored)} bytes, {stored!r}")
    if _ILLEGAL(stored) is not None:
        raise MemcacheIllegalInputError(f"{_fault(stored)}: {stored!r}")
    return stored


def _fault(stored: bytes) -> str:
    if stored.split() != [stored]:
        return "Key contains whitespace"
    return "Key contains null" if b"\0" in stored else "Key contains a control character"
