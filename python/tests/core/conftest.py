"""Fixtures for the tests of the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import PACKAGE

from larder_cache import Cache


@pytest.fixture
def cache() -> Iterator[Cache]:
    """A small cache in the memory of this process."""
    with Cache(memory="16M") as cache:
        yield cache


@pytest.fixture
def path() -> Iterator[Path]:
    """The name of a file in memory, which does not exist yet."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="larder-test-") as folder:
        yield Path(folder, "cache")


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python program with arguments, and ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
