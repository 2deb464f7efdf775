"""PHP in php-fpm and Python at one near cache. The workers of php-fpm are not of the near cache's
user, so that a group allows them to read its memory."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import importlib.util
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers

from larder_cache import SerializerError
from larder_cache.client import AsyncClient, Client

from .languages import ROOT, php_extension
from .processes import Load, at_the_same_time, wait_until

WORKERS = 3

# A page that calls methods of a client, and prints the worker's pid and the results.
PAGE = """<?php
$client = Larder\\Client::connect($_GET['socket'], ['timeoutMs' => (int) $_GET['ms']]);
$results = [];
foreach (json_decode($_GET['calls'], true) as [$method, $arguments]) {
    $results[] = $client->$method(...$arguments);
}
usleep((int) $_GET['us']);
echo json_encode([getmypid(), $results], JSON_PRESERVE_ZERO_FRACTION);
"""

# The forms of these values in Python, if PHP has stored them: a string of PHP is bytes.
VALUES: list[tuple[Any, Any]] = [
    ("grüß", "grüß".encode()),
    ("", b""),
    (7, 7),
    (-(2**63), -(2**63)),
    (0.25, 0.25),
    (3.0, 3.0),
    (True, True),
    (False, False),
]


class Workers:
    """The workers of php-fpm, as clients of the server at a unix socket."""

    def __init__(self, site: Any, socket_path: str, timeout_ms: int) -> None:
        self.site = site
        self._arguments = {"socket": socket_path, "ms": timeout_ms}

    def page(self, *calls: tuple[str, list[Any]], secs: float = 0) -> str:
        """Calls methods in some worker, which is then busy for `secs`. Returns the page."""
        us = int(secs * 1e6)
        reply = self.site.get("client.php", calls=json.dumps(calls), us=us, **self._arguments)
        assert reply.status == 200, f"{reply.status}: {reply.text}\n{self.site.logs()}"
        text: str = reply.text
        return text

    def call(self, *calls: tuple[str, list[Any]], secs: float = 0) -> tuple[int, list[Any]]:
        """Calls methods in some worker. Returns the worker's pid and the results."""
        text = self.page(*calls, secs=secs)
        # Warnings of PHP stand before the results.
        assert text.startswith("["), f"PHP prints {text!r}\n{self.site.logs()}"
        pid, results = json.loads(text)
        return pid, results

    def get(self, *keys: str) -> list[Any]:
        """Returns the values of keys; `"absent"` for those that do not exist."""
        return self.call(*(("get", [key, "absent"]) for key in keys))[1]

    def set(self, key: str, value: Any) -> None:
        """Stores a value."""
        assert self.call(("set", [key, value]))[1] == [True]

    def all_get(self, key: str, secs: float) -> dict[int, Any]:
        """Returns the value of a key in each worker that answers: all of them, if `secs` is long
        enough."""
        call = ("get", [key, "absent"])
        results = at_the_same_time(WORKERS, lambda _: self.call(call, secs=secs))
        return {pid: value for pid, (value,) in results}


