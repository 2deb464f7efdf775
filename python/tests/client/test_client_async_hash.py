"""Several servers in asyncio: the placement of keys, servers that fail, and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import os
import pickle
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import servers
from scripted import request, scripted, serves, silent

from larder_cache.client import (
    AsyncClient,
    AsyncHashClient,
    Client,
    HashClient,
    KetamaHash,
    MemcacheClientError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheUnknownCommandError,
    RendezvousHash,
)


@pytest.fixture
def two() -> Iterator[list[servers.Server]]:
    """Two servers of this test."""
    with servers.larderd() as first, servers.larderd() as second:
        yield [first, second]


def addresses(several: list[servers.Server]) -> list[Any]:
    return [server.address for server in several]


def keys_of(client: AsyncHashClient, path: str, count: int) -> list[str]:
    keys = (f"k{number}" for number in range(1000))
    return [key for key in keys if client.hasher.get_node(key) == path][:count]


@pytest.mark.parametrize("hasher", ["ketama", "rendezvous"])
async def test_keys_have_the_same_servers_as_in_hash_client(
    hasher: str, two: list[servers.Server]
) -> None:
    items = {f"key:{number}": b"%d" % number for number in range(1000)}
    with HashClient(addresses(two), hasher=hasher, default_noreply=False) as blocking:
        async with AsyncHashClient(addresses(two), hasher=hasher) as client:
            assert await client.set_many(items) == []
            assert blocking.get_many(items) == items
            # Each key is on one server, and moving none of them makes it a hit.
            counts = [stats[b"curr_items"] for stats in (await client.stats()).values()]
            assert sum(counts) == 1000 and min(counts) > 200
            for key in items:
                assert client.hasher.get_node(key) == blocking.hasher.get_node(key)
            blocking.set_many({key: value * 2 for key, value in items.items()})
            assert await client.get_many(items) == {key: value * 2 for key, value in items.items()}


async def test_the_requests_are_those_of_async_client(two: list[servers.Server]) -> None:
    async with AsyncHashClient(addresses(two), timeout=20) as client:
        assert await client.flush_all() is True
        # Two keys on different servers.
        for key in (keys_of(client, server.socket_path, 1)[0] for server in two):
            assert await client.get(key) is None
            assert await client.set(key, b"1") is True
            assert await client.add(key, b"2") is False
            assert await client.replace("none", b"2") is False
            assert await client.append(key, b"2") is True
            assert await client.prepend(key, b"0") is True
            assert await client.get(key) == b"012"
            assert await client.gets("none", 1, 2) == (1, 2)
            _, token = await client.gets(key)
            assert await client.cas(key, b"5", token) is True
            assert await client.cas(key, b"6", token) is False
            assert await client.cas("none", b"6", token) is None
            assert await client.incr(key, 5) == 10
            assert await client.decr(key, 1) == 9
            assert await client.incr("none", 1) is None
            assert await client.touch(key, 100) is True
            assert await client.gat(key, 0) == b"9 "
            assert (await client.gats(key, 0))[0] == b"9 "
            assert await client.delete(key) is True
            assert await client.delete(key) is False
        items = {f"{'k' * 200}{number}": b"%d" % number for number in range(2500)}
        assert await client.set_many(items) == []
        assert await client.get_many(items) == items
        assert len(await client.gets_many(items)) == 2500
        assert await client.delete_many(items) is True
        assert await client.get_many(items) == {}
        await client.set_many(items)
        assert await client.remove_prefix("k") == 2500
        nodes = {server.socket_path for server in two}
        assert (await client.version()).keys() == (await client.stats()).keys() == nodes
        assert await client.cache_memlimit(64) is True
        assert await client.raw_command("mn") == dict.fromkeys(nodes, b"MN")
        assert client.check_key("a") == b"a"
        assert client.reads_memory is False
        await client.quit()
        assert await client.set("text", b"text") is True
        with pytest.raises(MemcacheClientError, match="non-numeric"):
            await client.incr("text", 1)
        with pytest.raises(MemcacheIllegalInputError):
            await client.get_many(["a", "b c"])


async def test_all_servers_are_stopped() -> None:
    with servers.larderd("-A") as first, servers.larderd("-A") as second:
        async with AsyncHashClient([first.address, second.address], retry_attempts=0) as client:
            await client.shutdown()
            for server in (first, second):
                os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)


def test_it_has_all_methods_of_async_client() -> None:
    for name in dir(AsyncClient):
        if name.startswith("_"):
            continue
        assert hasattr(AsyncHashClient, name), name
        method, other = getattr(AsyncHashClient, name), getattr(AsyncClient, name)
        if inspect.iscoroutinefunction(other):
            ours, theirs = inspect.signature(method), inspect.signature(other)
            assert ours.parameters == theirs.parameters, name


async def test_hits_are_read_in_the_memory_of_each_server() -> None:
    with servers.larderd(readers=True) as first, servers.larderd(readers=True) as second:
        both = [first, second]
        async with AsyncHashClient(addresses(both), timeout=20) as client:
            items = {f"k{number}": b"%d" % number for number in range(100)}
            await client.set_many(items)
            assert await client.get_many(items) == items
            assert client.reads_memory
            with first.paused(), second.paused():
                assert await asyncio.wait_for(client.get_many(items), 2) == items


async def test_the_servers_are_asked_concurrently() -> None:
    both_asked = threading.Barrier(2)

    def waits_for_the_other(connection: Any) -> None:
        line = request(connection)
        both_asked.wait(20)
        connection.sendall(b"END\r\n" if line.startswith(b"get") else b"STORED\r\n")
        serves(connection)

    with scripted(waits_for_the_other) as first, scripted(waits_for_the_other) as second:
        async with AsyncHashClient([first.path, second.path], local_reads=False) as client:
            keys = [keys_of(client, server.path, 1)[0] for server in (first, second)]
            assert await asyncio.wait_for(client.get_many(keys), 10) == {}


async def test_a_dead_server_loses_its_keys_and_returns(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 1, "retry_timeout": 0.2, "dead_timeout": 0.5}
    async with AsyncHashClient(addresses(two), **options) as client:
        key, other = (keys_of(client, server.socket_path, 1)[0] for server in two)
        assert await client.set_many({key: b"1", other: b"1"}) == []
        first = client.clients[two[0].socket_path]
        two[0].kill()
        with pytest.raises(OSError):
            await client.get(key)
        # While it rests, its keys are misses, and those of the other server are not.
        assert await client.get(key, "miss") == "miss"
        assert await client.set(key, b"2") is False
        assert await client.incr(key, 1) is None
        assert await client.set_many({key: b"2", other: b"2"}) == [key]
        assert await client.get_many([key, other]) == {other: b"2"}
        await asyncio.sleep(0.3)
        with pytest.raises(OSError):
            await client.get(key)
        # Now it is dead, and the other server has its keys.
        assert await client.set(key, b"3") is True
        assert await client.get_many([key, other]) == {key: b"3", other: b"2"}
        await asyncio.to_thread(two[0].start)
        await asyncio.sleep(0.6)
        assert await client.get(key) is None
        assert await client.set(key, b"4") is True
        assert client.clients[two[0].socket_path] is first
        with Client(two[0].address) as direct:
            assert direct.get(key) == b"4"


async def test_a_server_is_killed_under_load(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 1, "retry_timeout": 0.1, "dead_timeout": 0.3}
    async with AsyncHashClient(addresses(two), timeout=10, **options) as client:
        ends = time.monotonic() + 3
        failures: list[Exception] = []
        hits = wrong = 0

        async def work(task: int) -> None:
            nonlocal hits, wrong
            number = 0
            while time.monotonic() < ends:
                number += 1
                items = {f"{task}:{number}:{part}": b"%d" % number for part in range(4)}
                try:
                    await client.set_many(items)
                    found = await client.get_many(items)
                except OSError as error:
                    failures.append(error)
                    continue
                hits += len(found)
                wrong += any(found[key] != items[key] for key in found)

        async def kill() -> None:
            for _ in range(2):
                await asyncio.sleep(0.4)
                await asyncio.to_thread(two[0].kill)
                await asyncio.sleep(0.4)
                await asyncio.to_thread(two[0].start)

        await asyncio.gather(kill(), *(work(task) for task in range(20)))
        assert (wrong, hits > 1000, len(failures) >= 2) == (0, True, True)
        # The server returns, and all keys are stored again.
        await asyncio.sleep(0.4)
        items = {f"k{number}": b"%d" % number for number in range(100)}
        assert await client.set_many(items) == []
        assert await client.get_many(items) == items
        counts = [stats[b"curr_items"] for stats in (await client.stats()).values()]
        assert len(counts) == 2 and min(counts) > 0


async def test_requests_that_fail_together_are_one_failure(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 2, "retry_timeout": 0.2, "dead_timeout": 60}
    async with AsyncHashClient(addresses(two), **options) as client:
        key = keys_of(client, two[0].socket_path, 1)[0]
        await client.set(key, b"1")
        two[0].pause()
        tasks = [asyncio.create_task(client.get(key)) for _ in range(50)]
        await asyncio.sleep(0.1)
        two[0].kill()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, OSError) for one in found)
        await asyncio.to_thread(two[0].start)
        await asyncio.sleep(0.3)
        # It is not dead: it has its keys again, before `dead_timeout`.
        assert await client.set(key, b"2") is True
        with Client(two[0].address) as direct:
            assert direct.get(key) == b"2"


async def test_a_server_that_answers_again_is_as_new(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 2, "retry_timeout": 0.05, "dead_timeout": 60}
    async with AsyncHashClient(addresses(two), **options) as client:
        key = keys_of(client, two[0].socket_path, 1)[0]
        for _ in range(4):
            await client.set(key, b"1")
            two[0].kill()
            with pytest.raises(OSError):
                await client.get(key)
            await asyncio.to_thread(two[0].start)
            await asyncio.sleep(0.1)
            # Its next failure is the first one again.
            assert await client.set(key, b"2") is True
            with Client(two[0].address) as direct:
                assert direct.get(key) == b"2"


async def test_a_server_that_hangs_fails_alone(two: list[servers.Server]) -> None:
    async with AsyncHashClient(addresses(two), timeout=0.3, retry_timeout=60) as client:
        key, other = (keys_of(client, server.socket_path, 1)[0] for server in two)
        await client.set_many({key: b"1", other: b"2"})
        with two[0].paused():
            started = time.monotonic()
            # The other server has answered, before the error is raised.
            with pytest.raises(TimeoutError):
                await client.set_many({key: b"3", other: b"4"})
            assert 0.2 < time.monotonic() - started < 10
            assert await client.get_many([key, other]) == {other: b"4"}


async def test_errors_are_ignored_if_that_is_chosen(two: list[servers.Server]) -> None:
    options: dict[str, Any] = {"retry_attempts": 0, "dead_timeout": 60, "ignore_exc": True}
    async with AsyncHashClient(addresses(two), **options) as client:
        keys = [keys_of(client, server.socket_path, 1)[0] for server in two]
        # Errors of the caller are not.
        with pytest.raises(MemcacheIllegalInputError, match="expire"):
            await client.touch(keys[0], "tomorrow")  # type: ignore[arg-type]
        for server in two:
            server.kill()
        assert await client.get(keys[0], "miss") == "miss"
        assert await client.set_many(dict.fromkeys(keys, b"1")) != []
        assert await client.get_many(keys) == {}
        # All servers are dead now.
        assert await client.set(keys[0], b"1") is False
        assert sorted(await client.set_many(dict.fromkeys(keys, b"1"))) == sorted(keys)
        assert await client.gets("a") == (None, None)
        assert await client.delete_many(keys) is True
        assert await client.flush_all() is False
        with pytest.raises(MemcacheIllegalInputError):
            await client.get("a b")
        client.ignore_exc = False
        with pytest.raises(MemcacheError, match="All servers"):
            await client.get("a")


async def test_servers_join_and_leave(two: list[servers.Server]) -> None:
    async with AsyncHashClient([two[0].address]) as client:
        items = {f"k{number}": b"%d" % number for number in range(100)}
        await client.set_many(items)
        client.add_server(two[1].address)
        assert 20 < len(await client.get_many(items)) < 80
        left = client.clients[two[1].socket_path]
        await client.remove_server(two[1].address)
        assert not left._pools
        assert await client.get_many(items) == items
        assert client.clients.keys() == {two[0].socket_path}


async def test_a_cancelled_request_is_cancelled_at_all_servers() -> None:
    with scripted(silent, serves) as first, scripted(silent, serves) as second:
        options: dict[str, Any] = {"max_connections": 1, "local_reads": False}
        async with AsyncHashClient([first.path, second.path], **options) as client:
            keys = [keys_of(client, server.path, 1)[0] for server in (first, second)]
            before = asyncio.all_tasks()
            task = asyncio.create_task(client.get_many(keys))
            while not (first.connections and second.connections):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == before
            # A cancelled request is no failure of its servers.
            assert not client._failed_clients


async def test_an_error_leaves_no_request_under_way() -> None:
    answered = threading.Event()

    def late(connection: Any) -> None:
        request(connection)
        time.sleep(0.3)
        answered.set()
        connection.sendall(b"END\r\n")
        serves(connection)

    def closes(connection: Any) -> None:
        request(connection)

    with scripted(late) as first, scripted(closes) as second:
        async with AsyncHashClient([first.path, second.path], local_reads=False) as client:
            keys = [keys_of(client, server.path, 1)[0] for server in (first, second)]
            before = asyncio.all_tasks()
            with pytest.raises(OSError):
                await client.get_many(keys)
            assert answered.is_set() and asyncio.all_tasks() == before


async def test_requests_may_be_cancelled_at_any_moment(two: list[servers.Server]) -> None:
    seed = random.randrange(2**32)
    chooser = random.Random(seed)
    async with AsyncHashClient(addresses(two), max_connections=2) as client:
        values = {f"k{number}": b"%d" % number * 3000 for number in range(20)}
        await client.set_many(values)
        before = asyncio.all_tasks()

        async def work() -> int:
            cancelled = 0
            for _ in range(50):
                part = {key: values[key] for key in chooser.sample(list(values), 4)}
                reads = chooser.random() < 0.7
                call: Any = client.get_many(part) if reads else client.set_many(part)
                task = asyncio.create_task(call)
                if chooser.random() < 0.5:
                    for _ in range(chooser.randrange(6)):
                        await asyncio.sleep(0)
                    task.cancel()
                try:
                    assert await task in (part, []), f"seed {seed}"
                except asyncio.CancelledError:
                    cancelled += 1
            return cancelled

        assert sum(await asyncio.gather(*(work() for _ in range(20)))) > 100
        assert asyncio.all_tasks() == before
        assert await client.get_many(values) == values


def test_each_event_loop_and_child_has_its_own_connections(two: list[servers.Server]) -> None:
    client = AsyncHashClient(addresses(two))
    items = {f"k{number}": b"%d" % number for number in range(20)}

    async def once() -> None:
        await client.set_many(items)
        assert await client.get_many(items) == items
        await client.close()

    asyncio.run(once())
    threads = [threading.Thread(target=lambda: asyncio.run(once())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(one._pools for one in client.clients.values())
    # Another thread of the parent may have the lock.
    with client._lock:
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(BaseException):
                thread = threading.Thread(target=lambda: asyncio.run(once()))
                thread.start()
                thread.join(20)
                status = int(thread.is_alive())
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


async def test_a_copy_has_the_same_servers_and_options(two: list[servers.Server]) -> None:
    client = AsyncHashClient(addresses(two), hasher=RendezvousHash, timeout=7, key_prefix="p:")
    await client.set("a", b"1")
    for other in (pickle.loads(pickle.dumps(client)), copy.copy(client)):
        assert type(other.hasher) is RendezvousHash
        assert {one.timeout for one in other.clients.values()} == {7}
        assert await other.get("a") == b"1"
        await other.close()
    await client.close()


async def test_values_keep_their_types(two: list[servers.Server]) -> None:
    values = {"a": "grüß", "b": 7, "c": 0.5, "d": None, "e": b"x", "f": True}
    async with AsyncHashClient(addresses(two), serializer="tags") as client:
        assert await client.set_many(values) == []
        assert await client.get_many(values) == values


def test_the_client_of_one_server_refers_to_this_one() -> None:
    with pytest.raises(ValueError, match="AsyncHashClient takes a list of servers"):
        AsyncClient(["a:1", "b:2"])  # type: ignore[arg-type]
    assert type(AsyncHashClient(["a:1", "b:2"]).hasher) is KetamaHash
    with pytest.raises(ValueError, match="unknown hasher 'md5'"):
        AsyncHashClient([], hasher="md5")


async def test_a_command_that_no_server_has_is_an_error() -> None:
    with servers.memcached() as first, servers.memcached() as second:
        async with AsyncHashClient([first.address, second.address]) as client:
            with pytest.raises(MemcacheUnknownCommandError, match="larderd has it"):
                await client.remove_prefix("a")
