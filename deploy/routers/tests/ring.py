#!/usr/bin/env python3
"""Checks the promises of docs/scale-out.md on growing and shrinking: 20 clients that divide the
keys among servers by ketama, as libmemcached does, while the servers are restarted one after the
other, while a fourth server joins, and while it leaves. Every read is checked. Prints a table of
counts."""

import atexit
import bisect
import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LARDERD = os.environ.get("LARDERD", str(ROOT / "target/release/larderd"))
LARDER = os.environ.get("LARDER", str(ROOT / "target/release/larder"))
sys.dont_write_bytecode = True

from load import Connection, Failed, Load, Refused  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="larder-ring-")
COLUMNS = "requests hits misses lost stale errors refused".split()
CLIENTS = 20
POINTS_PER_SERVER = 160
# `larder warm` handles changes of a source after at most 10 ms.
PAUSE_SECS = 0.2
rows, failures, running = [], [], []
checks = 0


@atexit.register
def clean_up():
    while running:
        running.pop().close()
    shutil.rmtree(FOLDER, ignore_errors=True)


def check(holds, words):
    global checks
    checks += 1
    if not holds:
        failures.append(words)


class Server:
    """A larderd that keeps its items over a restart in a dump."""

    def __init__(self, name):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.name = name
        running.append(self)
        self.start()

    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        user = pwd.getpwuid(os.getuid()).pw_name
        options = ["-u", user, "-l", "127.0.0.1", "-p", str(self.port), "-m", "64", "-t", "2"]
        dump = f"--dump={FOLDER}/{self.name}.dump"
        keeps = ["--followers", "8", dump, "--restore-ttl", "300"]
        with open(f"{FOLDER}/{self.name}.log", "ab") as log:
            self.process = subprocess.Popen([LARDERD, *options, *keeps], stdout=log, stderr=log)
        began = time.monotonic()
        while time.monotonic() - began < 20:
            try:
                connection = Connection(self.port)
                connection.get(["probe"])
                return connection.close()
            except (Refused, Failed):
                time.sleep(0.005)
        sys.exit(f"{self.name} does not serve: {Path(FOLDER, self.name + '.log').read_text()}")

    def restart(self):
        """Stops larderd as a service manager does, and starts it again. Returns how long it was
        away, in seconds."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        check(status == 0, f"{self.name} ended with {status}")
        self.start()
        return time.monotonic() - began

    def close(self):
        self.process.kill()
        self.process.wait()


class Ring:
    """libmemcached's ketama: 160 points of MD5 for each server."""

    def __init__(self, servers):
        points = []
        for server in servers:
            for number in range(POINTS_PER_SERVER // 4):
                digest = hashlib.md5(f"{server.address()}-{number}".encode()).digest()
                for at in range(0, 16, 4):
                    points.append((int.from_bytes(digest[at : at + 4], "little"), server.port))
        self.points = sorted(points, key=lambda point: point[0])
        self.hashes = [point[0] for point in self.points]

    def port_of(self, key):
        place = int.from_bytes(hashlib.md5(key.encode()).digest()[:4], "little")
        at = bisect.bisect_left(self.hashes, place)
        return self.points[at % len(self.points)][1]


class RingConnection:
    """A client's connections to all servers of the current list."""

    def __init__(self, load):
        self.load = load
        self.connections = {}

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def of(self, port):
        if port not in self.connections:
            try:
                self.connections[port] = Connection(port)
            except Refused as refused:
                raise Failed("refused") from refused
        return self.connections[port]

    def change(self, request, expected):
        key = request.split(b" ", 2)[1].split(b"\r", 1)[0].decode()
        with self.load.request_gate():
            self.of(self.load.ring.port_of(key)).change(request, expected)

    def get(self, keys):
        found = {}
        with self.load.request_gate():
            for port in {self.load.ring.port_of(key) for key in keys}:
                mine = [key for key in keys if self.load.ring.port_of(key) == port]
                found |= self.of(port).get(mine)
        return found


class RingLoad(Load):
    """Clients with a list of servers, which they change together, between two requests."""

    def __init__(self, servers):
        super().__init__(None, CLIENTS)
        self.ring = Ring(servers)
        self.gate = threading.Condition()
        self.in_flight, self.is_closed = 0, False

    def connect(self):
        return RingConnection(self)

    def request_gate(self):
        load = self

        class Gate:
            def __enter__(self):
                with load.gate:
                    load.gate.wait_for(lambda: not load.is_closed)
                    load.in_flight += 1

            def __exit__(self, *_):
                with load.gate:
                    load.in_flight -= 1
                    load.gate.notify_all()

        return Gate()

    def switch(self, servers, pause_secs):
        """Gives all clients another list. No request is sent for `pause_secs`."""
        with self.gate:
            self.is_closed = True
            self.gate.wait_for(lambda: self.in_flight == 0)
        time.sleep(pause_secs)
        with self.gate:
            self.ring = Ring(servers)
            self.is_closed = False
            self.gate.notify_all()


class Warm:
    """A `larder warm` that runs until it is told to end."""

    def __init__(self, before, after, target):
        lists = [",".join(server.address() for server in servers) for servers in (before, after)]
        options = ["--from", lists[0], "--to", lists[1], "--self", target.address()]
        command = [LARDER, "warm", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.append(self)

    def wait_until_copied(self):
        for line in self.process.stderr:
            if "give the clients the new list" in line:
                return
        sys.exit(f"larder warm ended early with {self.process.wait()}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stderr.read().strip().splitlines()
        status = self.process.wait(30)
        check(status == 0, f"larder warm ended with {status}: {rest}")
        return rest[-1] if rest else ""

    def close(self):
        self.process.kill()
        self.process.wait()


def play(name, servers, happen, errors_max):
    """Runs the load on the first list of servers, and calls `happen` in the middle of it."""
    load = RingLoad(servers)
    load.fill()
    load.start()
    time.sleep(2)
    note = happen(load)
    time.sleep(3)
    load.stop()
    rows.append((name, load.counts, note))
    counts = load.counts
    print(f"# {name}: {dict(load.reasons) or 'no error'}", flush=True)
    check(counts["hits"] > 5000, f"{name}: only {counts['hits']} hits")
    check(counts["stale"] == 0, f"{name}: {counts['stale']} reads returned an older value")
    share = counts["lost"] / (counts["hits"] + counts["lost"])
    check(share <= 0.01, f"{name}: {counts['lost']} hits lost, {share:.2%}")
    errors = counts["errors"] + counts["refused"]
    check(errors <= errors_max, f"{name}: {errors} errors: {dict(load.reasons)}")


def rolling(servers):
    def happen(_load):
        away = [server.restart() for server in servers]
        return f"each away for at most {max(away):.2f} s"

    # A client waits for one server at a time, and tries again after 10 ms.
    play("restart of each of three, with a dump", servers[:3], happen, errors_max=10_000)


def growth(servers, pause_secs=PAUSE_SECS):
    def happen(load):
        warm = Warm(servers[:3], servers, servers[3])
        began = time.monotonic()
        warm.wait_until_copied()
        secs = time.monotonic() - began
        load.switch(servers, pause_secs)
        time.sleep(1)
        return f"copied in {secs:.2f} s; {warm.end().removeprefix('larder: ')}"

    name = f"three to four, clients pause {pause_secs * 1000:.0f} ms"
    play(name, servers[:3], happen, errors_max=0)


def shrinking(servers, pause_secs=PAUSE_SECS):
    def happen(load):
        began = time.monotonic()
        warms = [Warm(servers, servers[:3], target) for target in servers[:3]]
        for warm in warms:
            warm.wait_until_copied()
        secs = time.monotonic() - began
        load.switch(servers[:3], pause_secs)
        time.sleep(1)
        for warm in warms:
            warm.end()
        return f"copied in {secs:.2f} s"

    name = f"four to three, clients pause {pause_secs * 1000:.0f} ms"
    play(name, servers, happen, errors_max=0)


def growth_and_back(servers):
    """A server that joins, and leaves again while its keys have changed: the others have values
    from before, which no client may read."""

    def happen(load):
        warm = Warm(servers[:3], servers, servers[3])
        warm.wait_until_copied()
        load.switch(servers, 0.2)
        time.sleep(0.5)
        warm.end()
        time.sleep(3)
        warms = [Warm(servers, servers[:3], target) for target in servers[:3]]
        for warm in warms:
            warm.wait_until_copied()
        load.switch(servers[:3], 0.2)
        time.sleep(0.5)
        for warm in warms:
            warm.end()
        return ""

    play("three to four and back", servers[:3], happen, errors_max=0)


def main():
    for number, scenario in enumerate((rolling, growth, shrinking, growth_and_back)):
        servers = [Server(f"{name}{number}") for name in "abcd"]
        scenario(servers)
        for server in servers:
            server.close()
            running.remove(server)
    width = max(len(name) for name, _, _ in rows)
    print(f"\n{'':{width}}" + "".join(f"{column:>9}" for column in COLUMNS))
    for name, counts, note in rows:
        print(f"{name:{width}}" + "".join(f"{counts[column]:9}" for column in COLUMNS) + f"  {note}")
    for words in failures:
        print(f"not ok: {words}")
    # Continuous integration adds up such lines.
    print(f"ring: {checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