@pytest.fixture(scope="module")
def website() -> Any:
    """The module that runs php-fpm."""
    # Continuous integration runs as root and installs both programs; a skip that .ci/skipped does
    # not list fails it.
    if os.getuid() != 0:
        pytest.skip("php-fpm changes the user of its workers, which only root can do")
    path = ROOT / "php/tests/fpm/website.py"
    spec = importlib.util.spec_from_file_location("website", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.PHP_FPM is None or module.NGINX is None:
        pytest.skip("Debian's php8.2-fpm and nginx are not installed")
    return module


@pytest.fixture
def group(website: Any) -> Iterator[str]:
    """The group of the workers. The test is a member of it, as a service in Python would be."""
    before = os.getgroups()
    os.setgroups([*before, grp.getgrnam(website.USER).gr_gid])
    yield website.USER
    os.setgroups(before)


@pytest.fixture
def origin() -> Iterator[servers.Server]:
    with servers.larderd("--followers=4") as running:
        yield running


@contextlib.contextmanager
def near_cache(origin: servers.Server, readers: str) -> Iterator[servers.Server]:
    """Runs a near cache to which processes of all users may connect."""
    # On a busy machine the origin may not answer within the default of 250 ms.
    options = (f"--origin={origin.socket_path}", "--origin-timeout=1500ms", "-a", "0666")
    with servers.larderd(*options, f"--local-readers={readers}", readers=True) as running:
        Path(running.socket_path).parent.chmod(0o755)
        with client_of(running) as client:
            # It shares its memory from then on.
            wait_until(lambda: client.stats("larder")[b"near_state"] == b"copies", 20)
        yield running


@pytest.fixture
def near(origin: servers.Server, group: str) -> Iterator[servers.Server]:
    with near_cache(origin, f"group:{group}") as running:
        yield running


@contextlib.contextmanager
def php_fpm(website: Any, near: servers.Server, timeout_ms: int = 5000) -> Iterator[Workers]:
    with website.Site(php_extension(), workers=WORKERS) as site:
        (site.folder / "pages/client.php").write_text(PAGE, encoding="utf-8")
        yield Workers(site, near.socket_path, timeout_ms)


@pytest.fixture
def workers(website: Any, near: servers.Server) -> Iterator[Workers]:
    with php_fpm(website, near) as running:
        yield running


def client_of(server: servers.Server) -> Client:
    return Client(server.address, serializer="tags", default_noreply=False, timeout=5)


def async_client_of(server: servers.Server) -> AsyncClient:
    return AsyncClient(server.address, serializer="tags", timeout=5)


def is_same(found: Any, expected: Any) -> bool:
    return found == expected and type(found) is type(expected)


def test_the_workers_are_not_of_the_user_of_the_near_cache(workers: Workers, near: Any) -> None:
    users = {Path(f"/proc/{pid}").stat().st_uid for pid in workers.site.workers()}
    assert len(users) == 1 and 0 not in users
    assert Path(f"/proc/{near.pid}").stat().st_uid == 0


async def test_each_language_reads_the_types_of_the_other(
    workers: Workers, near: servers.Server
) -> None:
    keys = [f"key:{number}" for number in range(len(VALUES))]
    async with async_client_of(near) as client:
        with client_of(near) as blocking:
            for key, (value, _) in zip(keys, VALUES, strict=True):
                blocking.set(f"python:{key}", value)
                await client.set(f"asyncio:{key}", value)
                await asyncio.to_thread(workers.set, f"php:{key}", value)
            for writer in ("python", "asyncio"):
                names = [f"{writer}:{key}" for key in keys]
                # At first by the socket, then in the memory.
                for _ in range(3):
                    found = await asyncio.to_thread(workers.get, *names)
                    assert all(map(is_same, found, [value for value, _ in VALUES])), found
            for key, (_, expected) in zip(keys, VALUES, strict=True):
                for _ in range(3):
                    assert is_same(blocking.get(f"php:{key}", "absent"), expected)
                    assert is_same(await client.get(f"php:{key}", "absent"), expected)
            blocking.set("python", None)
            assert workers.get("python") == [None]
            # Larder\Client stores null in the form of php-memcached.
            workers.set("php", None)
            with pytest.raises(SerializerError, match="serializer 'php'"):
                blocking.get("php")


async def test_both_languages_read_hits_in_the_memory(
    workers: Workers, near: servers.Server
) -> None:
    async with async_client_of(near) as client:
        with client_of(near) as blocking:
            workers.set("key", "value")
            seen: set[int] = set()
            for _ in range(20):
                seen |= (await asyncio.to_thread(workers.all_get, "key", 0.2)).keys()
                if len(seen) == WORKERS:
                    break
            assert len(seen) == WORKERS
            assert blocking.get("key") == await client.get("key") == b"value"
            with near.paused():
                began = time.monotonic()
                assert blocking.get("key") == b"value"
                assert await client.get("key") == b"value"
                found = await asyncio.to_thread(workers.all_get, "key", 0.2)
                assert set(found.values()) == {"value"} and found.keys() <= seen
                assert time.monotonic() - began < 2
                assert blocking.reads_memory and client.reads_memory


def test_a_user_that_may_not_read_the_memory_uses_the_socket(
    website: Any, origin: servers.Server
) -> None:
    with near_cache(origin, "same-uid") as near, php_fpm(website, near, 1000) as workers:
        with client_of(near) as client:
            workers.set("key", "value")
            for _ in range(3):
                assert set(workers.all_get("key", 0.2).values()) == {"value"}
            assert client.get("key") == b"value" and client.reads_memory
            with near.paused():
                began = time.monotonic()
                assert client.get("key") == b"value"
                assert time.monotonic() - began < 2
                assert "does not respond in time" in workers.page(("get", ["key"]))


async def test_a_change_at_the_origin_reaches_both_languages(
    workers: Workers, near: servers.Server, origin: servers.Server
) -> None:
    async with async_client_of(near) as client:
        with client_of(near) as blocking, client_of(origin) as elsewhere:
            for number in range(10):
                elsewhere.set("key", number)
                ends = time.monotonic() + 5
                while [
                    blocking.get("key"),
                    await client.get("key"),
                    *(await asyncio.to_thread(workers.get, "key")),
                ] != [number] * 3:
                    assert time.monotonic() < ends
            elsewhere.delete("key")
            ends = time.monotonic() + 5
            while blocking.get("key") is not None or workers.get("key") != ["absent"]:
                assert time.monotonic() < ends
            assert await client.get("key") is None


def test_killed_workers_harm_no_other(
    workers: Workers, near: servers.Server, origin: servers.Server
) -> None:
    killed: set[int] = set()
    rounds = 0
    wrong: list[Any] = []

    def page(number: int) -> int:
        key = f"php:{number}"
        calls = [("set", [key, number]), *[("get", [key, "absent"])] * 50]
        pid, (stored, *found) = workers.call(*calls)
        if not stored or set(found) != {number}:
            wrong.append((key, stored, set(found)))
        return pid

    async def of_asyncio(number: int) -> None:
        async with async_client_of(near) as client:
            await client.set(f"asyncio:{number}", number)
            for _ in range(20):
                assert await client.get(f"asyncio:{number}") == number

    with Load(WORKERS, page) as load, client_of(near) as client, client_of(origin) as elsewhere:
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            rounds += 1
            # A worker that is killed may end by itself at this moment.
            with contextlib.suppress(ProcessLookupError):
                victim = random.choice(workers.site.workers() or [0])
                if victim > 0:
                    os.kill(victim, signal.SIGKILL)
                    killed.add(victim)
            elsewhere.set("origin", rounds)
            client.set(f"python:{rounds}", rounds)
            for _ in range(20):
                assert client.get(f"python:{rounds}") == rounds
            asyncio.run(of_asyncio(rounds))
            wait_until(lambda number=rounds: client.get("origin") == number, 5)
            time.sleep(0.05)
    assert wrong == []
    assert len(killed) > 10 and rounds > 10
    # A killed worker answers no request, and takes at most one with it.
    assert len(load.failures) <= rounds
    refused = [str(failure) for failure in load.refused()]
    # nginx answers for a killed worker, or ends a response that has begun without a body.
    known = ("502: ", "PHP prints ''")
    assert [text for text in refused if not text.startswith(known)] == []
    assert len(load.responses) > 50
    assert not set(workers.site.workers()) & killed
    # The workers that replace them read what all have stored.
    wait_until(lambda: len(workers.site.workers()) == WORKERS, 20)
    assert workers.get("origin", f"python:{rounds}", f"asyncio:{rounds}") == [rounds] * 3
    with client_of(near) as client:
        assert client.reads_memory
