"""TLS: the certificate of the server is checked."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers

from larder_cache.client import AsyncClient, Client, HashClient, PooledClient


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of localhost, signed by itself. Its key is next to it."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
    command += " -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE"
    command += " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture(scope="module")
def secure(certificate: Path) -> Iterator[servers.Server]:
    """A larderd whose TCP port has TLS."""
    files = f"ssl_chain_cert={certificate},ssl_key={certificate.with_name('key.pem')}"
    with servers.larderd("-Z", "-o", files, tcp=True) as server:
        yield server


def test_requests_are_encrypted(certificate: Path, secure: servers.Server) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    address = ("localhost", secure.tcp[1])
    value = bytes(range(256)) * 1000
    for client in (
        Client(address, tls_context=context, timeout=20, connect_timeout=20, no_delay=True),
        PooledClient(address, tls_context=context),
        HashClient([address], tls_context=context),
    ):
        with client:
            assert client.set("a", value, noreply=False) is True
            assert client.get("a") == value


async def test_async_requests_are_encrypted(certificate: Path, secure: servers.Server) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    address = ("localhost", secure.tcp[1])
    value = bytes(range(256)) * 1000
    async with AsyncClient(address, tls_context=context, timeout=20) as client:
        assert await client.set("a", value) is True
        assert await client.get("a") == value


async def test_an_unknown_certificate_is_refused(secure: servers.Server) -> None:
    context = ssl.create_default_context()
    address = ("localhost", secure.tcp[1])
    with Client(address, tls_context=context) as client, pytest.raises(ssl.SSLError):
        client.get("a")
    async with AsyncClient(address, tls_context=context) as waiting:
        with pytest.raises(ssl.SSLError):
            await waiting.get("a")
