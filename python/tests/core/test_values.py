"""Values come back as they were stored, and serializers are chosen by name."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from larder_cache import (
    Cache,
    LarderError,
    SerializerError,
    SignatureError,
    TooLargeError,
    UntrustedError,
)
from larder_cache._larder import decode, encode

PLAIN = [
    b"", b"v", b"\x00\r\n", bytes(range(256)), "", "grüße", "\x00", "🦀" * 100,
    0, 1, -1, 2**63 - 1, -(2**63), 2**63, 10**100, 0.0, -0.0, 1.5, 1e308, math.inf, -math.inf,
    True, False, None,
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:30])
def test_plain_values_keep_their_type(cache: Cache, value: Any) -> None:
    cache["k"] = value
    found = cache["k"]
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value), "the sign of a zero"


def test_nan_is_nan(cache: Cache) -> None:
    cache["k"] = math.nan
    assert math.isnan(cache["k"])


@pytest.mark.parametrize("length", [4095, 4096, 16 << 10, (64 << 10) - 1, 64 << 10, 900_000])
@pytest.mark.parametrize("kind", [bytes, str])
def test_values_of_any_length(cache: Cache, length: int, kind: type) -> None:
    value = b"x" * length if kind is bytes else "y" * length
    cache["k"] = value
    assert cache["k"] == value
    assert cache.get_many(["k"]) == {"k": value}
    assert cache.pop("k") == value


def test_buffers_are_stored_as_bytes(cache: Cache) -> None:
    cache["array"] = bytearray(b"ab")
    cache["view"] = memoryview(b"abcd")[::2]
    assert (cache["array"], cache["view"]) == (b"ab", b"ac")


def test_a_value_that_is_too_large_removes_the_old_one(cache: Cache) -> None:
    cache["k"] = 1
    with pytest.raises(TooLargeError, match="larger than the cache accepts"):
        cache["k"] = bytes(2 << 20)
    assert "k" not in cache


def test_an_int_that_python_would_not_read_is_refused(cache: Cache) -> None:
    with pytest.raises(ValueError, match="digits"):
        cache["k"] = 10**5000


class Text(str):
    """A subclass, which would come back as a str."""


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1,), {1}, object(), Text("x")])
def test_other_values_need_a_serializer(cache: Cache, value: Any) -> None:
    with pytest.raises(TypeError, match="needs a serializer: open the cache with"):
        cache["k"] = value
    assert "k" not in cache


@pytest.mark.parametrize("name", ["json", "msgspec", "pickle"])
def test_serializers_by_name(name: str) -> None:
    value = {"list": [1, 2.5, None, True], "text": "grüße", "nested": {"a": []}}
    with Cache(memory="16M", serializer=name) as cache:
        cache["k"] = value
        assert cache["k"] == value
        assert cache["k"] is not cache["k"], "each reader has its own copy"
        cache["n"] = 5
        assert cache.incr("n") == 6, "plain values do not reach the serializer"


def test_pickle_keeps_any_object() -> None:
    with Cache(memory="16M", serializer="pickle") as cache:
        cache["k"] = (Text("x"), {1, 2}, 1 + 2j)
        text, numbers, number = cache["k"]
        assert (type(text), text, numbers, number) == (Text, "x", {1, 2}, 1 + 2j)


def test_an_unknown_serializer() -> None:
    with pytest.raises(ValueError, match="unknown serializer 'yaml', expected one of json, msgsp"):
        Cache(serializer="yaml")
    with pytest.raises(ValueError, match="signing_key signs pickled values"):
        Cache(serializer="json", signing_key=b"k" * 32)
    with pytest.raises(ValueError, match="expected at least 16; make one with secrets"):
        Cache(serializer="pickle", signing_key=b"short")


def test_a_serializer_of_the_program() -> None:
    class Upper:
        tag, name = 10, "upper"

        def dumps(self, key: bytes, value: Any) -> bytes:
            return repr(value).upper().encode()

        def loads(self, key: bytes, data: bytes) -> Any:
            return key, data

    with Cache(memory="16M", serializer=Upper()) as cache:
        cache["k"] = ["a"]
        assert cache["k"] == (b"k", b"['A']")
    with pytest.raises(TypeError, match="is not a serializer: it has no tag, name, dumps, loads"):
        Cache(serializer=object())  # type: ignore[arg-type]
    Upper.tag = 1
    with pytest.raises(TypeError, match="the tag of a serializer is a number up to 15"):
        Cache(serializer=Upper())


def test_a_value_of_another_serializer_is_an_error_that_names_it(path: Path) -> None:
    with Cache(shared=path, serializer="json") as json, Cache(shared=path) as plain:
        json["k"] = [1]
        with pytest.raises(SerializerError, match="b'k' was stored by serializer 'json', but this"):
            plain["k"]
        with Cache(shared=path, serializer="pickle") as pickled:
            with pytest.raises(SerializerError, match="'json', but this cache uses serializer 'pi"):
                pickled["k"]
            with pytest.raises(SerializerError, match="'json'"):
                pickled.get_many(["k"])
            with pytest.raises(SerializerError, match="'json'"):
                list(pickled.values())
            pickled["k"] = [2]
        with pytest.raises(SerializerError, match="was stored by serializer 'pickle', but this"):
            json["k"]
        signed = Cache(shared=path, serializer="pickle", signing_key=b"k" * 32)
        with signed, pytest.raises(SerializerError, match="'pickle', but this cache uses"):
            signed["k"]


def test_a_signature_guards_key_and_value(path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return exit, ("a value with a wrong signature was unpickled",)

    # Another program can write any bytes with any flags.
    class Forger:
        tag, name = 13, "forger"

        def dumps(self, key: bytes, value: list[bytes]) -> bytes:
            return value[0]

        def loads(self, key: bytes, data: bytes) -> bytes:
            return data

    key = b"k" * 32
    with (
        Cache(shared=path, serializer="pickle", signing_key=key) as signed,
        Cache(shared=path, serializer=Forger()) as forger,
        Cache(shared=path, serializer="pickle", signing_key=b"other" * 8) as other,
    ):
        signed["k"] = ["value"]
        assert signed["k"] == ["value"]
        stored: bytes = forger["k"]
        changed = stored[:-1] + bytes([stored[-1] ^ 1])
        bomb = pickle.dumps(Bomb())
        for forged in (changed, stored[1:], stored[:31], b"", bomb, bytes(32) + bomb):
            forger["k"] = [forged]
            with pytest.raises(SignatureError, match="b'k' has a wrong signature"):
                signed["k"]
        forger["moved"] = [stored]
        with pytest.raises(SignatureError, match="b'moved' has a wrong signature: it was stored"):
            signed["moved"]
        other["k"] = ["value"]
        with pytest.raises(SignatureError):
            signed["k"]


def test_pickle_needs_a_file_that_nobody_else_can_write_to(path: Path) -> None:
    Cache(shared=path).close()
    Cache(shared=path, serializer="pickle").close()
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(UntrustedError, match=f"mode 0{mode:o}, expected a file of user .*sign"):
            Cache(shared=path, serializer="pickle", permissions=mode)
        key = b"k" * 32
        Cache(shared=path, serializer="pickle", signing_key=key, permissions=mode).close()


def test_exceptions_of_serializers_reach_the_caller(cache: Cache) -> None:
    class Failing:
        tag, name = 10, "failing"

        def dumps(self, key: bytes, value: Any) -> Any:
            return value.result()

        def loads(self, key: bytes, data: bytes) -> Any:
            raise ZeroDivisionError(data)

    class Value:
        def __init__(self, result: Any) -> None:
            self.result = result

    with Cache(memory="16M", serializer=Failing()) as cache:
        with pytest.raises(TypeError):
            cache["k"] = Value(lambda: "not bytes")
        with pytest.raises(ZeroDivisionError):
            cache["k"] = Value(lambda: 1 // 0)
        assert "k" not in cache
        cache["k"] = Value(lambda: b"stored")
        with pytest.raises(
            SerializerError, match="b'k' cannot be decoded: ZeroDivisionE"
        ) as raised:
            cache["k"]
        assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("data", "flags"),
    [(b"", 1), (b"1x", 1), (b"--1", 1), (b"9" * 5000, 1), (b"one", 2), (b"", 2), (b"\xff", 11)],
)
def test_damaged_values_are_errors(data: bytes, flags: int) -> None:
    with pytest.raises((LarderError, UnicodeDecodeError)):
        decode(data, flags, b"k")


def test_blanks_after_a_number_that_memcached_adds() -> None:
    assert decode(b"9 ", 1, b"k") == 9


def test_flags_that_no_program_of_ours_writes() -> None:
    for flags in (10, 14, 16, 16 + 11, 1 << 31):
        with pytest.raises(SerializerError, match=f"unknown flags {flags}"):
            decode(b"", flags, b"k")


def test_encode_and_decode_agree() -> None:
    for value in PLAIN:
        data, flags = encode(value, b"k")
        assert decode(data, flags, b"k") == value


def test_text_with_a_lone_surrogate_is_no_unicode(cache: Cache) -> None:
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        cache["k"] = "\ud800"
    with Cache(memory="16M", serializer="pickle") as pickled:
        pickled["k"] = "\ud800"
        assert pickled["k"] == "\ud800"
