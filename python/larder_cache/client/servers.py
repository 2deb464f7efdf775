"""Addresses of servers, and the options of the sockets to them."""

from __future__ import annotations

ServerSpec = tuple[str, int] | str
"""A server: `(host, port)`, `"host:port"`, `"host"`, `"unix:/path"` or `"/path"`."""

DEFAULT_PORT = 11211

_MAX_PORT = 65535


def normalize_server_spec(server: ServerSpec) -> ServerSpec:
    """Returns `(host, port)`, or the path of a unix socket. The default port is 11211.

    Raises `ValueError` if `server` has none of the forms of a `ServerSpec`, or its port is not a
    number from 1 to 65535.
    """
    if isinstance(server, tuple) and len(server) == 2:
        _port_of(server, server[1])
        return server
    if not isinstance(server, str):
        raise ValueError(
            f"Unsupported server specification: {server!r}; expected (host, port), 'host:port',"
            " 'unix:/path' or '/path'"
        )
    if server.startswith("unix:"):
        return server.removeprefix("unix:")
    if server.startswith("/"):
        return server
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        # Without a port, also the address [::1].
        host, port = server, str(DEFAULT_PORT)
    return host.removeprefix("[").removesuffix("]"), _port_of(server, port)


def _port_of(server: ServerSpec, port: object) -> int:
    # The C library takes the port modulo 65536.
    if isinstance(port, str) and port.isascii() and port.removeprefix("-").isdigit():
        port = int(port)
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= _MAX_PORT:
        raise ValueError(
            f"{server!r} has the port {port!r}, expected a number from 1 to {_MAX_PORT}"
        )
    return port


class KeepaliveOpts:
    """When the kernel checks whether the server of an idle connection still exists.

    It sends the first probe after `idle` seconds without traffic, then one every `intvl` seconds,
    and closes the connection if `cnt` of them are not answered. Values below 1 raise `ValueError`.
    """

    __slots__ = ("idle", "intvl", "cnt")

    def __init__(self, idle: int = 1, intvl: int = 1, cnt: int = 5) -> None:
        for name, value in (("idle", idle), ("intvl", intvl), ("cnt", cnt)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1")
        self.idle = idle
        self.intvl = intvl
        self.cnt = cnt
