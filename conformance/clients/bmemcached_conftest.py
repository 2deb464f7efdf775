"""Fixtures of python-binary-memcached's tests, which its source package lacks. `memcached` on the
PATH is larderd."""

import os
import pathlib
import socket
import subprocess
import time

import pytest

USER, PASSWORD = "larder", "a pass word"


def free_port(family, host):
    """Returns a free port."""
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


IPV6_PORT = free_port(socket.AF_INET6, "::1")


def start(host, port, *options, **environment):
    """Starts a server and waits until it accepts connections. A server that does not start fails
    the tests that need it."""
    server = subprocess.Popen(
        ["memcached", "-l", host, "-p", str(port), "-U", "0", *options], env=dict(os.environ, **environment)
    )
    for _ in range(100):
        try:
            socket.create_connection((host, port)).close()
            return server
        except OSError:
            if server.poll() is not None:
                pytest.fail(f"the server does not start with {options}")
            time.sleep(0.02)
    raise TimeoutError(f"the server does not listen on port {port}")


@pytest.fixture(scope="session")
def memcached_ipv6():
    server = start("::1", IPV6_PORT)
    yield
    server.kill()
    server.wait()


@pytest.fixture(scope="session")
def memcached_sasl(tmp_path_factory):
    folder = pathlib.Path(tmp_path_factory.mktemp("sasl"))
    (folder / "memcached.conf").write_text("mech_list: plain\n")
    (folder / "passwords").write_text(f"{USER}:{PASSWORD}\n")
    port = free_port(socket.AF_INET, "127.0.0.1")
    environment = {"SASL_CONF_PATH": str(folder), "MEMCACHED_SASL_PWDB": str(folder / "passwords")}
    server = start("127.0.0.1", port, "-S", **environment)
    yield port, USER, PASSWORD
    server.kill()
    server.wait()
