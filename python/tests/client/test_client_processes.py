"""Threads and processes that use the same client."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import servers
from scripted import request, scripted, silent

from larder_cache.client import AsyncClient, Client, HashClient, PooledClient, RetryingClient


def make(kind: str, server: servers.Server, **options: Any) -> Any:
    options = {"default_noreply": False, "timeout": 20} | options
    if kind == "hash":
        return HashClient([server.address], **options)
    if kind == "hash of pools":
        return HashClient([server.address], use_pooling=True, **options)
    return {"client": Client, "pool": PooledClient}[kind](server.address, **options)


KINDS = ["client", "pool", "hash", "hash of pools"]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_may_share_a_client(kind: str, larderd: servers.Server) -> None:
    with make(kind, larderd) as client:
        client.flush_all()

        def work(thread: int) -> None:
            for number in range(300):
                key = f"{thread}:{number % 10}"
                value = b"%d" % (thread * number)
                assert client.set(key, value) is True
                assert client.get(key) == value
                assert client.get_many([key, "none"]) == {key: value}

        with ThreadPoolExecutor(8) as executor:
            for future in [executor.submit(work, thread) for thread in range(8)]:
                future.result()


def test_a_pool_has_a_connection_for_each_thread_that_waits() -> None:
    with (
        scripted(silent) as server,
        PooledClient(server.path, timeout=1, local_reads=False) as client,
    ):
        with ThreadPoolExecutor(5) as executor:
            for future in [executor.submit(client.get, "a") for _ in range(5)]:
                with pytest.raises(TimeoutError):
                    future.result()
        assert server.connections == 5


def test_the_locks_may_be_those_of_another_library(larderd: servers.Server) -> None:
    made: list[threading.Lock] = []

    def make_lock() -> threading.Lock:
        made.append(threading.Lock())
        return made[-1]

    with Client(larderd.address, lock_generator=make_lock) as client:
        assert client.version()
        assert len(made) == 1
    with PooledClient(larderd.address, lock_generator=make_lock) as pooled:
        with ThreadPoolExecutor(4) as executor:
            assert len(list(executor.map(lambda _: pooled.version(), range(100)))) == 100
        # One lock of the pool, and one of each connection.
        assert len(made) == 2 + len(pooled.client_pool.free)


def test_a_pool_is_bounded(larderd: servers.Server) -> None:
    with PooledClient(larderd.address, max_pool_size=1) as client:
        busy = client.client_pool.get()
        with pytest.raises(RuntimeError, match="Too many objects"):
            client.get("a")
        client.client_pool.release(busy)
        assert client.version()
    with PooledClient(larderd.address, max_pool_size=1, pool_wait=20) as client:
        busy = client.client_pool.get()
        threading.Timer(0.2, client.client_pool.release, (busy,)).start()
        started = time.monotonic()
        assert client.version()
        assert time.monotonic() - started > 0.1
        assert client.client_pool.free == (busy,)


def test_idle_connections_of_a_pool_are_closed(larderd: servers.Server) -> None:
    with PooledClient(larderd.address, pool_idle_timeout=0.1) as client:
        client.version()
        first = client.client_pool.free[0]
        assert first.sock is not None
        time.sleep(0.2)
        client.version()
        assert first.sock is None
        assert first not in client.client_pool.free


class Interrupted(Exception):
    """Raised as if by a signal handler."""


def is_interrupted(moment: int, work: Callable[[], object]) -> bool:
    """Runs `work`, and interrupts it when so many functions were called or have returned: Python
    runs signal handlers at these moments. Returns false if `work` ends earlier."""
    left = moment

    def count(_frame: Any, event: str, function: Any) -> None:
        nonlocal left
        # Since 3.14 the profiler also reports the moment between the call of a lock's `__enter__`
        # and the begin of the block. An exception there leaves the lock of any `with` taken.
        if event == "c_return" and getattr(function, "__name__", "") == "__enter__":
            return
        if event in ("call", "c_return"):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Interrupted

    try:
        sys.setprofile(count)
        work()
    except Interrupted:
        return True
    finally:
        sys.setprofile(None)
    return False


def interrupt_everywhere(work: Callable[[], object], check: Callable[[], object]) -> None:
    """Interrupts `work` at each moment, and runs `check` afterwards."""
    moment = 0
    while is_interrupted(moment, work):
        check()
        moment += 1
    assert moment > 10


# A connection that an interrupted request has lost is closed by the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_interrupted_request_keeps_no_place_of_a_pool(readable: servers.Server) -> None:
    with PooledClient(readable.address, max_pool_size=1, timeout=20) as client:
        number = 0

        def change_and_read() -> None:
            client.set("a", b"%d" % number)
            client.get("a")

        def check() -> None:
            nonlocal number
            number += 1
            client.set("a", b"%d" % number)
            assert client.get("a") == b"%d" % number
            assert client.version()
            assert client.client_pool.used == ()
            assert len(client.client_pool.free) == 1

        interrupt_everywhere(change_and_read, check)
        assert client.reads_memory
        assert len(client._unordered) == 0


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_interrupted_wait_for_a_connection_keeps_no_place_of_a_pool(
    larderd: servers.Server,
) -> None:
    options: dict[str, Any] = {"max_pool_size": 1, "pool_wait": 0.01, "pool_idle_timeout": 0.001}
    with PooledClient(larderd.address, timeout=20, **options) as client:
        pool = client.client_pool

        def wait() -> None:
            busy = pool.get()
            with pytest.raises(RuntimeError, match="Too many objects, 1 >= 1"):
                client.get("a")
            pool.release(busy)

        interrupt_everywhere(wait, client.version)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_interrupted_request_leaves_no_response_for_the_next_one() -> None:
    def late(connection: socket.socket) -> None:
        # Answers after the timeout of the client.
        while key := request(connection)[4:5]:
            time.sleep(0.06 if key == b"a" else 0)
            connection.sendall(b"VALUE %b 0 1\r\n%b\r\nEND\r\n" % (key, key))

    with scripted(late) as server, Client(server.path, local_reads=False) as client:

        def time_out() -> None:
            client.timeout = 0.02
            with pytest.raises(TimeoutError):
                client.get("a")

        def check() -> None:
            time.sleep(0.06)
            client.timeout = 20
            if client.sock is not None:
                client.sock.settimeout(20)
            assert client.get("b") == b"b"
            client.close()

        interrupt_everywhere(time_out, check)


def test_a_pool_counts_only_objects_that_exist(larderd: servers.Server) -> None:
    with PooledClient(larderd.address, max_pool_size=2) as client:
        pool = client.client_pool
        kept, lost = pool.get(), pool.get()
        assert pool.used == (kept, lost)
        with pytest.raises(RuntimeError, match="Too many objects, 2 >= 2"):
            pool.get()
        del lost
        assert pool.used == (kept,)
        another = pool.get()
        with pytest.raises(RuntimeError, match="Too many objects, 2 >= 2"):
            pool.get()
        pool.release(another)
        pool.release(kept)
        assert pool.free == (another, kept)


def test_threads_wait_for_connections_of_a_pool(larderd: servers.Server) -> None:
    with PooledClient(larderd.address, max_pool_size=2, pool_wait=20) as client:
        with ThreadPoolExecutor(8) as executor:
            started = time.monotonic()
            assert len(list(executor.map(lambda _: client.version(), range(2000)))) == 2000
            # Threads continue as soon as a connection is free.
            assert time.monotonic() - started < 15
        assert len(client.client_pool.free) <= 2
        assert client.client_pool.used == ()


def in_child(work: Callable[[], None]) -> None:
    """Runs `work` in a forked child, and fails if it raises."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_has_its_own_connection(kind: str, larderd: servers.Server) -> None:
    with make(kind, larderd) as client:
        client.set("a", b"1")
        numbers = range(200)

        def child() -> None:
            for number in numbers:
                client.set("child", b"c%d" % number)
                assert client.get("child") == b"c%d" % number

        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child()
                status = 0
            finally:
                os._exit(status)
        # At the same time: on a shared connection, responses would reach the wrong process.
        for number in numbers:
            client.set("parent", b"p%d" % number)
            assert client.get("parent") == b"p%d" % number
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.get("a") == b"1"


