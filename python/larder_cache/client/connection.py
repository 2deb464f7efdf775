"""Blocking sockets to servers."""

from __future__ import annotations

import platform
from typing import Any

from .servers import KeepaliveOpts, ServerSpec


def check_keepalive(options: KeepaliveOpts | None) -> None:
    """Raises `ValueError` if this is not a `KeepaliveOpts`, and `SystemError` if the operating
    system has no such options."""
    if options is None:
        return
    system = platform.system()
    if system != "Linux":
        raise SystemError(
            f"socket_keepalive needs Linux, this is {system}: leave out socket_keepalive"
        )
    if not isinstance(options, KeepaliveOpts):
        raise ValueError(f"socket_keepalive is {options!r}, expected a KeepaliveOpts")


class Dialer:
    """Opens connections to one server, with the options of a client."""

    def __init__(
        self,
        server: ServerSpec,
        socket_module: Any,
        connect_timeout: float | None,
        timeout: float | None,
        no_delay: bool,
        keepalive: KeepaliveOpts | None,
        tls_context: Any,
    ) -> None:
        self._server = server
        self._module = socket_module
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._no_delay = no_delay
        self._keepalive = keepalive
        self._tls_context = tls_context

    def dial(self) -> Any:
        """Returns a connected socket. Tries all addresses of the host.

        Raises the `OSError` of the last address.
        """
        module = self._module
        if not isinstance(self._server, tuple):
            sock = module.socket(module.AF_UNIX, module.SOCK_STREAM)
            return self._connected(sock, self._server)
        host, port = self._server
        addresses = module.getaddrinfo(
            host, port, module.AF_UNSPEC, module.SOCK_STREAM, module.IPPROTO_TCP
        )
        failure = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in addresses:
            try:
                sock = module.socket(family, kind, protocol)
                return self._connected(self._prepared(sock, host), address)
            except OSError as error:
                failure = error
        raise failure

    def _prepared(self, sock: Any, host: str) -> Any:
        # Sets the options that only TCP has. A TLS handshake is a part of connecting.
        module = self._module
        try:
            if self._no_delay:
                sock.setsockopt(module.IPPROTO_TCP, module.TCP_NODELAY, 1)
            if self._tls_context is not None:
                sock = self._tls_context.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise
        return sock

    def _connected(self, sock: Any, address: Any) -> Any:
        module = self._module
        try:
            sock.settimeout(self._connect_timeout)
            if (keepalive := self._keepalive) is not None:
                sock.setsockopt(module.SOL_SOCKET, module.SO_KEEPALIVE, 1)
                sock.setsockopt(module.IPPROTO_TCP, module.TCP_KEEPIDLE, keepalive.idle)
                sock.setsockopt(module.IPPROTO_TCP, module.TCP_KEEPINTVL, keepalive.intvl)
                sock.setsockopt(module.IPPROTO_TCP, module.TCP_KEEPCNT, keepalive.cnt)
            sock.connect(address)
            sock.settimeout(self._timeout)
        except BaseException:
            sock.close()
            raise
        return sock
