"""A larderd with a listening socket that its starter keeps open, like systemd for a socket unit."""

import os
import pwd
import signal
import socket
import subprocess
import threading
import time

LARDERD = os.environ["LARDERD"]
# larderd accepts inherited sockets from descriptor 3 on if LISTEN_PID is its own process id. Only
# the process itself can set this in time.
SCRIPT = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&0 </dev/null'


class Node:
    """Starts larderd with a memory file, and restarts it whenever it ends by itself."""

    def __init__(self, folder, name, *args):
        self.folder, self.name, self.args = folder, name, args
        self.port = 0
        self.file = f"{folder}/{name}.memory"
        self.pid_file = f"{folder}/{name}.pid"
        self.starts = 0
        self.keeps_running = True
        self.has_ended = threading.Event()
        self.start()

    def start(self):
        """Opens the socket, starts larderd on it, and waits until it answers."""
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.keeps_running = True
        self.launch()
        self.ask(b"version\r\n")

    def launch(self):
        """Starts larderd. A thread restarts it immediately when it ends."""
        user = pwd.getpwuid(os.getuid()).pw_name
        files = ["-e", self.file, "-P", self.pid_file]
        command = [LARDERD, "-u", user, "-m", "64", "-t", "2", *files, *self.args]
        with open(f"{self.folder}/{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", SCRIPT, "sh", *command], stdin=self.listener, stdout=log, stderr=log
            )
        self.starts += 1
        self.has_ended.clear()
        threading.Thread(target=self.watch, args=[self.process], daemon=True).start()

    def watch(self, process):
        """Waits until a process ends, and starts the next one, unless the node was stopped or
        upgraded (status 0)."""
        status = process.wait()
        self.has_ended.set()
        if self.keeps_running and status != 0:
            self.launch()

    def connect(self, timeout=10):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def ask(self, request):
        """Returns the answer to a request on a new connection, up to the first end of a line."""
        with self.connect() as connection:
            connection.sendall(request)
            return connection.makefile("rb").readline()

    def pid(self):
        """Returns the id of the serving process: after an upgrade the new process."""
        with open(self.pid_file, encoding="ascii") as file:
            return int(file.read())

    def upgrade(self):
        """Sends SIGUSR2 and waits until the new process serves. Returns how long this took."""
        before, began = self.pid(), time.monotonic()
        os.kill(before, signal.SIGUSR2)
        while time.monotonic() - began < 20:
            if os.path.exists(self.pid_file) and self.pid_or_none() not in (None, before):
                return time.monotonic() - began
            time.sleep(0.01)
        raise RuntimeError(f"{self.name} has no successor: {self.log()}")

    def pid_or_none(self):
        """Returns what `pid` returns, or None while the file is being written."""
        try:
            return self.pid()
        except (OSError, ValueError):
            return None

    def kill(self):
        """Kills the serving process, as the kernel does when memory runs out."""
        ended = self.has_ended
        os.kill(self.process.pid, signal.SIGKILL)
        if not ended.wait(10):
            raise RuntimeError(f"{self.name} does not end")

    def stop(self):
        """Kills larderd without a restart and closes the socket, as if the machine had failed."""
        self.keeps_running = False
        self.kill()
        self.listener.close()

    def close(self):
        """Ends all processes of the node."""
        self.keeps_running = False
        for pid in {self.process.pid, self.pid_or_none()} - {None}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.listener.close()

    def log(self):
        with open(f"{self.folder}/{self.name}.log", encoding="utf-8", errors="replace") as file:
            return file.read()
