"""A server that misbehaves as a test prescribes."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Script = Callable[[socket.socket], None]
"""What the server does with a connection. It is closed afterwards."""


class ScriptedServer:
    """Runs one script for each connection, at a unix socket. The last script is repeated."""

    def __init__(self, path: str, scripts: tuple[Script, ...]) -> None:
        self.path = path
        self.connections = 0
        self._scripts = scripts
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Closes the listener and all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        for connection in self._open:
            # The script may have closed it.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._run, args=(script, connection), daemon=True).start()

    @staticmethod
    def _run(script: Script, connection: socket.socket) -> None:
        # The client may close the connection at any moment.
        with connection, contextlib.suppress(OSError):
            script(connection)


@contextlib.contextmanager
def scripted(*scripts: Script) -> Iterator[ScriptedServer]:
    """Runs a server with these scripts until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="larder") as folder:
        server = ScriptedServer(str(Path(folder) / "sock"), scripts)
        try:
            yield server
        finally:
            server.stop()


def request(connection: socket.socket) -> bytes:
    """Receives a request of one packet. Raises `OSError` at the end of the stream."""
    data = connection.recv(1 << 20)
    if not data:
        raise ConnectionResetError("the client has closed the connection")
    return data


def answers(*replies: bytes) -> Script:
    """Sends one of the replies after each request, then waits for another one, then closes."""

    def script(connection: socket.socket) -> None:
        for reply in replies:
            request(connection)
            connection.sendall(reply)
        request(connection)

    return script


def closes_after(reply: bytes) -> Script:
    """Sends a reply after the first request, then closes."""

    def script(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(reply)

    return script


def silent(connection: socket.socket) -> None:
    """Receives requests, and never answers."""
    while True:
        request(connection)


def serves(connection: socket.socket) -> None:
    """Answers each `get` with the key as the value, in upper case, and other commands with OK."""
    while True:
        for line in request(connection).split(b"\r\n")[:-1]:
            words = line.split(b" ")
            if words[0] == b"get":
                items = (b"VALUE %b 0 %d\r\n%b\r\n" % (k, len(k), k.upper()) for k in words[1:])
                connection.sendall(b"".join(items) + b"END\r\n")
            else:
                connection.sendall(b"OK\r\n")
