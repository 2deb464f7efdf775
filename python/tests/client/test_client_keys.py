"""Arguments that are refused before anything is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted import scripted, serves

from larder_cache.client import (
    AsyncClient,
    Client,
    HashClient,
    MemcacheIllegalInputError,
    PooledClient,
)

KEYS: list[tuple[Any, str]] = [
    ("", "empty"),
    (b"", "empty"),
    ("a b", "whitespace"),
    (" a", "whitespace"),
    ("a\t", "whitespace"),
    ("a\r\nflush_all", "whitespace"),
    ("a\n", "whitespace"),
    ("a\0", "null"),
    (b"a\x01", "control character"),
    ("a\x7f", "control character"),
    ("k" * 251, "too long"),
    (b"k" * 251, "too long"),
    ("ключ", "Non-ASCII"),
]

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("get", ()),
    ("gets", ()),
    ("gat", ()),
    ("set", (b"v",)),
    ("add", (b"v",)),
    ("append", (b"v",)),
    ("cas", (b"v", 1)),
    ("incr", (1,)),
    ("delete", ()),
    ("touch", ()),
]

ARGUMENTS: list[tuple[str, tuple[Any, ...]]] = [
    ("set", ("a", b"v", 1.5)),
    ("set", ("a", b"v", "1")),
    ("set", ("a", "ключ")),
    ("set", ("a", b"v", 0, False, -1)),
    ("cas", ("a", b"v", "x")),
    ("cas", ("a", b"v", None)),
    ("incr", ("a", "1")),
    ("touch", ("a", "1")),
    ("gat", ("a", "1")),
]


@pytest.mark.parametrize("key, message", KEYS)
def test_an_illegal_key_is_refused(key: Any, message: str) -> None:
    with scripted(serves) as server:
        for client in (Client(server.path), PooledClient(server.path), HashClient([server.path])):
            for name, args in CALLS:
                with pytest.raises(MemcacheIllegalInputError, match=message):
                    getattr(client, name)(key, *args)
            for many in (client.get_many, client.delete_many):
                with pytest.raises(MemcacheIllegalInputError, match=message):
                    many(["legal", key])
            with pytest.raises(MemcacheIllegalInputError, match=message):
                client.set_many({"legal": b"v", key: b"v"})
        assert server.connections == 0


@pytest.mark.parametrize("key, message", KEYS)
def test_an_illegal_key_is_refused_by_async_clients(key: Any, message: str) -> None:
    async def run() -> None:
        with scripted(serves) as server:
            client = AsyncClient(server.path)
            for name, args in CALLS:
                with pytest.raises(MemcacheIllegalInputError, match=message):
                    await getattr(client, name)(key, *args)
            with pytest.raises(MemcacheIllegalInputError, match=message):
                await client.get_many(["legal", key])
            assert server.connections == 0

    asyncio.run(run())


@pytest.mark.parametrize("name, args", ARGUMENTS)
def test_an_illegal_argument_is_refused(name: str, args: tuple[Any, ...]) -> None:
    with scripted(serves) as server:
        client = Client(server.path)
        with pytest.raises(MemcacheIllegalInputError):
            getattr(client, name)(*args)
        with pytest.raises(MemcacheIllegalInputError):
            asyncio.run(getattr(AsyncClient(server.path), name)(*args))
        assert server.connections == 0


def test_illegal_input_is_refused_also_if_errors_are_ignored() -> None:
    client = Client("/nowhere", ignore_exc=True)
    assert client.get("a", "default") == "default"
    for call in (client.get, client.stats, PooledClient("/nowhere", ignore_exc=True).get):
        with pytest.raises(MemcacheIllegalInputError):
            call("a b")


def test_the_longest_keys_are_legal() -> None:
    client = Client("/nowhere", key_prefix=b"p" * 50)
    assert client.check_key("k" * 200) == b"p" * 50 + b"k" * 200
    with pytest.raises(MemcacheIllegalInputError, match="251 bytes"):
        client.check_key("k" * 201)
    # Bytes of any other value are legal.
    assert client.check_key(bytes(range(0x80, 0x100)))


def test_a_prefix_is_bytes_or_text() -> None:
    assert Client("host", key_prefix="p").key_prefix == b"p"
    number: Any = 1
    for client_class in (Client, PooledClient, AsyncClient):
        with pytest.raises(TypeError, match="key_prefix"):
            client_class("host", key_prefix=number)
    with pytest.raises(TypeError, match="key_prefix"):
        HashClient(["host"], key_prefix=number)
