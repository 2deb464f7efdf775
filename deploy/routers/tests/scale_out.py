#!/usr/bin/env python3
"""Checks the promises of docs/scale-out.md: three larderd behind nutcracker, one and two behind
HAProxy, under load, upgraded and killed. Every read is checked. Prints a table of counts.

With names of scenarios as arguments it runs only these."""

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
os.environ.setdefault("LARDERD", str(ROOT / "target/release/larderd"))
os.environ["PATH"] += ":/usr/sbin"
sys.dont_write_bytecode = True

from load import Connection, Load  # noqa: E402
from node import Node  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="larder-scale-out-", dir="/dev/shm")
CONFIGURATIONS = ROOT / "deploy/routers"
COLUMNS = "requests hits misses lost stale errors refused".split()
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


class Router:
    """A router with one of the configurations of deploy/routers, whose addresses are replaced."""

    def __init__(self, file, command, nodes, changes=()):
        text = (CONFIGURATIONS / file).read_text(encoding="utf-8")
        self.port = free_port()
        ports = {"22121": self.port, "22122": self.port}
        ports |= {str(11211 + i): node.port for i, node in enumerate(nodes)}
        text = re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", text)
        for before, after in changes:
            if before not in text:
                sys.exit(f"{file} does not have {before!r}")
            text = text.replace(before, after)
        path = f"{FOLDER}/{file}"
        Path(path).write_text(text, encoding="utf-8")
        with open(f"{path}.log", "ab") as log:
            self.process = subprocess.Popen([*command, path], stdout=log, stderr=log)
        running.append(self)
        wait_until(f"{file} accepts connections", lambda: Connection(self.port).close() is None)

    def close(self):
        self.process.kill()
        self.process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until(what, condition, secs=10):
    """Waits until a condition holds. Returns the seconds that it took."""
    began = time.monotonic()
    while time.monotonic() - began < secs:
        try:
            if condition():
                return time.monotonic() - began
        except Exception:
            pass
        time.sleep(0.005)
    sys.exit(f"{what}: not within {secs} s; {logs()}")


def logs():
    """Returns the logs of the servers and routers, to explain a failure."""
    files = Path(FOLDER).glob("*.log")
    return "\n".join(f"{path.name}: {path.read_text(errors='replace')}" for path in files)


def nutcracker(nodes, changes=()):
    stats = [f"--stats-port={free_port()}", "--stats-addr=127.0.0.1"]
    return Router("nutcracker.yml", ["nutcracker", *stats, "--conf-file"], nodes, changes)


def haproxy(file, nodes):
    return Router(file, ["haproxy", "-db", "-f"], nodes)


def start_nodes(count, *args):
    nodes = [Node(FOLDER, f"{len(rows)}-{name}", *args) for name in "abc"[:count]]
    running.extend(nodes)
    return nodes


def play(name, nodes, router, happen, quiet_secs=1.5):
    """Runs the load, calls `happen` in the middle of it, and adds a row to the table."""
    load = Load(router.port)
    load.fill()
    load.start()
    time.sleep(quiet_secs)
    note = happen(load)
    time.sleep(quiet_secs)
    load.stop()
    rows.append((name, load.counts, note or ""))
    for process in (router, *nodes):
        process.close()
        running.remove(process)
    print(f"# {name}: {dict(load.reasons) or 'no error'}", flush=True)
    check(load.counts["hits"] > 500, f"{name}: only {load.counts['hits']} hits")
    return load


def rolling_upgrade(nodes):
    def happen(_load):
        secs = []
        for node in nodes:
            secs.append(node.upgrade())
            time.sleep(0.5)
        return f"successors served after {max(secs):.2f} s"

    return happen


def kill_and_probe(node):
    """Kills a node and reconnects to it repeatedly until it is warm."""

    def happen(_load):
        node.ask(b"set probe 0 0 4\r\nwarm\r\n")
        node.kill()
        killed = time.monotonic()
        answers = [node.ask(b"get probe\r\n")]
        secs = time.monotonic() - killed
        answers += [node.ask(b"get probe\r\n") for _ in range(20)]
        found = set(answers)
        check(found == {b"VALUE probe 0 4\r\n"}, f"after kill -9: {node.name} answers {found}")
        check(node.starts == 2, f"after kill -9: {node.name} was started {node.starts} times")
        check(secs < 1, f"after kill -9: {node.name} was warm after {secs:.2f} s")
        return f"warm after {secs:.3f} s"

    return happen


def nothing_wrong(name, load, errors_max=0):
    counts = load.counts
    for what in ("stale", "lost", "refused"):
        check(counts[what] == 0, f"{name}: {counts[what]} {what}")
    words = f"{name}: {counts['errors']} errors, at most {errors_max} are explained"
    check(counts["errors"] <= errors_max, f"{words}: {dict(load.reasons)}")


