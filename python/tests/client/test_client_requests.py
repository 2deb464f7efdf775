"""The requests of the blocking clients, at a larderd and at a memcached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import servers

from larder_cache.client import (
    AsyncClient,
    AsyncHashClient,
    Client,
    HashClient,
    MemcacheClientError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnknownCommandError,
    PooledClient,
)


@pytest.fixture(params=[Client, PooledClient, HashClient])
def client(request: pytest.FixtureRequest, any_server: servers.Server) -> Iterator[Any]:
    """Each class of clients, with each server. The server has no items."""
    address: Any = any_server.address
    if request.param is HashClient:
        address = [address]
    with request.param(address, default_noreply=False, timeout=10) as client:
        client.flush_all()
        yield client


def test_a_value_is_stored_and_read(client: Any) -> None:
    assert client.get("a") is None
    assert client.get("a", "default") == "default"
    assert client.set("a", b"1") is True
    assert client.get("a") == b"1"
    assert client.get(b"a") == b"1"
    assert client.add("a", b"2") is False
    assert client.add("b", b"2") is True
    assert client.replace("a", b"3") is True
    assert client.replace("c", b"3") is False
    assert client.get_many(["a", "b", "c"]) == {"a": b"3", "b": b"2"}
    assert client.get_many([]) == {}
    assert client.delete("a") is True
    assert client.delete("a") is False


def test_values_of_other_types_are_stored_as_text(client: Any) -> None:
    for value, stored in [(5, b"5"), ("text", b"text"), (1.5, b"1.5"), (bytearray(b"x"), b"x")]:
        client.set("a", value)
        assert client.get("a") == stored


def test_append_and_prepend_extend_a_value(client: Any) -> None:
    assert client.append("a", b"x") is False
    client.set("a", b"middle")
    assert client.append("a", b" end") is True
    assert client.prepend("a", b"start ") is True
    assert client.get("a") == b"start middle end"


def test_cas_stores_unless_the_item_has_changed(client: Any) -> None:
    assert client.gets("a") == (None, None)
    assert client.gets("a", 1, 2) == (1, 2)
    assert client.cas("a", b"x", 1) is None
    client.set("a", b"1")
    value, token = client.gets("a")
    assert value == b"1"
    assert client.gets_many(["a"]) == {"a": (b"1", token)}
    assert client.cas("a", b"2", token) is True
    assert client.cas("a", b"3", token) is False
    assert client.cas("a", b"3", int(token)) is False
    assert client.cas("a", b"3", token.decode()) is False
    assert client.get("a") == b"2"


def test_counters_wrap_and_stop_at_zero(client: Any) -> None:
    assert client.incr("a", 1) is None
    client.set("a", "10")
    assert client.incr("a", 5) == 15
    assert client.decr("a", 6) == 9
    assert client.decr("a", 100) == 0
    assert client.incr("a", 2**64 - 1) == 2**64 - 1
    assert client.incr("a", 1) == 0
    client.set("a", "text")
    with pytest.raises(MemcacheClientError, match="non-numeric"):
        client.incr("a", 1)
    assert client.get("a") == b"text"


def test_items_expire(client: Any) -> None:
    client.set("never", b"1", 0)
    client.set("past", b"1", -1)
    assert client.get("past") is None
    client.set("soon", b"1")
    assert client.touch("soon", 1) is True
    assert client.touch("none", 1) is False
    assert client.gat("never", 1) == b"1"
    assert client.gat("none", 1, "default") == "default"
    value, token = client.gats("never", 1)
    assert (value, token.isdigit()) == (b"1", True)
    assert client.gats("none", 1) == (None, None)
    deadline = time.monotonic() + 10
    while client.get_many(["never", "soon"]):
        assert time.monotonic() < deadline, "the items do not expire"
        time.sleep(0.05)


def test_many_items_are_stored_read_and_removed(client: Any) -> None:
    # More than one request needs, in both directions.
    items = {f"{'k' * 200}{number}": b"%d" % number for number in range(2500)}
    assert client.set_many(items) == []
    assert client.get_many(items) == items
    assert client.delete_many(items) is True
    assert client.get_many(items) == {}


def test_a_key_may_be_given_twice(client: Any) -> None:
    client.set("a", b"1")
    assert client.get_many(["a", "a"]) == {"a": b"1"}
    if not isinstance(client, HashClient):
        assert client.get_many(["a", b"a"]) == {"a": b"1", b"a": b"1"}


def test_many_long_values_do_not_fill_the_sockets(client: Any) -> None:
    """Client and server must not both wait until the other one reads."""
    items = {f"long:{number}": bytes(10_000) for number in range(1000)}
    assert client.set_many(items) == []
    assert client.set_many(items, noreply=True) == []
    assert len(client.get_many(items)) == 1000
    assert client.delete_many(items) is True


def test_set_many_reports_the_keys_that_were_not_stored(client: Any) -> None:
    with pytest.raises(MemcacheServerError, match="too large"):
        client.set_many({"a": b"1", "large": bytes(2 << 20), "b": b"2"})
    # Each key was stored or refused, and the connection is usable.
    assert client.get_many(["a", "large", "b"]) == {"a": b"1", "b": b"2"}


def test_large_values_are_stored_and_read(client: Any) -> None:
    value = bytes(range(256)) * 4000
    assert client.set("large", value) is True
    assert client.get("large") == value
    assert client.get_many(["large", "a"]) == {"large": value}


def test_a_value_that_is_too_large_is_an_error(client: Any) -> None:
    with pytest.raises(MemcacheServerError, match="object too large"):
        client.set("large", bytes(2 << 20))
    assert client.get("large") is None


def test_changes_without_a_reply_are_executed_in_order(client: Any) -> None:
    for number in range(100):
        assert client.set("a", b"%d" % number, noreply=True) is True
    assert client.get("a") == b"99"
    assert client.incr("a", 1, noreply=True) is None
    assert client.get("a") == b"100"
    assert client.append("a", b"x", noreply=True) is True
    assert client.touch("a", 0, noreply=True) is True
    assert client.delete("b", noreply=True) is True
    assert client.set_many({"b": b"1", "c": b"2"}, noreply=True) == []
    assert client.get_many(["a", "b", "c"]) == {"a": b"100x", "b": b"1", "c": b"2"}
    assert client.delete_many(["b", "c"], noreply=True) is True
    assert client.get_many(["a", "b", "c"]) == {"a": b"100x"}
    client.flush_all(noreply=True)
    assert client.get("a") is None


def test_flags_are_stored(client: Any, any_server: servers.Server) -> None:
    client.set("a", b"1", flags=2**32 - 1)
    with Client(any_server.address) as raw:
        assert raw.raw_command("get a", "END\r\n") == b"VALUE a 4294967295 1\r\n1\r\n"
    for flags in (-1, 2**32, "1", 1.0):
        with pytest.raises(MemcacheIllegalInputError, match="flags"):
            client.set("a", b"1", flags=flags)


def test_a_prefix_belongs_to_all_keys(any_server: servers.Server) -> None:
    with Client(any_server.address, key_prefix="p:", default_noreply=False) as client:
        client.set("a", b"1")
        assert client.get_many(["a"]) == {"a": b"1"}
        with Client(any_server.address) as other:
            assert other.get("p:a") == b"1"


def test_unicode_keys_are_stored_in_utf_8(any_server: servers.Server) -> None:
    with Client(any_server.address, allow_unicode_keys=True, default_noreply=False) as client:
        client.set("ключ", b"1")
        assert client.get_many(["ключ"]) == {"ключ": b"1"}
        with Client(any_server.address) as other:
            assert other.get("ключ".encode()) == b"1"


@pytest.mark.parametrize("client_class", [Client, PooledClient])
def test_a_client_is_like_a_dict(client_class: Any, any_server: servers.Server) -> None:
    with client_class(any_server.address) as client:
        client["a"] = b"1"
        assert client["a"] == b"1"
        del client["a"]
        with pytest.raises(KeyError):
            client["a"]


@pytest.mark.parametrize("client_class", [Client, PooledClient])
def test_the_server_describes_itself(client_class: Any, any_server: servers.Server) -> None:
    with client_class(any_server.address) as client:
        assert client.version().count(b".") == 2
        stats = client.stats()
        assert isinstance(stats[b"rusage_user"], float)
        assert stats[b"limit_maxbytes"] == 64 << 20
        assert client.stats("settings")[b"growth_factor"] == 1.25
        assert client.stats("reset") == {}
        assert client.cache_memlimit(64) is True
        assert client.raw_command("mn") == b"MN"
        assert client.quit() is None
        assert client.version().count(b".") == 2


def test_a_command_that_the_server_lacks_is_an_error(any_server: servers.Server) -> None:
    with Client(any_server.address) as client:
        with pytest.raises(MemcacheUnknownCommandError, match="nonsense"):
            client.raw_command("nonsense")
        # Its error ends the response, whatever the expected end is.
        with pytest.raises(MemcacheUnknownCommandError, match="nonsense"):
            client.raw_command("nonsense", "END\r\n")


def test_shutdown_stops_the_server() -> None:
    with servers.larderd("-A") as server, Client(server.address) as client:
        client.shutdown(graceful=True)
        # The server may still answer while it stops.
        deadline = time.monotonic() + 30
        with pytest.raises(OSError):
            while time.monotonic() < deadline:
                client.version()


def test_items_are_removed_by_prefix(larderd: servers.Server) -> None:
    with Client(larderd.address, key_prefix=b"site:", default_noreply=False) as client:
        client.flush_all()
        client.set_many({f"a:{number}": b"x" for number in range(1000)})
        client.set("b", b"y")
        assert client.remove_prefix("a:") == 1000
        assert client.remove_prefix("a:") == 0
        assert client.get_many(["a:1", "b"]) == {"b": b"y"}
        assert client.remove_prefix("") == 1
        with pytest.raises(MemcacheIllegalInputError, match="whitespace"):
            client.remove_prefix("a b")
    with HashClient([larderd.address], default_noreply=False) as several:
        several.set("a:1", b"x")
        assert several.remove_prefix("a:") == 1


def test_memcached_cannot_remove_by_prefix(memcached: servers.Server) -> None:
    with Client(memcached.address) as client:
        with pytest.raises(MemcacheUnknownCommandError, match="larderd has it"):
            client.remove_prefix("a")


def test_servers_have_addresses_in_several_forms(larderd: servers.Server) -> None:
    host, port = larderd.tcp
    for address in (larderd.tcp, f"{host}:{port}", larderd.address, larderd.socket_path):
        with Client(address) as client:
            assert client.version()
    # localhost may also have the address ::1, at which the server does not listen.
    with Client(("localhost", port), no_delay=True) as client:
        assert client.version()
    with pytest.raises(ValueError, match="port 'x'"):
        Client("host:x")


@pytest.mark.parametrize("port", [-1, 0, 65_536, 70_000, 11_211 + 65_536])
def test_ports_out_of_range_are_errors(port: int) -> None:
    expected = f"the port {port}, expected a number from 1 to 65535"
    for address in (f"host:{port}", f"[::1]:{port}", ("host", port), ("host", str(port))):
        for client_class in (Client, PooledClient, AsyncClient):
            with pytest.raises(ValueError, match=expected):
                client_class(address)  # type: ignore[arg-type]
        for several in (HashClient, AsyncHashClient):
            with pytest.raises(ValueError, match=expected):
                several([address])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=expected):
        HashClient([]).add_server("host", port)


def test_a_port_is_a_number() -> None:
    for port in ("", "x", "1_1", " 1", None, 1.5, True):
        with pytest.raises(ValueError, match="expected a number from 1 to 65535"):
            Client(("host", port))  # type: ignore[arg-type]
        if isinstance(port, str):
            with pytest.raises(ValueError, match=f"the port '{port}', expected a number"):
                Client(f"host:{port}")
    assert Client("host:65535").server == ("host", 65_535)
    for address in (("host", 65_535), ("host", "65535")):
        assert Client(address).server == address  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unsupported server specification"):
        Client(("host",))  # type: ignore[arg-type]


def test_several_servers_are_a_list() -> None:
    for servers_class in (HashClient, AsyncHashClient):
        for address in ("127.0.0.1:1", "", b"127.0.0.1:1", ("127.0.0.1", 1)):
            with pytest.raises(TypeError, match=r"servers is b?[('].*, expected a list of servers"):
                servers_class(address)  # type: ignore[arg-type]
        assert list(servers_class(iter(["a:1", ("b", 2)])).clients) == ["a:1", "b:2"]
        assert list(servers_class(("a:1", ("b", 2))).clients) == ["a:1", "b:2"]
