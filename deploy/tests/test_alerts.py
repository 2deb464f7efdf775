"""Each alert fires when a real larderd is brought into the state that the alert reports. None fires
on a healthy server under load."""

import contextlib
import ctypes
import re
import resource
import socket
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servers import (
    ROOT,
    SCRATCH,
    Larderd,
    Prometheus,
    cluster,
    disk,
    origins,
    stop,
    tls,
    users,
    wait_until,
    weights,
)

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207

FIRED_SECS_MAX = 120
# An hour of production is a few seconds here: no alert waits, and windows are short.
WINDOW_SECS = 15
OFFSET_SECS = 25
# The keys of copies that fill the lists of a small near cache.
MANY = range(30_000)
# The socket of an origin.
FOLLOWED = SCRATCH / "followed.sock"
# The load of other servers may keep an origin from its processor.
PATIENT = ("--near-max-stale", "30s", "--origin-timeout", "10s")


def shorten(rules):
    rules = re.sub(r"\n +for: \w+", "", rules)
    rules = re.sub(r"\[\w+\]", f"[{WINDOW_SECS}s]", rules)
    return re.sub(r"offset \w+", f"offset {OFFSET_SECS}s", rules)


# Each step is repeated until the alert fires.
def kill(server):
    server.kill()


def restart(server):
    server.restart()
    time.sleep(2)


def connect(count):
    def step(server):
        while len(server.streams) < count:
            server.connect()

    return step


def connect_beyond_the_limit(server):
    # Refused connections are closed by the server.
    for _ in range(30):
        server.connect()


def trace(server, name):
    # Only the traced thread stops, until the thread that traces it ends.
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    thread = next(task for task in tasks if (task / "comm").read_text().startswith(name))
    if LIBC.ptrace(PTRACE_SEIZE, int(thread.name), None, None) == 0:
        LIBC.ptrace(PTRACE_INTERRUPT, int(thread.name), None, None)


def trace_a_worker(server):
    trace(server, "worker")


def store_without_eviction(server):
    for number in range(100):
        server.store(f"k{number}", 100_000)


def store_too_large(server):
    for number in range(20):
        server.store(f"k{number}", 20_000)


def load(*arguments):
    def step(server):
        server.bench(10, *arguments).wait()

    return step


def miss_after_hits(server):
    """Sends hits until the past for the comparison has been scraped, then misses."""
    server.store("present", 10)
    key = b"present" if server.age() < OFFSET_SECS else b"absent"
    server.ask((b"get " + key + b"\r\n") * 20 + b"mn\r\n", b"MN\r\n")


def read_nothing(server):
    """Requests more on many connections than their sockets can buffer, and does not read the
    answers. About 15 KiB wait for each connection."""
    server.store("v", 30_000)
    while len(server.streams) < 2600:
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.connect(("127.0.0.1", server.port))
        stream.setblocking(False)
        server.streams.append(stream)
    for stream in server.streams:
        with contextlib.suppress(BlockingIOError):
            stream.send(b"get v\r\n" * 2000)


def log_in_wrongly(server):
    for _ in range(20):
        server.ask(b"set login 0 0 9\r\napp wrong\r\n")


def fail_writes(server):
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    server.store("k", 10)


def hang_writes(server):
    """Stops the thread that writes to the disk, as if a write hung."""
    trace(server, "larder-log")
    server.store("k", 10)


def hang_writes_of_a_cache(server):
    """Only the first items that memory evicts fit into the disk's buffers."""
    trace(server, "larder-log")
    load(*STORES, "--value-bytes", "1000")(server)


def fill_the_disk(server):
    for number in range(400):
        server.store(f"k{number}", 100_000)


def fill_the_disk_slowly(server):
    """Fills the log, which can hold 35 MB of items."""
    while server.stored < 200 + 3 * server.age():
        server.store(f"k{server.stored}", 100_000)
        server.stored += 1


def fill_the_index(server):
    """Fills the index, which can hold 300,000 items."""
    new = range(server.stored, server.stored + 30_000)
    server.store_many(new)
    server.stored = new.stop


def damage_the_disk(server):
    for number in range(2000):
        server.store(f"k{number}", 10_000)
    log = SCRATCH / server.name / "log"
    with open(log, "r+b") as file:
        for offset in range(4 << 20, min(24 << 20, log.stat().st_size), 4096):
            file.seek(offset + 100)
            file.write(bytes(3000))
    for number in range(2000):
        with contextlib.suppress(AssertionError):
            server.ask(f"mg k{number} v\r\n".encode())


def write_a_wrong_certificate(server):
    (SCRATCH / "renewed.pem").write_text(f"no certificate {server.age()}\n")


def read_many(server):
    """Reads the keys that `store_many` stores."""
    gets = b"".join(b"get k%d\r\n" % number for number in MANY)
    server.ask(gets + b"mn\r\n", b"MN\r\n")


def kill_the_origin(near):
    near.origin.kill()


