"""Serializers: they convert Python objects to bytes, and are always chosen by name.

Every cache and client stores `bytes`, `str`, `int`, `float`, `bool` and `None` without a
serializer. Each stored item carries the tag of its type in the low four bits of its flags; the
numbers are those of `larder::signed::tag`, which all bindings of Larder share. Reading a value
whose tag belongs to another serializer raises `SerializerError`, which names that serializer.
"""

from __future__ import annotations

import hmac
import json
import pickle
from collections.abc import Callable
from typing import Any, Protocol

from ._errors import SerializerError, SignatureError

# The tags of values that need a serializer. The first three are those of php-memcached.
PHP, IGBINARY, JSON, MSGPACK = 4, 5, 6, 7
PHP_ARRAY, PICKLE, SIGNED_PICKLE = 9, 12, 13

_NAMES = {
    PHP: "php",
    IGBINARY: "igbinary",
    JSON: "json",
    MSGPACK: "msgspec",
    PHP_ARRAY: "php's arrays",
    PICKLE: "pickle",
    SIGNED_PICKLE: "pickle with a signing_key",
}

_SIGNATURE_BYTES = 32


class Serializer(Protocol):
    """A serializer. `key` is the key of the item, in its stored form."""

    tag: int
    name: str

    def dumps(self, key: bytes, value: Any) -> bytes:
        """Returns the bytes of a value. May raise any exception."""
        ...

    def loads(self, key: bytes, data: bytes) -> Any:
        """Returns the value of these bytes. May raise any exception."""
        ...


class JsonSerializer:
    """JSON in UTF-8, without blanks. Tuples become lists, and keys of a dict become strings."""

    tag = JSON
    name = "json"

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
        self._decode = json.JSONDecoder().decode

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonSerializer, ()

    def dumps(self, key: bytes, value: Any) -> bytes:
        return self._encode(value).encode()

    def loads(self, key: bytes, data: bytes) -> Any:
        return self._decode(data.decode())


class MsgspecSerializer:
    """MessagePack, by msgspec. `type` is the type that values are decoded to."""

    tag = MSGPACK
    name = "msgspec"

    def __init__(self, type: Any = Any) -> None:
        import msgspec

        self.type = type
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(type).decode

    def __reduce__(self) -> tuple[Any, ...]:
        return MsgspecSerializer, (self.type,)

    def dumps(self, key: bytes, value: Any) -> bytes:
        return self._encode(value)

    def loads(self, key: bytes, data: bytes) -> Any:
        return self._decode(data)


class PickleSerializer:
    """pickle. Reading a pickled value can run any code, so the writer must be trusted."""

    tag = PICKLE
    name = "pickle"

    def dumps(self, key: bytes, value: Any) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def loads(self, key: bytes, data: bytes) -> Any:
        return pickle.loads(data)


class SignedPickleSerializer:
    """pickle, with an HMAC-SHA256 of the key and the value in front of the value. A value is
    unpickled only if its signature matches."""

    tag = SIGNED_PICKLE
    name = "pickle with a signing_key"

    def __init__(self, signing_key: bytes | str) -> None:
        if isinstance(signing_key, str):
            signing_key = signing_key.encode()
        if not isinstance(signing_key, bytes):
            raise TypeError(f"signing_key is bytes, found {type(signing_key).__qualname__}")
        if len(signing_key) < 16:
            raise ValueError(
                f"signing_key has {len(signing_key)} bytes, expected at least 16;"
                " make one with secrets.token_bytes(32)"
            )
        self._signing_key = bytes(signing_key)

    def __reduce__(self) -> tuple[Any, ...]:
        return SignedPickleSerializer, (self._signing_key,)

    def dumps(self, key: bytes, value: Any) -> bytes:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        return self._signature(key, data) + data

    def loads(self, key: bytes, data: bytes) -> Any:
        signature, data = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(key, data)):
            raise SignatureError(
                f"the value of {key!r} has a wrong signature: it was stored with another"
                " signing_key, under another key, or changed afterwards"
            )
        return pickle.loads(data)

    def _signature(self, key: bytes, data: bytes) -> bytes:
        # The length separates the key from the value.
        return hmac.digest(self._signing_key, b"%d:%b%b" % (len(key), key, data), "sha256")


_MAKERS: dict[str, Callable[[], Serializer]] = {
    "json": JsonSerializer,
    "msgspec": MsgspecSerializer,
    "pickle": PickleSerializer,
}


def serializer_of(
    serializer: str | Serializer | None, signing_key: bytes | str | None
) -> Serializer | None:
    """Returns the serializer for the arguments of a constructor.

    `signing_key` is only for "pickle". An unknown name is a `ValueError`.
    """
    if signing_key is not None:
        if serializer != "pickle":
            raise ValueError(
                "signing_key signs pickled values: it needs serializer='pickle',"
                f" found {serializer!r}"
            )
        return SignedPickleSerializer(signing_key)
    if serializer is None:
        return None
    if not isinstance(serializer, str):
        members = ("tag", "name", "dumps", "loads")
        lacks = [name for name in members if not hasattr(serializer, name)]
        if lacks:
            raise TypeError(
                f"{serializer!r} is not a serializer: it has no {', '.join(lacks)}; expected one of"
                f" {', '.join(sorted(_MAKERS))}, or an object with {', '.join(members)}"
            )
        return serializer
    maker = _MAKERS.get(serializer)
    if maker is None:
        raise ValueError(
            f"unknown serializer {serializer!r}, expected one of {', '.join(sorted(_MAKERS))},"
            " or an object with tag, name, dumps and loads"
        )
    return maker()


def is_unsigned_pickle(serializer: Serializer | None) -> bool:
    """True if reading values of this serializer can run code of whoever wrote them."""
    return isinstance(serializer, PickleSerializer)


def refuse(key: bytes, flags: int, serializer: Serializer | None) -> SerializerError:
    """Returns the exception for a value that was stored with other flags."""
    name = _NAMES.get(flags)
    stored = f"serializer {name!r}" if name else f"unknown flags {flags}"
    ours = f"uses serializer {serializer.name!r}" if serializer else "has no serializer"
    return SerializerError(f"the value of {key!r} was stored by {stored}, but this cache {ours}")


def damaged(key: bytes, error: Exception) -> SerializerError:
    """Returns the exception for a value that the serializer does not accept."""
    if isinstance(error, SerializerError):
        return error
    wrapped = SerializerError(
        f"the value of {key!r} cannot be decoded: {type(error).__qualname__}: {error}"
    )
    wrapped.__cause__ = error
    return wrapped


def unserializable(value: Any) -> TypeError:
    """Returns the exception for a value that needs a serializer if none was chosen."""
    return TypeError(
        f"a value of type {type(value).__qualname__} needs a serializer: open the cache with"
        " serializer='json', 'msgspec' or 'pickle'; without one it stores bytes, str, int, float,"
        " bool and None"
    )
