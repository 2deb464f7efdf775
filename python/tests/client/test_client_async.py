"""The client for asyncio: requests, cancellation, timeouts and event loops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
from typing import Any

import pytest
import servers
from scripted import request, scripted, serves, silent

from larder_cache.client import (
    AsyncClient,
    KeepaliveOpts,
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)


async def test_the_requests_are_those_of_client(any_server: servers.Server) -> None:
    async with AsyncClient(any_server.address, timeout=20) as client:
        assert await client.flush_all() is True
        assert await client.get("a") is None
        assert await client.set("a", b"1") is True
        assert await client.add("a", b"2") is False
        assert await client.replace("b", b"2") is False
        assert await client.append("a", b"2") is True
        assert await client.prepend("a", b"0") is True
        assert await client.get("a") == b"012"
        assert await client.gets("none", 1, 2) == (1, 2)
        _, token = await client.gets("a")
        assert await client.cas("a", b"5", token) is True
        assert await client.cas("a", b"6", token) is False
        assert await client.cas("none", b"6", token) is None
        assert await client.incr("a", 5) == 10
        assert await client.decr("a", 1) == 9
        assert await client.incr("none", 1) is None
        assert await client.touch("a", 100) is True
        assert await client.gat("a", 0) == b"9 "
        assert (await client.gats("a", 0))[0] == b"9 "
        assert await client.delete("a") is True
        assert await client.delete("a") is False
        items = {f"{'k' * 200}{number}": b"%d" % number for number in range(2500)}
        assert await client.set_many(items) == []
        assert await client.get_many(items) == items
        assert len(await client.gets_many(items)) == 2500
        assert await client.delete_many(items) is True
        assert await client.get_many(items) == {}
        assert (await client.version()).count(b".") == 2
        assert (await client.stats())[b"limit_maxbytes"] == 64 << 20
        assert await client.stats("reset") == {}
        assert await client.cache_memlimit(64) is True
        assert await client.raw_command("mn") == b"MN"
        await client.quit()
        large = bytes(range(256)) * 4000
        assert await client.set("large", large) is True
        assert await client.get("large") == large
        with pytest.raises(MemcacheServerError, match="too large"):
            await client.set("large", bytes(2 << 20))
        await client.set("text", b"text")
        with pytest.raises(MemcacheClientError, match="non-numeric"):
            await client.incr("text", 1)


async def test_items_are_removed_by_prefix(
    larderd: servers.Server, memcached: servers.Server
) -> None:
    async with AsyncClient(larderd.address, key_prefix="q:") as client:
        await client.set_many({f"a{number}": b"x" for number in range(500)})
        assert await client.remove_prefix("a") == 500
    async with AsyncClient(memcached.address) as client:
        with pytest.raises(MemcacheUnknownCommandError, match="larderd has it"):
            await client.remove_prefix("a")


async def test_changes_without_a_reply_are_executed_before_later_reads(
    larderd: servers.Server,
) -> None:
    async with AsyncClient(larderd.address, max_connections=4) as client:

        async def work(task: int) -> None:
            for number in range(200):
                assert await client.set(f"t{task}", b"%d" % number, noreply=True) is True
                assert await client.get(f"t{task}") == b"%d" % number

        await asyncio.gather(*(work(task) for task in range(50)))


async def test_a_read_follows_a_change_without_a_reply_on_its_connection() -> None:
    release = threading.Event()
    received: list[list[bytes]] = []

    def holds(connection: socket.socket) -> None:
        lines: list[bytes] = []
        received.append(lines)
        while True:
            lines += request(connection).split(b"\r\n")[:-1]
            if any(line.startswith(b"get") for line in lines):
                release.wait(20)
                gets = sum(line.startswith(b"get") for line in lines)
                connection.sendall(b"END\r\n" * gets)
                lines[:] = [line for line in lines if not line.startswith(b"get")]

    with scripted(holds) as server:
        async with AsyncClient(server.path, max_connections=2, local_reads=False) as client:
            pool = client._pool()
            pool._connections = [await pool._dial(), await pool._dial()]
            await client.set("a", b"1", noreply=True)
            # The other connection has fewer requests, but may be served before the change.
            gets = [asyncio.create_task(client.get(key)) for key in ("a", "b")]
            await asyncio.sleep(0.1)
            assert [connection.pending for connection in pool._connections] == [2, 0]
            release.set()
            assert await asyncio.gather(*gets) == [None, None]
            assert pool.is_ordered
    assert sorted(received) == [[], [b"set a 0 0 1 noreply", b"1"]]


async def test_many_tasks_share_few_connections(larderd: servers.Server) -> None:
    async with AsyncClient(larderd.tcp, max_connections=3, timeout=30) as client:

        async def work(task: int) -> None:
            for number in range(20):
                key, value = f"{task}:{number}", b"%d" % (task * number)
                await client.set(key, value)
                assert await client.get(key) == value

        await asyncio.gather(*(work(task) for task in range(300)))
        pool = client._pool()
        assert 1 <= len(pool._connections) <= 3
        assert all(connection.pending == 0 for connection in pool._connections)


async def test_requests_do_not_wait_for_each_others_responses() -> None:
    received = threading.Semaphore(0)

    def answers_after_all(connection: socket.socket) -> None:
        lines = b""
        while lines.count(b"\r\n") < 10:
            lines += request(connection)
        for line in lines.split(b"\r\n")[:-1]:
            key = line.split(b" ")[1]
            connection.sendall(b"VALUE %b 0 1\r\nx\r\nEND\r\n" % key)
        received.release()
        request(connection)

    with scripted(answers_after_all) as server:
        async with AsyncClient(server.path, max_connections=1, local_reads=False) as client:
            found = await asyncio.gather(*(client.get(f"k{number}") for number in range(10)))
            assert found == [b"x"] * 10
            assert server.connections == 1


async def test_a_cancelled_request_leaves_its_response_to_no_other() -> None:
    release = threading.Event()

    def late(connection: socket.socket) -> None:
        request(connection)
        release.wait(20)
        connection.sendall(b"VALUE a 0 4\r\nlate\r\nEND\r\n")
        serves(connection)

    with scripted(late, serves) as server:
        async with AsyncClient(server.path, max_connections=1, local_reads=False) as client:
            task = asyncio.create_task(client.get("a"))
            while not server.connections or not client._pool()._connections:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            following = asyncio.create_task(client.get("b"))
            await asyncio.sleep(0.05)
            assert not following.done()
            release.set()
            assert await following == b"B"
            # The response was dropped, and the connection stayed open.
            assert server.connections == 1


@pytest.mark.parametrize("max_connections", [1, 3])
async def test_requests_may_be_cancelled_at_any_moment(
    max_connections: int, larderd: servers.Server
) -> None:
    seed = random.randrange(2**32)
    chooser = random.Random(seed)
    async with AsyncClient(larderd.address, max_connections=max_connections) as client:
        values = {f"k{number}": b"%d" % number * 3000 for number in range(20)}
        await client.set_many(values)

        async def work() -> int:
            cancelled = 0
            for _ in range(100):
                key = chooser.choice(list(values))
                call: Any = client.get(key) if chooser.random() < 0.5 else client.get_many([key])
                task = asyncio.create_task(call)
                if chooser.random() < 0.5:
                    for _ in range(chooser.randrange(4)):
                        await asyncio.sleep(0)
                    task.cancel()
                try:
                    found: Any = await task
                    assert found in (values[key], {key: values[key]}), f"seed {seed}"
                except asyncio.CancelledError:
                    cancelled += 1
            return cancelled

        assert sum(await asyncio.gather(*(work() for _ in range(20)))) > 100


async def test_a_timeout_replaces_the_connection() -> None:
    with scripted(silent, serves) as server:
        options: dict[str, Any] = {"max_connections": 1, "local_reads": False}
        async with AsyncClient(server.path, timeout=0.3, **options) as client:
            started = time.monotonic()
            with pytest.raises(TimeoutError, match=r"0\.3 s"):
                await client.get("a")
            assert 0.2 < time.monotonic() - started < 10
            assert await client.get("b") == b"B"
            assert server.connections == 2
            assert len(client._pool()._connections) == 1


async def test_a_timeout_fails_no_other_request() -> None:
    def slow(connection: socket.socket) -> None:
        lines = request(connection)
        while lines.count(b"\r\n") < 2:
            lines += request(connection)
        time.sleep(0.5)
        connection.sendall(b"END\r\nVALUE b 0 1\r\nb\r\nEND\r\n")
        request(connection)

    with scripted(slow, serves) as server:
        options: dict[str, Any] = {"max_connections": 1, "local_reads": False}
        async with AsyncClient(server.path, timeout=1, **options) as client:
            first = asyncio.create_task(client.get("a"))
            await asyncio.sleep(0.8)
            second = asyncio.create_task(client.get("b"))
            with pytest.raises(TimeoutError):
                await first
            # A request after the timeout has another connection.
            assert await client.get("c") == b"C"
            assert await second == b"b"


async def test_a_caller_may_bound_a_request() -> None:
    with scripted(silent) as server:
        async with AsyncClient(server.path, local_reads=False) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.get("a")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.get("a"), 0.1)


async def test_connecting_is_bounded() -> None:
    # No connection is accepted, and the queue is full.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        full = [socket.socket() for _ in range(4)]
        for sock in full:
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        async with AsyncClient(listener.getsockname(), connect_timeout=0.3) as client:
            with pytest.raises(TimeoutError):
                await client.get("a")
        for sock in full:
            sock.close()


async def test_close_fails_the_requests_that_wait() -> None:
    with scripted(silent) as server:
        client = AsyncClient(server.path, local_reads=False)
        tasks = [asyncio.create_task(client.get(f"k{number}")) for number in range(3)]
        await asyncio.sleep(0.1)
        await client.close()
        for task in tasks:
            with pytest.raises(MemcacheUnexpectedCloseError):
                await task


async def test_a_server_that_does_not_read_holds_back_the_tasks(larderd: servers.Server) -> None:
    with servers.larderd() as server:
        async with AsyncClient(server.address, max_connections=1) as client:
            assert await client.set("a", b"0")
            value = bytes(500_000)
            with server.paused():
                tasks = [
                    asyncio.create_task(client.set("a", value, noreply=True)) for _ in range(100)
                ]
                await asyncio.sleep(0.3)
                # Only a few values are in memory: the other tasks wait.
                waiting = sum(not task.done() for task in tasks)
                assert waiting > 80
                tasks[-1].cancel()
                tasks[-2].cancel()
            transport = client._pool()._connections[0]._transport
            while not all(task.done() for task in tasks):
                await asyncio.sleep(0)
                # The tasks continue one after the other.
                assert transport.get_write_buffer_size() < 2_000_000
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert done[:-2] == [True] * 98
            assert all(isinstance(one, asyncio.CancelledError) for one in done[-2:])
            assert await client.get("a") == value


def test_each_event_loop_has_its_own_connections(larderd: servers.Server) -> None:
    client = AsyncClient(larderd.address)

    async def once(number: int) -> None:
        await client.set("a", b"%d" % number)
        assert await client.get("a") is not None
        await client.close()

    for number in range(3):
        asyncio.run(once(number))
    threads = [threading.Thread(target=lambda: asyncio.run(once(1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not client._pools


def test_a_forked_child_has_its_own_connections(larderd: servers.Server) -> None:
    client = AsyncClient(larderd.address)

    async def parent() -> None:
        await client.set("a", b"1")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # The loop of the parent is not usable in the child.
                asyncio._set_running_loop(None)
                assert asyncio.run(client.get("a")) == b"1"
                status = 0
            finally:
                os._exit(status)
        for _ in range(100):
            assert await client.get("a") == b"1"
        loop = asyncio.get_running_loop()
        waited = await loop.run_in_executor(None, os.waitpid, pid, 0)
        assert os.waitstatus_to_exitcode(waited[1]) == 0
        await client.close()

    asyncio.run(parent())


async def test_a_restarted_server_is_used_again() -> None:
    with servers.larderd() as server:
        async with AsyncClient(server.address, timeout=10) as client:
            await client.set("a", b"1")
            await asyncio.to_thread(server.restart)
            with contextlib.suppress(OSError):
                await client.get("a")
            assert await client.get("a") is None
            assert await client.set("a", b"2") is True


async def test_the_options_of_connections_are_used(larderd: servers.Server) -> None:
    keepalive = KeepaliveOpts(idle=7, intvl=3, cnt=2)
    async with AsyncClient(larderd.tcp, socket_keepalive=keepalive) as client:
        await client.version()
        sock = client._pool()._connections[0]._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7
    with pytest.raises(ValueError, match="max_connections"):
        AsyncClient(larderd.tcp, max_connections=0)