def test_a_child_may_be_forked_while_a_thread_waits_for_a_response() -> None:
    options: dict[str, Any] = {"timeout": 3, "local_reads": False}
    with scripted(silent) as server, Client(server.path, **options) as client:

        def wait() -> None:
            with pytest.raises(TimeoutError):
                client.get("a")

        waiting = threading.Thread(target=wait)
        waiting.start()
        while client.sock is None:
            time.sleep(0.01)

        def child() -> None:
            # The lock of the parent is held by a thread that does not exist here.
            assert client.sock is None
            client.timeout = 0.1
            with pytest.raises(TimeoutError):
                client.get("a")

        in_child(child)
        waiting.join()
        assert server.connections == 2


def test_the_connection_of_the_parent_stays_open(larderd: servers.Server) -> None:
    with Client(larderd.address) as client:
        client.version()
        sock = client.sock
        in_child(client.close)
        assert client.version()
        assert client.sock is sock


def get_in_process(client: Any, key: str) -> Any:
    return client.get(key)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("kind", KINDS)
def test_clients_reach_other_processes(kind: str, method: str, larderd: servers.Server) -> None:
    options = {"key_prefix": b"p:", "serializer": "json", "allow_unicode_keys": True}
    with make(kind, larderd, **options) as client:
        client.set("ключ", {"a": [1, 2]})
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(get_in_process, (client, "ключ")) == {"a": [1, 2]}


def test_pickles_contain_the_arguments_and_no_connection(larderd: servers.Server) -> None:
    with Client(larderd.address, timeout=7, key_prefix="p", serializer="tags") as client:
        client.version()
        copy = pickle.loads(pickle.dumps(client))
        assert (copy.server, copy.timeout, copy.key_prefix) == (client.server, 7, b"p")
        assert (copy.sock, copy.socket_module) == (None, socket)
        copy.set("a", 5, noreply=False)
        assert client.get("a") == 5
        copy.close()
    several = HashClient(["a:1"], hasher="rendezvous")
    several.add_server("b:2")
    several.remove_server("a:1")
    assert list(pickle.loads(pickle.dumps(several)).clients) == ["b:2"]
    waiting = pickle.loads(pickle.dumps(AsyncClient("a:1", timeout=3, max_connections=2)))
    assert (waiting.server, waiting.timeout) == (("a", 1), 3)


def test_a_retrying_client_repeats_requests() -> None:
    with servers.larderd() as server:
        client = RetryingClient(Client(server.address, default_noreply=False), attempts=2)
        client.set("a", b"1")
        server.restart()
        assert client.get("a", "miss") == "miss"
        assert client.server == server.socket_path
        client.close()