def report_no_changes(near):
    """Puts an origin in the place of the first one that answers like one that is upgraded."""
    if near.origin.process.poll() is None:
        near.origin.kill()
        threading.Thread(target=serve_without_reports, args=[near.origin.port], daemon=True).start()


def serve_without_reports(port):
    def answer(stream):
        with stream, stream.makefile("rwb", buffering=0) as file:
            for line in file:
                if line.startswith(b"larder_follow "):
                    file.write(b"SERVER_ERROR upgrade in progress; try again later\r\n")
                elif line == b"mn\r\n":
                    file.write(b"MN\r\n")

    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=answer, args=[stream], daemon=True).start()


def ask_a_hanging_origin(near):
    """Reads keys without copies while the origin hangs for less than --near-max-stale."""
    near.origin.suspend()
    keys = b" ".join(b"absent%d" % number for number in range(60))
    near.ask(b"get " + keys + b"\r\n")
    near.origin.resume()
    wait_until("the origin answers", lambda: near.ask(b"get present\r\n") == b"END\r\n")


def restart_the_origin(near):
    near.origin.restart()


def copy_many(near):
    """Copies items whose keys fill the lists, which have a quarter of 4 MiB."""
    near.origin.store_many(MANY)
    read_many(near)


def write_wrong_weights(near):
    (SCRATCH / "weights").write_text(f"no-origin:11211 {1 + int(near.age())}\n")


def tear_the_list(_):
    (SCRATCH / "torn").write_text("127.0.0.1:")


def change_while_a_near_cache_hangs(origin):
    """Changes more items than the origin can report to a near cache that reads nothing. A unix
    socket has a small buffer."""
    if not origin.followers:
        origin.followers.append(Larderd("--origin", str(FOLLOWED)))
    [near] = origin.followers
    origin.store_many(MANY)
    read_many(near)
    near.suspend()
    origin.store_many(MANY)
    near.resume()


def nothing(_server):
    """The options are sufficient to provoke the alert."""


STORES = ("--mode", "set", "--keys", "100000", "--connections", "4", "--pipeline", "4")
# By alert: the options of the server, and the step that provokes it.
PROVOCATIONS = {
    "LarderDown": ([], kill),
    "LarderNotReady": (["-c", "20", "-o", "no_maxconns_fast"], connect(25)),
    "LarderWorkerSilent": ([], trace_a_worker),
    "LarderRestarting": ([], restart),
    "LarderConnectionsHigh": (["-c", "100"], connect(85)),
    "LarderConnectionsNearLimit": (["-c", "100"], connect(97)),
    "LarderConnectionsRefused": (["-c", "20"], connect_beyond_the_limit),
    "LarderStoresRefused": (["-m", "4", "-M"], store_without_eviction),
    "LarderItemsTooLarge": (["-I", "10k"], store_too_large),
    "LarderEvictsYoung": (["-m", "4"], load(*STORES, "--value-bytes", "1000")),
    "LarderHitRatioDropped": ([], miss_after_hits),
    "LarderStoresMakeRoom": (["-m", "32"], load(*STORES, "--value-bytes", "100000")),
    "LarderOutputBudgetUsed": (["-c", "4000"], read_nothing),
    "LarderLoginsRefused": (users(), log_in_wrongly),
    "LarderCertificateExpires": (tls(), nothing),
    "LarderCertificateNotReloaded": (tls("renewed"), write_a_wrong_certificate),
    "LarderDiskFailed": (disk("LarderDiskFailed", "store"), fail_writes),
    "LarderDiskNotSynced": (disk("LarderDiskNotSynced", "store"), hang_writes),
    "LarderDiskNearlyFull": (disk("LarderDiskNearlyFull", "store"), fill_the_disk),
    "LarderDiskFillsUp": (disk("LarderDiskFillsUp", "store"), fill_the_disk_slowly),
    "LarderDiskIndexNearlyFull": (
        ["-m", "4", *disk("LarderDiskIndexNearlyFull", "store", "256m")],
        fill_the_index,
    ),
    "LarderDiskDropsItems": (
        ["-m", "8", *disk("LarderDiskDropsItems", "cache")],
        hang_writes_of_a_cache,
    ),
    "LarderDiskUnreadable": (["-m", "4", *disk("LarderDiskUnreadable", "store")], damage_the_disk),
    "LarderServersStale": (cluster("torn"), tear_the_list),
    "LarderFollowersSlow": (
        ["--followers", "1", "-l", f"unix:{FOLLOWED}"],
        change_while_a_near_cache_hangs,
    ),
}
# The same for near caches, which also have an origin.
PROVOCATIONS_OF_NEAR_CACHES = {
    "LarderOriginUnreachable": ([], kill_the_origin),
    "LarderCopiesUnused": ([], report_no_changes),
    "LarderOriginUnanswered": ([], ask_a_hanging_origin),
    "LarderChangeStreamsLost": ([], restart_the_origin),
    "LarderCopiesTooFew": (["-m", "4"], copy_many),
    "LarderWeightsNotReloaded": (weights(), write_wrong_weights),
}
# This alert has no instance, so it cannot be provoked together with the others.
ALONE = {"LarderAbsent"}


