"""Several servers: the placement of keys, and servers that fail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import servers

from larder_cache.client import (
    Client,
    HashClient,
    KetamaHash,
    MemcacheError,
    PooledClient,
    RendezvousHash,
)
from larder_cache.client.hashers import ring_name


@pytest.fixture
def two() -> Iterator[list[servers.Server]]:
    """Two servers of this test."""
    with servers.larderd() as first, servers.larderd() as second:
        yield [first, second]


def addresses(several: list[servers.Server]) -> list[Any]:
    return [server.address for server in several]


def placed(hasher: Any, nodes: list[str]) -> str:
    for node in nodes:
        hasher.add_node(node)
    return "".join(str(nodes.index(hasher.get_node(f"key:{number}"))) for number in range(100))


def test_ketama_is_that_of_libmemcached() -> None:
    nodes = ["10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "cache.example"]
    # The owners of key:0 to key:99 in libmemcached 1.1.4, with MD5 and weighted ketama.
    expected = (
        "33433122330131211201043112404132424222213140201243"
        "31041430130103443421303443321433212320130404421101"
    )
    assert placed(KetamaHash(), [f"{node}:11211" for node in nodes]) == expected
    assert (ring_name("host:11211"), ring_name("host:11212")) == ("host", "host:11212")
    assert ring_name("/run/sock") == "/run/sock:0"


def test_rendezvous_is_that_of_pymemcache() -> None:
    nodes = ["10.0.1.1:11211", "10.0.1.2:11211", "/run/sock"]
    # The owners of key:0 to key:99 in pymemcache 4.0.0.
    expected = (
        "00112022101220021002020020000002201121221120022001020010212121221211211212001012"
        "00010001011022010012"
    )
    assert placed(RendezvousHash(), nodes) == expected
    hasher = RendezvousHash(nodes)
    assert [hasher.get_node(key) for key in (b"key:1", "ключ")] == [nodes[1]] * 2


@pytest.mark.parametrize("hasher", [KetamaHash, RendezvousHash])
def test_few_keys_move_if_a_server_leaves(hasher: Any) -> None:
    nodes = [f"10.0.0.{number}:11211" for number in range(5)]
    placement = hasher()
    assert placement.get_node("key") is None
    for node in nodes:
        placement.add_node(node)
        placement.add_node(node)
    keys = [f"key:{number}" for number in range(1000)]
    before = {key: placement.get_node(key) for key in keys}
    placement.remove_node(nodes[2])
    moved = {key for key in keys if placement.get_node(key) != before[key]}
    assert moved == {key for key in keys if before[key] == nodes[2]}
    assert 100 < len(moved) < 300
    with pytest.raises(ValueError, match="No such node"):
        placement.remove_node(nodes[2])


@pytest.mark.parametrize("hasher", ["ketama", "rendezvous", RendezvousHash])
@pytest.mark.parametrize("use_pooling", [False, True])
def test_each_server_has_a_part_of_the_keys(
    hasher: Any, use_pooling: bool, two: list[servers.Server]
) -> None:
    items = {f"k{number}": b"%d" % number for number in range(200)}
    with HashClient(
        addresses(two), hasher=hasher, use_pooling=use_pooling, default_noreply=False
    ) as client:
        assert client.set_many(items) == []
        assert client.get_many(items) == items
        assert {type(one) for one in client.clients.values()} == {
            PooledClient if use_pooling else Client
        }
        counts = [stats[b"curr_items"] for stats in client.stats().values()]
        assert sum(counts) == 200
        assert all(count > 40 for count in counts)
        tokens = client.gets_many(["k1", "k2"])
        assert client.cas("k1", b"x", tokens["k1"][1]) is True
        assert client.get("k1") == b"x"
        assert client.delete_many(["k1", "k2"]) is True
        assert client.get_many(["k1", "k2", "k3"]) == {"k3": b"3"}
        assert client.remove_prefix("k") == 198
        client.set_many(items)
        client.flush_all()
        assert client.get_many(items) == {}
        client.quit()


def test_a_list_of_servers_makes_a_hash_client() -> None:
    client = Client(["a:1", "b:2"], timeout=3, hasher="rendezvous")  # type: ignore[call-arg]
    assert isinstance(client, HashClient)
    assert {one.timeout for one in client.clients.values()} == {3}
    assert isinstance(Client(server=["a:1"]), HashClient)
    with pytest.raises(TypeError, match="keyword"):
        Client(["a:1"], None)
    with pytest.raises(ValueError, match="unknown hasher 'md5'"):
        HashClient([], hasher="md5")


def keys_of(client: HashClient, server: servers.Server, count: int) -> list[str]:
    keys = (f"k{number}" for number in range(1000))
    return [key for key in keys if client.hasher.get_node(key) == server.socket_path][:count]


def test_a_dead_server_loses_its_keys_and_returns(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 1, "retry_timeout": 0.2, "dead_timeout": 0.5}
    with HashClient(addresses(two), default_noreply=False, **options) as client:
        key = keys_of(client, two[0], 1)[0]
        client.set(key, b"1")
        two[0].kill()
        with pytest.raises(OSError):
            client.get(key)
        # While it rests, its keys are misses.
        assert client.get(key, "miss") == "miss"
        assert client.set(key, b"2") is False
        assert client.set_many({key: b"2"}) == [key]
        time.sleep(0.3)
        with pytest.raises(OSError):
            client.get(key)
        # Now it is dead, and the other server has its keys.
        assert client.set(key, b"3") is True
        assert client.get(key) == b"3"
        two[0].start()
        time.sleep(0.6)
        assert client.get(key) is None
        assert client.set(key, b"4") is True
        with Client(two[0].address) as direct:
            assert direct.get(key) == b"4"


def test_errors_are_ignored_if_that_is_chosen(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 0, "dead_timeout": 60, "ignore_exc": True}
    with HashClient(addresses(two), default_noreply=False, **options) as client:
        keys = [keys_of(client, server, 1)[0] for server in two]
        for server in two:
            server.kill()
        assert client.get(keys[0], "miss") == "miss"
        assert client.set_many(dict.fromkeys(keys, b"1")) != []
        assert client.get_many(keys) == {}
        # All servers are dead now.
        assert client.set(keys[0], b"1") is False
        assert sorted(client.set_many(dict.fromkeys(keys, b"1"))) == sorted(keys)
        assert client.gets("a") == (None, None)
        assert client.delete_many(keys) is True
        client.flush_all()
        client.ignore_exc = False
        with pytest.raises(MemcacheError, match="All servers"):
            client.get("a")


def test_servers_join_and_leave(two: list[servers.Server]) -> None:
    with HashClient([two[0].address], default_noreply=False) as client:
        items = {f"k{number}": b"%d" % number for number in range(100)}
        client.set_many(items)
        client.add_server(two[1].address)
        stayed = client.get_many(items)
        assert 20 < len(stayed) < 80
        client.remove_server(two[1].address)
        assert client.get_many(items) == items
        time.sleep(0.01)
        # A server that was removed does not return.
        assert client.clients.keys() == {two[0].socket_path}


def test_an_invalid_response_is_not_a_failure_of_the_server(two: list[servers.Server]) -> None:
    with HashClient(addresses(two), default_noreply=False) as client:
        client.set("text", b"x")
        with pytest.raises(MemcacheError):
            client.incr("text", 1)
        assert client.get("text") == b"x"