def three_behind_nutcracker():
    name = "nutcracker, three: rolling upgrade"
    nodes = start_nodes(3)
    nothing_wrong(name, play(name, nodes, nutcracker(nodes), rolling_upgrade(nodes)))

    # Each client waits for one request at a time, so when a connection of nutcracker is closed, at
    # most one request of each client fails.
    name = "nutcracker, three: drain of 1 s ends"
    nodes = start_nodes(3, "--upgrade-drain=1")
    load = play(name, nodes, nutcracker(nodes), rolling_upgrade(nodes))
    nothing_wrong(name, load, errors_max=3 * load.clients)

    name = "nutcracker, three: kill -9 of one"
    nodes = start_nodes(3)
    load = play(name, nodes, nutcracker(nodes), kill_and_probe(nodes[1]))
    nothing_wrong(name, load, errors_max=load.clients)


def nutcracker_that_ejects():
    """The keys of a failed server move to the others. It returns with its file. According to the
    guide, reads may then find values from before the failure. This shows that the load detects
    stale reads."""

    def happen(load):
        nodes[1].stop()
        secs = wait_until("the others take over", lambda: all_can_be_stored(load))
        time.sleep(1)
        nodes[1].start()
        time.sleep(3)
        return f"others took over after {secs:.2f} s"

    def all_can_be_stored(load):
        connection = Connection(load.port)
        for i in range(100):
            connection.change(f"set other:{i} 0 0 1\r\nx\r\n".encode(), [b"STORED"])
        connection.close()
        return True

    name = "nutcracker, three: one ejected, returns"
    nodes = start_nodes(3)
    at_once = "true\n  server_retry_timeout: 1000\n  server_failure_limit: 1"
    eject = ("auto_eject_hosts: false", f"auto_eject_hosts: {at_once}")
    load = play(name, nodes, nutcracker(nodes, [eject]), happen)
    check(load.counts["stale"] > 0, f"{name}: no stale read, so the guide warns of nothing")


def one_behind_haproxy():
    name = "haproxy, one: upgrade"
    nodes = start_nodes(1)
    load = play(name, nodes, haproxy("haproxy-one.cfg", nodes), rolling_upgrade(nodes))
    nothing_wrong(name, load)

    name = "haproxy, one: kill -9"
    nodes = start_nodes(1)
    load = play(name, nodes, haproxy("haproxy-one.cfg", nodes), kill_and_probe(nodes[0]))
    nothing_wrong(name, load, errors_max=load.clients)


def pair_behind_haproxy():
    name = "haproxy, pair: rolling upgrade"
    nodes = start_nodes(2)
    load = play(name, nodes, haproxy("haproxy-pair.cfg", nodes), rolling_upgrade(nodes))
    nothing_wrong(name, load)

    name = "haproxy, pair: kill -9 of the active one"
    nodes = start_nodes(2)
    load = play(name, nodes, haproxy("haproxy-pair.cfg", nodes), kill_and_probe(nodes[0]))
    nothing_wrong(name, load, errors_max=load.clients)

    def happen(load):
        active, backup = nodes
        active.stop()
        secs = wait_until("the backup takes over", lambda: serves(load))
        time.sleep(1)
        # According to the guide, a replaced server returns empty.
        os.remove(active.file)
        active.start()
        time.sleep(2)
        check(b"STAT cmd_get 0" not in stats(active), "the active one is not used again")
        backup.ask(b"flush_all\r\n")
        return f"backup took over after {secs:.2f} s"

    def serves(load):
        connection = Connection(load.port)
        connection.socket.settimeout(0.5)
        connection.change(b"set other 0 0 1\r\nx\r\n", [b"STORED"])
        connection.close()
        return True

    def stats(node):
        with node.connect() as connection:
            connection.sendall(b"stats\r\n")
            return b"".join(iter(connection.makefile("rb").readline, b"END\r\n"))

    name = "haproxy, pair: active one gone, returns empty"
    nodes = start_nodes(2)
    load = play(name, nodes, haproxy("haproxy-pair.cfg", nodes), happen)
    # A client may still be connected to the backup while another one already writes to the active
    # server. It reads the backup's values until HAProxy has closed its connection: at most one read
    # per client.
    check(load.counts["stale"] <= load.clients, f"{name}: {load.counts['stale']} stale reads")


def main():
    for file in (CONFIGURATIONS / "mcrouter").iterdir():
        json.loads(file.read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    for program in ("nutcracker", "haproxy"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing: run conformance/install.sh all")
    for scenario in (
        three_behind_nutcracker,
        nutcracker_that_ejects,
        one_behind_haproxy,
        pair_behind_haproxy,
    ):
        if len(sys.argv) == 1 or scenario.__name__ in sys.argv[1:]:
            scenario()
    print(f"\n{'':46}" + "".join(f"{column:>9}" for column in COLUMNS))
    for name, counts, note in rows:
        print(f"{name:46}" + "".join(f"{counts[column]:9}" for column in COLUMNS) + f"  {note}")
    for words in failures:
        print(f"not ok: {words}")
    # Continuous integration adds up such lines.
    print(f"scale_out: {checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
