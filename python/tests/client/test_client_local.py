"""Hits that are read in the memory of a larderd."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import servers
from scripted import scripted, silent

from larder_cache.client import AsyncClient, Client, HashClient, PooledClient


def requests(server: servers.Server) -> int:
    """Returns how many keys were requested from the server."""
    with Client(server.address, local_reads=False) as client:
        count: int = client.stats()[b"cmd_get"]
        return count


def wait_until(is_done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not is_done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize("client_class", [Client, PooledClient])
def test_hits_are_read_without_a_request(client_class: Any, readable: servers.Server) -> None:
    with client_class(readable.address, default_noreply=False) as client:
        assert client.reads_memory
        client.set("a", b"1", flags=3)
        client.set("b", b"2")
        with readable.paused():
            # The server executes nothing now.
            assert client.get("a") == b"1"
            assert client.get_many(["a", "b"]) == {"a": b"1", "b": b"2"}
            _, token = client.gets("a")
            many = client.gets_many(["a"])
        assert many == {"a": (b"1", token)}
        assert client.cas("a", b"3", token) is True
        assert client.get("a") == b"3"


@pytest.mark.parametrize("client_class", [Client, PooledClient])
def test_misses_are_requested(client_class: Any, readable: servers.Server) -> None:
    with client_class(readable.address, default_noreply=False) as client:
        client.set("a", b"1")
        client.get("a")
        before = requests(readable)
        assert client.get("none", "miss") == "miss"
        assert client.get_many(["a", "none", "nothing"]) == {"a": b"1"}
        # In the requests of several keys are only those that are not in the memory.
        assert requests(readable) - before == 3


@pytest.mark.parametrize("client_class", [Client, PooledClient])
def test_a_read_after_a_change_without_reply_sees_the_change(
    client_class: Any, readable: servers.Server
) -> None:
    with client_class(readable.address) as client:
        client.set("a", b"0", noreply=False)
        client.get("a")
        for number in range(1, 2000):
            client.set("a", b"%d" % number)
            assert client.get("a") == b"%d" % number
            # From here on the memory is read again.
            assert client.get("a") == b"%d" % number
        before = requests(readable)
        client.get("a")
        assert requests(readable) == before
        client.delete("a")
        assert client.get("a") is None


def test_a_change_of_another_thread_does_not_keep_a_pool_from_the_memory(
    readable: servers.Server,
) -> None:
    with PooledClient(readable.address) as client:
        client.set("a", b"1", noreply=False)
        # Two connections; the one with the change is not the last one that was returned.
        first, second = client.client_pool.get(), client.client_pool.get()
        client.client_pool.release(second)
        client.set("a", b"2")
        client.client_pool.release(first)
        assert client.get("a") == b"2"
        before = requests(readable)
        assert client.get("a") == b"2"
        assert requests(readable) == before


def test_changes_of_other_clients_are_seen(readable: servers.Server) -> None:
    with Client(readable.address, default_noreply=False) as client:
        with Client(readable.address, default_noreply=False, local_reads=False) as other:
            for number in range(500):
                other.set("a", b"%d" % number)
                assert client.get("a") == b"%d" % number
            other.flush_all()
            assert client.get("a") is None


@pytest.mark.parametrize("serializer", ["tags", "json"])
def test_values_in_the_memory_have_their_types(serializer: str, readable: servers.Server) -> None:
    with Client(readable.address, serializer=serializer, default_noreply=False) as client:
        assert client.reads_memory
        for value in (5, "text", None, True, 1.5):
            client.set("a", value)
            with readable.paused():
                assert client.get("a", "miss") == value


def test_a_server_that_does_not_share_its_memory_is_asked(larderd: servers.Server) -> None:
    with Client(larderd.address, default_noreply=False) as client:
        assert not client.reads_memory
        client.set("a", b"1")
        assert client.get("a") == b"1"
    with Client(larderd.tcp) as client:
        assert not client.reads_memory


def test_local_reads_can_be_turned_off(readable: servers.Server) -> None:
    with Client(readable.address, local_reads=False, default_noreply=False) as client:
        client.set("a", b"1")
        before = requests(readable)
        assert client.get("a") == b"1"
        assert requests(readable) - before == 1
        assert not client.reads_memory


def test_a_restarted_server_has_another_memory(readable: servers.Server) -> None:
    with Client(readable.address, default_noreply=False) as client:
        client.set("a", b"old")
        assert client.get("a") == b"old"
        readable.restart()
        with pytest.raises(OSError):
            client.version()
        # After the error the client assumes that the server may be another one.
        assert client.get("a") is None
        client.set("a", b"new")
        assert client.get("a") == b"new"
        assert client.reads_memory


def test_a_stopped_server_is_an_error_after_seconds(readable: servers.Server) -> None:
    with Client(readable.address, default_noreply=False, timeout=1) as client:
        client.set("a", b"1")
        client.get("a")
        with readable.paused():

            def fails() -> bool:
                try:
                    assert client.get("a") == b"1"
                except TimeoutError:
                    return True
                return False

            wait_until(fails, "the memory of a stopped server is read")
        # The next request shows that the server runs again.
        assert client.get("a") == b"1"
        wait_until(lambda: client.reads_memory, "the memory is not read again")


def test_a_forked_child_reads_the_memory(readable: servers.Server) -> None:
    with Client(readable.address, default_noreply=False) as client:
        client.set("a", b"1")
        client.get("a")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert client.get("a") == b"1"
                assert client.reads_memory
                client.set("b", b"2")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.get_many(["a", "b"]) == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("client_class", [Client, PooledClient, AsyncClient])
def test_a_child_may_be_forked_while_a_thread_opens_the_memory(
    client_class: Any, readable: servers.Server
) -> None:
    client = client_class(readable.address)

    def child() -> int:
        # Ends a child that waits for the lock. pytest-timeout has another handler.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        with contextlib.suppress(BaseException):
            found = client.get("a", "miss")
            return int((asyncio.run(found) if client_class is AsyncClient else found) != "miss")
        return 1

    # The lock of a thread that does not exist in the child.
    with client._local._opening:
        pid = os.fork()
        if pid == 0:
            os._exit(child())
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_server_that_does_not_answer_is_not_asked_twice() -> None:
    with scripted(silent) as server, Client(server.path, timeout=0.2) as client:
        for number in range(3):
            with pytest.raises(TimeoutError):
                client.get("a")
            # Only the first read also tries to open the memory.
            assert server.connections == 2 + number


def test_threads_read_the_memory(readable: servers.Server) -> None:
    with PooledClient(readable.address, default_noreply=False) as client:
        keys = [f"k{number}" for number in range(100)]
        client.set_many({key: key.encode() for key in keys})
        failures: list[object] = []

        def work() -> None:
            for _ in range(50):
                for key in keys:
                    if client.get(key) != key.encode():
                        failures.append(key)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_each_server_of_several_shares_its_memory(readable: servers.Server) -> None:
    with servers.larderd(readers=True) as second:
        with HashClient([readable.address, second.address], default_noreply=False) as client:
            items = {f"k{number}": b"%d" % number for number in range(50)}
            assert client.set_many(items) == []
            # The first read of each client opens its memory.
            assert client.get_many(items) == items
            with readable.paused(), second.paused():
                assert client.get_many(items) == items


def test_async_hits_are_read_without_a_request(readable: servers.Server) -> None:
    async def run() -> None:
        async with AsyncClient(readable.address) as client:
            await client.set("a", b"1")
            assert await client.get("a") == b"1"
            with readable.paused():
                assert await client.get("a") == b"1"
                assert await client.get_many(["a"]) == {"a": b"1"}
                assert (await client.gets("a"))[0] == b"1"
            assert client.reads_memory
            for number in range(500):
                await client.set("a", b"%d" % number, noreply=True)
                assert await client.get("a") == b"%d" % number
            before = requests(readable)
            await client.get("a")
            assert requests(readable) == before
            assert await client.get("none") is None

    asyncio.run(run())


def test_copies_in_a_near_cache_are_read_in_its_memory() -> None:
    with servers.larderd("--followers", "4") as origin:
        with servers.larderd("--origin", origin.socket_path, readers=True) as near:
            with Client(near.address) as client, Client(origin.address) as far:
                far.set("a", b"1", noreply=False)

                def is_read_without_a_request() -> bool:
                    assert client.get("a") == b"1"
                    before = requests(near)
                    assert client.get("a") == b"1"
                    return requests(near) == before

                wait_until(is_read_without_a_request, "the copy is not read in the memory")
                for number in range(200):
                    client.set("a", b"%d" % number)
                    assert client.get("a") == b"%d" % number
                far.set("a", b"far", noreply=False)
                wait_until(lambda: client.get("a") == b"far", "the change does not arrive")
