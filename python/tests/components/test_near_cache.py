"""Programs in Python and PHP at one near cache: a larderd that copies the items of another server,
and that shares its memory with the processes of its machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import servers

from larder_cache.client import AsyncClient, Client

from .languages import Php
from .processes import wait_until

CONNECT = "$client = Larder\\Client::connect($argv[1]);"


@pytest.fixture
def origin() -> Iterator[servers.Server]:
    with servers.larderd("--followers=4") as running:
        yield running


@pytest.fixture
def near(origin: servers.Server) -> Iterator[servers.Server]:
    with servers.larderd(f"--origin={origin.socket_path}", readers=True) as running:
        yield running


@pytest.fixture(scope="module")
def php() -> Php:
    return Php()


def client_of(server: servers.Server) -> Client:
    return Client(server.address, serializer="tags", default_noreply=False, timeout=5)


def is_copied(client: Client, key: str) -> bool:
    """Reads a key, and returns True if the near cache fetched nothing from its origin for that."""
    before = client.stats("larder")[b"near_fetches"]
    client.get(key)
    return bool(client.stats("larder")[b"near_fetches"] == before)


def test_values_and_their_types(php: Php, near: servers.Server, origin: servers.Server) -> None:
    with client_of(near) as client:
        for key, value in {"text": "grüß", "number": 7, "float": 0.5, "yes": True}.items():
            client.set(key, value)
        found = php.run(
            CONNECT + 'echo json_encode([$client->get("text"), $client->get("number"),'
            ' $client->get("float"), $client->get("yes"), $client->set("php", -3)]);',
            near.socket_path,
        )
        assert found == ["grüß", 7, 0.5, True, True]
        assert client.get("php") == -3
    with client_of(origin) as client:
        assert client.get("number") == 7 and client.get("php") == -3


def test_hits_are_read_in_the_memory_of_the_near_cache(php: Php, near: servers.Server) -> None:
    with client_of(near) as client:
        client.set("key", "value")
        # The near cache shares its memory as soon as it follows its origin, which takes a moment.
        wait_until(lambda: client.get("key") == "value" and client.reads_memory)
        wait_until(lambda: is_copied(client, "key"))
        # A process that is stopped answers no request.
        with near.paused():
            assert client.get("key") == "value"
            assert client.get_many(["key"]) == {"key": "value"}

        async def read() -> object:
            async with AsyncClient(near.address, serializer="tags", timeout=5) as reader:
                while await reader.get("key") != "value" or not reader.reads_memory:
                    await asyncio.sleep(0.01)
                with near.paused():
                    return await reader.get("key")

        assert asyncio.run(asyncio.wait_for(read(), 10)) == "value"


def test_a_change_at_the_origin_reaches_both_languages(
    php: Php, near: servers.Server, origin: servers.Server
) -> None:
    read = CONNECT + 'echo json_encode($client->get("key"));'
    with client_of(near) as client, client_of(origin) as elsewhere:
        for number in range(5):
            elsewhere.set("key", number)
            wait_until(lambda number=number: client.get("key") == number, 5)
            assert php.run(read, near.socket_path) == number
