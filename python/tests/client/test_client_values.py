"""Values of other types than bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import servers

import larder_cache
from larder_cache.client import (
    AsyncClient,
    Client,
    HashClient,
    MemcacheIllegalInputError,
    PooledClient,
)

KEY = b"k" * 32
NUMBERS: list[Any] = [5, -(2**70), 1.5, float("inf"), True, False]
PLAIN: list[Any] = [b"bytes", b"", "text", "ключ", None, *NUMBERS]
NESTED = {"a": [1, 2.5, None, "x"], "b": {"c": True}}
OPTIONS: dict[str, dict[str, Any]] = {
    "tags": {"serializer": "tags"},
    "json": {"serializer": "json"},
    "msgspec": {"serializer": "msgspec"},
    "signed": {"serializer": "pickle", "signing_key": KEY},
    "trusted": {"serializer": "pickle", "trust_server": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_keep_their_type(name: str, any_server: servers.Server) -> None:
    values = PLAIN if name == "tags" else [*PLAIN, NESTED]
    for make in (
        lambda **options: Client(any_server.address, **options),
        lambda **options: PooledClient(any_server.address, **options),
        lambda **options: HashClient([any_server.address], **options),
    ):
        with make(default_noreply=False, key_prefix=b"p:", **OPTIONS[name]) as client:
            for number, value in enumerate(values):
                client.set(f"v{number}", value)
            for number, value in enumerate(values):
                found = client.get(f"v{number}", "default")
                assert (type(found), found) == (type(value), value)
            found = client.get_many([f"v{number}" for number in range(len(values))])
            assert list(found.values()) == values
            value, token = client.gets("v0")
            assert client.cas("v0", values[-1], token) is True
            assert client.get("v0") == values[-1]


@pytest.mark.parametrize("name", OPTIONS)
def test_async_clients_have_the_same_values(name: str, larderd: servers.Server) -> None:
    async def run() -> None:
        async with AsyncClient(larderd.address, **OPTIONS[name]) as client:
            for value in PLAIN if name == "tags" else [*PLAIN, NESTED]:
                await client.set("v", value)
                found = await client.get("v", "default")
                assert (type(found), found) == (type(value), value)
                with Client(larderd.address, **OPTIONS[name]) as blocking:
                    assert blocking.get("v", "default") == value

    asyncio.run(run())


def test_counters_are_integers_with_tags(larderd: servers.Server) -> None:
    with Client(larderd.address, serializer="tags", default_noreply=False) as client:
        client.set("a", 10)
        assert client.incr("a", 5) == 15
        assert client.get("a") == 15
        client.set("t", "text")
        assert client.append("t", " ü") is True
        assert client.get("t") == "text ü"
        with pytest.raises(TypeError, match="append adds bytes or str"):
            client.append("t", 5)


def test_other_types_need_a_serializer(larderd: servers.Server) -> None:
    with Client(larderd.address, serializer="tags") as client:
        with pytest.raises(TypeError, match="serializer"):
            client.set("a", {})
    with pytest.raises(ValueError, match="unknown serializer 'yaml'"):
        Client(larderd.address, serializer="yaml")


def test_values_of_another_serializer_are_errors(larderd: servers.Server) -> None:
    with Client(larderd.address, serializer="json", default_noreply=False) as writer:
        writer.set("a", NESTED)
    with Client(larderd.address, serializer="msgspec") as client:
        with pytest.raises(larder_cache.SerializerError, match="json"):
            client.get("a")
        # The connection is not to blame.
        assert client.sock is not None
    with Client(larderd.address, serializer="msgspec", ignore_exc=True) as client:
        assert client.get("a", "miss") == "miss"


def test_unsigned_pickles_are_read_only_from_a_trusted_server(larderd: servers.Server) -> None:
    for client_class in (Client, PooledClient, AsyncClient):
        with pytest.raises(larder_cache.UntrustedError, match=r"signing_key.*trust_server=True"):
            client_class(larderd.address, serializer="pickle")
    with pytest.raises(larder_cache.UntrustedError):
        HashClient([larderd.address], serializer="pickle")
    with Client(larderd.address, serializer="pickle", trust_server=True) as writer:
        writer.set("a", NESTED, noreply=False)
    with Client(larderd.address, serializer="pickle", signing_key=KEY) as client:
        with pytest.raises(larder_cache.SerializerError):
            client.get("a")


def test_signatures_bind_values_to_keys(larderd: servers.Server) -> None:
    options: dict[str, Any] = {"serializer": "pickle", "default_noreply": False}
    with Client(larderd.address, signing_key=KEY, **options) as client:
        client.set("admin", NESTED)
        line, data = larder_line_and_data(larderd, "admin")
        with Client(larderd.address, default_noreply=False) as forger:
            forger.set("guest", data, flags=int(line.split()[2]))
            forger.set("changed", data[:-3] + b"xx.", flags=int(line.split()[2]))
        for key in ("guest", "changed"):
            with pytest.raises(larder_cache.SignatureError):
                client.get(key)
    with Client(larderd.address, signing_key=b"other" * 8, **options) as client:
        with pytest.raises(larder_cache.SignatureError):
            client.get("admin")


def larder_line_and_data(server: servers.Server, key: str) -> tuple[bytes, bytes]:
    with Client(server.address) as raw:
        line, _, rest = raw.raw_command(f"get {key}", "END\r\n").partition(b"\r\n")
        return line, rest[:-2]


def test_arguments_that_contradict_each_other_are_refused() -> None:
    for options, message in [
        ({"signing_key": KEY}, "needs serializer='pickle'"),
        ({"serializer": "json", "signing_key": KEY}, "needs serializer='pickle'"),
        ({"serializer": "json", "deserializer": lambda key, value, flags: 1}, "deserializer"),
        ({"serializer": "json", "serde": object()}, "leave out serializer"),
        ({"serializer": "pickle", "signing_key": b"short"}, "at least 16"),
    ]:
        with pytest.raises(ValueError, match=message):
            Client("host", **options)  # type: ignore[arg-type]


class JsonSerde:
    """A serde in the form of pymemcache."""

    def serialize(self, key: bytes, value: Any) -> tuple[Any, int]:
        return json.dumps([key.decode(), value]), 7

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        return key, json.loads(value), flags


def test_a_serde_receives_the_stored_key_and_then_the_key_of_the_caller(
    larderd: servers.Server,
) -> None:
    with Client(larderd.address, serde=JsonSerde(), key_prefix=b"p:") as client:
        client.set("a", {"x": 1}, noreply=False)
        assert client.get("a") == ("a", ["p:a", {"x": 1}], 7)
        assert client.get(b"a") == (b"a", ["p:a", {"x": 1}], 7)


def test_functions_may_convert_values(larderd: servers.Server) -> None:
    with Client(
        larderd.address,
        serializer=lambda key, value: (value * 2, 3),
        deserializer=lambda key, value, flags: (value, flags),
    ) as client:
        client.set("a", b"x", noreply=False)
        assert client.get("a") == (b"xx", 3)


def test_text_must_have_the_encoding(larderd: servers.Server) -> None:
    with Client(larderd.address, encoding="utf-8") as client:
        client.set("a", "ключ", noreply=False)
        assert client.get("a") == "ключ".encode()
    with Client(larderd.address) as client:
        with pytest.raises(MemcacheIllegalInputError, match="binary-safe"):
            client.set("a", "ключ")
