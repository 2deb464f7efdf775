"""Servers that misbehave: the error, and the connection after it."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from typing import Any

import pytest
import servers
from scripted import Script, answers, closes_after, request, scripted, serves, silent

from larder_cache.client import (
    AsyncClient,
    Client,
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
    PooledClient,
)


def dribbles(connection: socket.socket) -> None:
    """Announces a large value, and sends a little of it."""
    request(connection)
    connection.sendall(b"VALUE a 0 1073741824\r\nsome bytes")


def resets(connection: socket.socket) -> None:
    """Closes the connection while a request is unread."""
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


# Each script, and the error of a `get` of the key a.
FAULTS: dict[str, tuple[Script, type[Exception]]] = {
    "garbage": (answers(b"\x80\x81 garbage\r\n"), MemcacheUnknownError),
    "a line without end": (answers(b"x" * 100_000), MemcacheUnknownError),
    "a result of another command": (answers(b"STORED\r\n"), MemcacheUnknownError),
    "an item of another key": (answers(b"VALUE b 0 1\r\nx\r\nEND\r\n"), MemcacheUnknownError),
    "a longer value": (answers(b"VALUE a 0 1\r\nxyz\r\nEND\r\n"), MemcacheUnknownError),
    "a huge length": (answers(b"VALUE a 0 9999999999\r\n"), MemcacheUnknownError),
    "an endless length": (answers(b"VALUE a 0 " + b"9" * 40 + b"\r\n"), MemcacheUnknownError),
    "a close before the response": (closes_after(b""), MemcacheUnexpectedCloseError),
    "a close in a line": (closes_after(b"VALUE a 0"), MemcacheUnexpectedCloseError),
    "a close in a value": (closes_after(b"VALUE a 0 9\r\nabc"), MemcacheUnexpectedCloseError),
    "a close after the items": (
        closes_after(b"VALUE a 0 1\r\nx\r\n"),
        MemcacheUnexpectedCloseError,
    ),
    "a close in a large value": (dribbles, MemcacheUnexpectedCloseError),
    "a reset": (resets, OSError),
    "no response": (silent, TimeoutError),
    "half a response": (answers(b"VALUE a 0 5\r\nab"), TimeoutError),
    "SERVER_ERROR": (answers(b"SERVER_ERROR out of memory\r\n"), MemcacheServerError),
    "CLIENT_ERROR": (answers(b"CLIENT_ERROR bad\r\n"), MemcacheClientError),
    "ERROR": (answers(b"ERROR\r\n"), MemcacheUnknownCommandError),
}
# The servers of these tests do not share a memory: their first connection is that of a request.
OPTIONS: dict[str, Any] = {"timeout": 0.3, "local_reads": False}


@pytest.mark.parametrize("client_class", [Client, PooledClient])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_request_has_a_new_connection(client_class: Any, fault: str) -> None:
    script, error = FAULTS[fault]
    with scripted(script, serves) as server, client_class(server.path, **OPTIONS) as client:
        with pytest.raises(error):
            client.get("a")
        assert client.get("a") == b"A"
        assert client.get_many(["b", "c"]) == {"b": b"B", "c": b"C"}
        assert server.connections == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_an_async_client_recovers(fault: str) -> None:
    script, error = FAULTS[fault]

    async def run() -> None:
        with scripted(script, serves) as server:
            async with AsyncClient(server.path, **OPTIONS, max_connections=1) as client:
                with pytest.raises(error):
                    await client.get("a")
                if fault in ("SERVER_ERROR", "CLIENT_ERROR", "ERROR"):
                    # The connection stays, because the server continues with the next line.
                    assert server.connections == 1
                    await client.close()
                assert await client.get("a") == b"A"
                assert await client.get_many(["b", "c"]) == {"b": b"B", "c": b"C"}
                assert server.connections == 2

    asyncio.run(run())


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_reads_are_misses_if_errors_are_ignored(fault: str) -> None:
    script, _ = FAULTS[fault]
    for client_class in (Client, PooledClient):
        with scripted(script) as server:
            client = client_class(server.path, **OPTIONS, ignore_exc=True)
            with client:
                assert client.get("a", "default") == "default"
        with scripted(script) as server:
            client = client_class(server.path, **OPTIONS, ignore_exc=True)
            with client:
                assert client.get_many(["a"]) == {}

    async def run() -> None:
        with scripted(script) as server:
            async with AsyncClient(server.path, **OPTIONS, ignore_exc=True) as client:
                assert await client.get("a", "default") == "default"

    asyncio.run(run())


@pytest.mark.parametrize(
    "reply, error",
    [
        (b"NONSENSE\r\n", MemcacheUnknownError),
        (b"SERVER_ERROR out of memory storing object\r\n", MemcacheServerError),
        (b"CLIENT_ERROR bad data chunk\r\n", MemcacheClientError),
        (b"ERROR\r\n", MemcacheUnknownCommandError),
        (b"STOR", TimeoutError),
    ],
)
def test_a_failed_store_is_an_error(reply: bytes, error: type[Exception]) -> None:
    with scripted(answers(reply), serves) as server, Client(server.path, **OPTIONS) as client:
        with pytest.raises(error):
            client.set("a", b"1", noreply=False)
        assert client.get("a") == b"A"

    async def run() -> None:
        with scripted(answers(reply, b"END\r\n"), serves) as server:
            async with AsyncClient(server.path, **OPTIONS, max_connections=1) as client:
                with pytest.raises(error):
                    await client.set("a", b"1")
                # The server may take the value of a refused store for commands.
                is_kept = error is MemcacheServerError
                assert await client.get("a") == (None if is_kept else b"A")

    asyncio.run(run())


def test_bytes_after_a_response_are_not_the_next_response() -> None:
    surplus = answers(b"END\r\nVALUE a 0 6\r\nforged\r\nEND\r\n", b"END\r\n")
    with scripted(surplus, serves) as server, Client(server.path, **OPTIONS) as client:
        assert client.get("a") is None
        assert client.get("a") == b"A"

    async def run() -> None:
        with scripted(surplus, serves) as server:
            async with AsyncClient(server.path, **OPTIONS) as client:
                assert await client.get("a") is None
                assert await client.get("a") == b"A"

    asyncio.run(run())


def test_an_announced_length_allocates_no_memory() -> None:
    def peak_kib() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    with scripted(dribbles) as server, Client(server.path, **OPTIONS) as client:
        before = peak_kib()
        with pytest.raises(MemcacheUnexpectedCloseError):
            client.get("a")
        assert peak_kib() - before < 100 * 1024


def test_a_timeout_bounds_each_operation() -> None:
    with scripted(silent) as server, Client(server.path, **OPTIONS) as client:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            client.get("a")
        assert 0.2 < time.monotonic() - started < 10


def test_a_server_that_is_away_is_an_os_error(larderd: servers.Server) -> None:
    port = servers.free_port()
    for address in ("/nowhere/sock", ("127.0.0.1", port)):
        with Client(address) as client, pytest.raises(OSError):
            client.get("a")
        with pytest.raises(OSError):
            asyncio.run(AsyncClient(address).get("a"))
        with Client(address, ignore_exc=True) as client:
            assert client.get("a", 1) == 1


def test_an_interrupt_does_not_leave_a_response_behind() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    # Answers the first request after the interrupt.
    def late(connection: socket.socket) -> None:
        request(connection)
        time.sleep(0.3)
        connection.sendall(b"VALUE a 0 4\r\nlate\r\nEND\r\n")
        request(connection)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with scripted(late, serves) as server, Client(server.path, local_reads=False) as client:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                client.get("a")
            assert client.get("b") == b"B"
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_may_not_send_a_request_inside_another_one() -> None:
    errors: list[BaseException] = []

    with scripted(silent) as server, Client(server.path, **OPTIONS) as client:

        def handler(number: int, frame: object) -> None:
            try:
                client.get("b")
            except RuntimeError as error:
                errors.append(error)

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(TimeoutError):
                client.get("a")
        finally:
            signal.signal(signal.SIGALRM, before)
    assert "lock_generator" in str(errors[0])


def test_a_restarted_server_is_used_again() -> None:
    with servers.larderd() as server, Client(server.address, default_noreply=False) as client:
        client.set("a", b"1")
        server.restart()
        with pytest.raises(OSError):
            client.get("a")
        assert client.get("a") is None
