"""Conversion of Python objects to the bytes and flags of items, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .._errors import UntrustedError
from .._serializers import Serializer, is_unsigned_pickle, serializer_of
from .exceptions import MemcacheIllegalInputError

SerializeFunction = Callable[[Any, Any], tuple[Any, int]]
DeserializeFunction = Callable[[Any, bytes, int], Any]

MAX_FLAGS = 2**32 - 1


class Serde(Protocol):
    """Converts values, in the form that pymemcache uses."""

    def serialize(self, key: Any, value: Any) -> tuple[Any, int]:
        """Returns the bytes of a value, and its flags."""
        ...

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        """Returns the value of these bytes and flags."""
        ...


class FunctionSerde:
    """Converts values with two functions. Without them, values are stored as they are: as bytes,
    or as the bytes of their `str()`."""

    def __init__(
        self,
        serializer: SerializeFunction | None = None,
        deserializer: DeserializeFunction | None = None,
    ) -> None:
        self._serializer = serializer
        self._deserializer = deserializer

    @property
    def is_plain(self) -> bool:
        """True if neither function was given."""
        return self._serializer is None and self._deserializer is None

    def serialize(self, key: Any, value: Any) -> tuple[Any, int]:
        """Returns the result of `serializer`, or the value itself with the flags 0."""
        return (value, 0) if self._serializer is None else self._serializer(key, value)

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        """Returns the result of `deserializer`, or the bytes themselves."""
        return value if self._deserializer is None else self._deserializer(key, value, flags)


class TaggedSerde:
    """Stores the type of a value in the flags, as `larder_cache.Cache` does.

    `bytes`, `str`, `int`, `float`, `bool` and `None` need no serializer. Other types raise
    `TypeError` if `serializer` is `None`. The key must be the stored key, because signatures
    contain it.
    """

    def __init__(self, serializer: Serializer | None) -> None:
        from .. import _larder

        self.serializer = serializer
        self._encode = _larder.encode
        self._decode = _larder.decode

    def __reduce__(self) -> tuple[Any, ...]:
        return TaggedSerde, (self.serializer,)

    def serialize(self, key: bytes, value: Any) -> tuple[bytes, int]:
        """Returns the bytes of a value, and its tag. May raise `TypeError`."""
        encoded: tuple[bytes, int] = self._encode(value, key, self.serializer)
        return encoded

    def deserialize(self, key: bytes, value: bytes, flags: int) -> Any:
        """Returns the value. Raises `SerializerError` if another serializer wrote it."""
        return self._decode(value, flags, key, self.serializer)


def serde_of(
    serde: Serde | None,
    serializer: str | Serializer | SerializeFunction | None,
    deserializer: DeserializeFunction | None,
    signing_key: bytes | str | None,
    trust_server: bool,
) -> Serde:
    """Returns the serde for the arguments of a client.

    Raises `UntrustedError` if unsigned pickles would be read from a server that is not trusted,
    and `ValueError` if the arguments contradict each other.
    """
    is_tagged = isinstance(serializer, str) or hasattr(serializer, "dumps")
    if serde is not None:
        if is_tagged or signing_key is not None:
            raise ValueError("serde converts all values; leave out serializer and signing_key")
        return serde
    if not is_tagged:
        if signing_key is not None:
            raise ValueError("signing_key signs pickled values: it needs serializer='pickle'")
        return FunctionSerde(serializer, deserializer)  # type: ignore[arg-type]
    if deserializer is not None:
        raise ValueError(f"serializer={serializer!r} also reads values; leave out deserializer")
    if serializer == "tags":
        serializer = None
    chosen = serializer_of(serializer, signing_key)  # type: ignore[arg-type]
    if is_unsigned_pickle(chosen) and not trust_server:
        raise UntrustedError(
            "reading a pickled value runs code that whoever can write to the server has chosen:"
            " pass signing_key (secrets.token_bytes(32), the same in all clients) so that only"
            " values of such clients are read, or trust_server=True if only trusted programs can"
            " reach the server; serializer='json' and 'msgspec' need neither"
        )
    return TaggedSerde(chosen)


def stored_bytes(value: Any, encoding: str) -> bytes:
    """Returns the bytes that are stored for the result of `Serde.serialize`: the value itself, or
    its `str()` in `encoding`.

    Raises `MemcacheIllegalInputError` if the text cannot be encoded.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    try:
        return str(value).encode(encoding)
    except UnicodeEncodeError as error:
        raise MemcacheIllegalInputError(f"Data values must be binary-safe: {error}") from None