class Provoked(Larderd):
    def __init__(self, name, options, step):
        super().__init__(*options)
        self.name = name
        self.step = step
        self.stored = 0
        self.followers = []
        self.began = time.monotonic()

    def age(self):
        return time.monotonic() - self.began

    def close(self):
        for near in self.followers:
            near.close()
        super().close()


class ProvokedNearCache(Provoked):
    def __init__(self, name, options, step):
        self.origin = Larderd("--followers", "2")
        if "--origin-weights" in options:
            (SCRATCH / "weights").write_text(f"127.0.0.1:{self.origin.port} 1\n")
        super().__init__(name, [*origins(self.origin), *options], step)

    def close(self):
        super().close()
        self.origin.close()


class Alerts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prometheus = Prometheus(shorten)
        cls.addClassCleanup(cls.prometheus.close)
        wait_until("it loads the rules", cls.prometheus.expressions)

    def test_every_alert_has_a_provocation_and_a_section_of_the_runbook(self):
        alerts = set(self.prometheus.expressions())
        provoked = set(PROVOCATIONS) | set(PROVOCATIONS_OF_NEAR_CACHES)
        self.assertEqual(alerts, provoked | ALONE)
        rules = (ROOT / "deploy/prometheus/alerts.yaml").read_text()
        runbook = (ROOT / "docs/runbook.md").read_text()
        for name in alerts:
            self.assertIn(f"runbook_url: docs/runbook.md#{name.lower()}\n", rules)
            self.assertIn(f"\n## {name}\n", runbook)

    def test_alerts_fire_when_provoked(self):
        fires = self.prometheus.firing
        absent = ("LarderAbsent", None)
        wait_until("LarderAbsent fires without targets", lambda: absent in fires())

        with contextlib.ExitStack() as stack:
            healthy, loads = self.start_healthy(stack)
            servers = []
            for of, provocations in [
                (Provoked, PROVOCATIONS),
                (ProvokedNearCache, PROVOCATIONS_OF_NEAR_CACHES),
            ]:
                for name, (options, step) in provocations.items():
                    servers.append(of(name, options, step))
                    stack.callback(servers[-1].close)
            addresses = [server.address for server in healthy + servers]
            self.prometheus.watch(addresses)
            self.prometheus.reload()
            up = 'count(up{job="larder"} == 1)'
            all_up = [float(len(addresses))]
            wait_until("all servers are up", lambda: self.prometheus.numbers(up) == all_up)
            wait_until("LarderAbsent ends", lambda: absent not in fires())
            early = {name for name, _ in fires()} - {"LarderCertificateExpires"}
            self.assertEqual(early, set(), "no alert fires before it is provoked")

            fired = self.provoke(servers)
            for server in servers:
                with self.subTest(server.name):
                    self.assertIn(server.name, fired)
            well = {server.address for server in healthy}
            false_alarms = {name for name, instance in fires() if instance in well}
            self.assertEqual(false_alarms, set(), "an alert fires on a healthy server")
            for load in loads:
                self.assertIsNone(load.poll(), "the load of a healthy server has ended")

    def start_healthy(self, stack):
        """Starts servers without problems, and their load."""
        plain, followed = Larderd("-m", "64"), Larderd("-m", "64", "--followers", "2")
        # The origin of the second near cache does not report changes.
        near_caches = [Larderd("-m", "64", *origins(of), *PATIENT) for of in (followed, plain)]
        stored = Larderd("-m", "64", *disk("healthy", "store"))
        healthy = [plain, followed, stored, *near_caches]
        for server in healthy:
            stack.callback(server.close)
        load = ("--mode", "mix", "--fill", "--rate")
        loads = [server.bench(600, *load, "2000") for server in (plain, stored)]
        loads += [near.bench(600, *load, "500", "--keys", "20") for near in near_caches]
        for process in loads:
            stack.callback(stop, process)
        return healthy, loads

    def provoke(self, servers):
        """Repeats the steps in parallel, and returns the names of the alerts that fired."""
        fired = {}
        ended = threading.Event()

        def run(server):
            server.began = time.monotonic()
            while not ended.is_set() and server.name not in fired:
                server.step(server)
                time.sleep(0.3)
            # Answers that wait for clients fill the system's memory for TCP, which all servers
            # share.
            server.hang_up()

        with ThreadPoolExecutor(len(servers)) as pool:
            running = [pool.submit(run, server) for server in servers]
            began = time.monotonic()
            try:
                while len(fired) < len(servers) and time.monotonic() < began + FIRED_SECS_MAX:
                    firing = self.prometheus.firing()
                    for server in servers:
                        if server.name not in fired and (server.name, server.address) in firing:
                            fired[server.name] = time.monotonic() - began
                            print(f"{server.name} fires after {fired[server.name]:.0f} s")
                    time.sleep(0.5)
            finally:
                ended.set()
            for each in running:
                each.result()
        return fired


if __name__ == "__main__":
    unittest.main()
