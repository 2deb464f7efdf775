"""Fixtures of the tests of the clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import servers


@pytest.fixture(scope="session")
def larderd() -> Iterator[servers.Server]:
    """A larderd that does not share its memory. Its items are those of all tests."""
    with servers.larderd(tcp=True) as server:
        yield server


@pytest.fixture(scope="session")
def memcached() -> Iterator[servers.Server]:
    """A memcached. Its items are those of all tests."""
    with servers.memcached() as server:
        yield server


@pytest.fixture(params=["larderd", "memcached"])
def any_server(request: pytest.FixtureRequest) -> servers.Server:
    """A larderd, then a memcached."""
    server: servers.Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def readable() -> Iterator[servers.Server]:
    """A larderd that shares its memory with the test."""
    with servers.larderd(readers=True) as server:
        yield server
