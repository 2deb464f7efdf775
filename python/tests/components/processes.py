"""Processes with HTTP servers at unix sockets, and load on them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
_START_SECS = 60


class Connection(http.client.HTTPConnection):
    """A connection of HTTP at a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)  # type: ignore[arg-type]
        self.sock.connect(self._path)


class Site:
    """A running HTTP server."""

    def __init__(self, process: subprocess.Popen[bytes], path: str) -> None:
        self.process = process
        self.path = path

    def request(
        self, address: str, method: str = "GET", timeout: float = 30, **headers: str
    ) -> tuple[Any, http.client.HTTPMessage]:
        """Returns the JSON and the headers of a response. Another status than 200 is an error."""
        connection = Connection(self.path, timeout)
        try:
            connection.request(method, address, headers={"Connection": "close", **headers})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, (response.status, body[-2000:])
            return json.loads(body), response.headers
        finally:
            connection.close()

    def get(self, address: str) -> Any:
        """Returns the JSON of a page."""
        return self.request(address)[0]


@contextlib.contextmanager
def running(module: str, *args: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a module of Python, with the examples, until the end of the block."""
    path = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *args],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdin=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def site(folder: Path, module: str, *args: str, **environment: str) -> Iterator[Site]:
    """Runs an HTTP server at a unix socket, whose path replaces `{}` in the arguments."""
    path = str(folder / "http.sock")
    with running(module, *(arg.format(path) for arg in args), **environment) as process:
        deadline = time.monotonic() + _START_SECS
        while True:
            assert process.poll() is None, f"{module} ended with status {process.returncode}"
            assert time.monotonic() < deadline, f"{module} does not accept connections"
            with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
                sock.connect(path)
                break
            time.sleep(0.02)
        yield Site(process, path)


class Load:
    """The responses and failures of threads that call a function again and again."""

    def __init__(self, threads: int, call: Callable[[int], Any]) -> None:
        self.responses: list[Any] = []
        self.failures: list[BaseException] = []
        self.longest_secs = 0.0
        self._call = call
        self._stops = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(at,)) for at in range(threads)]

    def _run(self, at: int) -> None:
        number = at
        while not self._stops.is_set():
            began = time.monotonic()
            try:
                self.responses.append(self._call(number))
            except (AssertionError, OSError, http.client.HTTPException) as error:
                self.failures.append(error)
            self.longest_secs = max(self.longest_secs, time.monotonic() - began)
            number += len(self._threads)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stops.set()
        for thread in self._threads:
            thread.join()

    def refused(self) -> list[BaseException]:
        """Returns the failures that are not the end of a connection whose process was killed."""
        ended = (ConnectionError, http.client.RemoteDisconnected, http.client.IncompleteRead)
        return [failure for failure in self.failures if not isinstance(failure, ended)]


def at_the_same_time(count: int, call: Callable[[int], Any]) -> list[Any]:
    """Returns the results of a function that threads call at the same time."""
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count

    def run(at: int) -> None:
        barrier.wait()
        results[at] = call(at)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def wait_until(is_true: Callable[[], Any], secs: float = 60) -> None:
    """Waits until a function returns a true value."""
    deadline = time.monotonic() + secs
    while not is_true():
        assert time.monotonic() < deadline, f"not true after {secs} s"
        time.sleep(0.01)
