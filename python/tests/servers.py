"""Starts the servers of tests: larderd and memcached, in a temporary folder, on loopback only.

    with servers.larderd() as server:                     # at a unix socket
        Client(server.address)
    with servers.larderd(readers=True) as server: ...     # shares its memory with the test
    with servers.larderd(tcp=True) as server: ...         # also at 127.0.0.1 and a free port

`LARDERD` names the program; otherwise it is the one in target/release. Tests are skipped if the
program does not exist, but fail if `LARDERD` or `CI` is set.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_START_SECS = 60.0
_STOP_SECS = 20.0


class Server:
    """A running server. `socket_path` is its unix socket, `port` its TCP port or `None`."""

    def __init__(self, program: str, socket_path: Path, port: int | None, args: list[str]) -> None:
        self.program = program
        self.socket_path = str(socket_path)
        self.port = port
        self.args = args
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The unix socket, as an address for clients."""
        return f"unix:{self.socket_path}"

    @property
    def tcp(self) -> tuple[str, int]:
        """The TCP address, as an address for clients."""
        assert self.port is not None, "start the server with tcp=True"
        return "127.0.0.1", self.port

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Starts the process and waits until it accepts connections."""
        self._process = subprocess.Popen([self.program, *self.args], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_SECS
        while not self._accepts():
            code = self._process.poll()
            assert code is None, f"{self.program} {self.args} ended with status {code}"
            assert time.monotonic() < deadline, f"{self.program} does not accept connections"
            time.sleep(0.005)

    def stop(self) -> None:
        """Stops the process; does nothing if it does not run."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_STOP_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """Ends the process as a crash would."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Ends the process as a crash would, and starts it again at the same addresses."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stops the process with SIGSTOP: it answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        # Until all its threads have stopped, some of them may answer.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the process with SIGSTOP inside the block."""
        self.pause()
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _accepts(self) -> bool:
        addresses: list[tuple[int, object]] = [(socket.AF_UNIX, self.socket_path)]
        if self.port is not None:
            addresses = [(socket.AF_INET, ("127.0.0.1", self.port))]
        for family, address in addresses:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                try:
                    sock.connect(address)  # type: ignore[arg-type]
                except OSError:
                    return False
        return True


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 that no process uses at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def find(program: str) -> str:
    """Returns the path of a server's program.

    If the program does not exist, skips the test, or fails it if the program is required.
    """
    path, required, advice = program, bool(os.environ.get("CI")), "run conformance/install.sh"
    if program == "larderd":
        advice = "run `make build`, or set LARDERD"
        if named := os.environ.get("LARDERD"):
            path, required = named, True
        else:
            path = str(Path(__file__).parents[2] / "target/release/larderd")
    found = shutil.which(path)
    if found is None:
        reason = f"the program {path} does not exist: {advice}"
        if required:
            pytest.fail(reason)
        # Only memcached, for comparison; conformance/install.sh installs it, and continuous
        # integration fails if a test that .ci/skipped does not list is skipped.
        pytest.skip(reason)
    return found


@contextlib.contextmanager
def larderd(
    *args: str, readers: bool = False, tcp: bool = False, memory_mib: int = 64
) -> Iterator[Server]:
    """Runs a larderd at a unix socket until the end of the block.

    `readers` lets the processes of this user read its memory, `tcp` adds a TCP port of 127.0.0.1,
    and `args` are further options.
    """
    with _folder() as folder:
        path = folder / "larder.sock"
        port = free_port() if tcp else None
        listeners = [f"unix[readers]:{path}" if readers else f"unix:{path}"]
        if port is not None:
            listeners.append("127.0.0.1")
            args = ("-p", str(port), *args)
        options = ["-m", str(memory_mib), "-t", "2", "-U", "0", "-l", ",".join(listeners)]
        yield from _run("larderd", path, port, options, args)


@contextlib.contextmanager
def memcached(*args: str, tcp: bool = False, memory_mib: int = 64) -> Iterator[Server]:
    """Runs a memcached at a unix socket, or with `tcp` at a port, until the end of the block."""
    with _folder() as folder:
        path = folder / "memcached.sock"
        port = free_port() if tcp else None
        options = ["-m", str(memory_mib), "-t", "2", "-U", "0"]
        options += ["-l", "127.0.0.1", "-p", str(port)] if tcp else ["-s", str(path)]
        yield from _run("memcached", path, port, options, args)


def _run(
    program: str, path: Path, port: int | None, options: list[str], args: tuple[str, ...]
) -> Iterator[Server]:
    if os.getuid() == 0:
        # As root, both servers require an explicit user.
        options += ["-u", "root"]
    server = Server(find(program), path, port, [*options, *args])
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    # Not below pytest's folder: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="larder") as folder:
        yield Path(folder)
