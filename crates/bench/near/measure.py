#!/usr/bin/env python3
"""Measures near caches: `make bench NAME=near`.

Each row compares two larderd in one run, in rounds that alternate, by the processor time that the
server spends on a request, or by the time that a client waits. LARDERD names the release build.
Arguments name the functions to run, for example `misses`; without any, all run.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("ROUNDS", "5"))
KEYS = 1000
VALUE = b"x" * 100
TICK = os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, larderd, folder, *options, unix=False):
        self.path = f"{folder}/{time.monotonic_ns()}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        where = ["-s", self.path] if unix else ["-l", "127.0.0.1", "-p", str(self.port)]
        self.unix = unix
        self.process = subprocess.Popen(
            [larderd, "-u", "root", "-t", "1", *where, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def connect(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                if self.unix:
                    stream = socket.socket(socket.AF_UNIX)
                    stream.connect(self.path)
                else:
                    stream = socket.create_connection(("127.0.0.1", self.port), 20)
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return stream
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def address(self):
        return self.path if self.unix else f"127.0.0.1:{self.port}"

    def cpu(self):
        """Returns the nanoseconds that all threads have run."""
        total = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat", encoding="ascii") as stat:
                total += int(stat.read().split()[0])
        return total

    def stop(self):
        self.process.kill()
        self.process.wait()


def ask(stream, request, end, count=1):
    stream.sendall(request)
    response = b""
    while response.count(end) < count:
        part = stream.recv(1 << 18)
        if not part:
            sys.exit(f"near: {request[:40]} was answered with {response[-200:]}")
        response += part
    return response


def stat(server, name):
    with server.connect() as stream:
        rows = ask(stream, b"stats larder\r\n", b"END\r\n").decode().splitlines()
    return next((row.split()[2] for row in rows if row.startswith(f"STAT {name} ")), None)


def await_copies(near):
    while stat(near, "near_fresh") != "1":
        time.sleep(0.02)


def per_request(server, requests, end, count, rounds):
    """Returns the processor time of a request in nanoseconds."""
    with server.connect() as stream:
        ask(stream, requests[0], end, count)
        begin = server.cpu()
        for number in range(rounds):
            ask(stream, requests[number % len(requests)], end, count)
        return (server.cpu() - begin) / (rounds * count)


def ratio(name, asked, one, two):
    """Prints the median ratio of two measurements that alternate."""
    ratios = [one() / two() for _ in range(ROUNDS)]
    print(f"{name:<66} {asked:>8} {statistics.median(ratios):7.3f}   "
          f"({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


def fill(server, keys=KEYS):
    with server.connect() as stream:
        for at in range(0, keys, 100):
            sets = b"".join(b"set key:%06d 0 0 100\r\n%s\r\n" % (n, VALUE)
                            for n in range(at, min(at + 100, keys)))
            ask(stream, sets, b"STORED\r\n", min(at + 100, keys) - at)


GETS = [b"get key:%06d\r\n" % number for number in range(KEYS)]


def hits(larderd, folder):
    plain = Server(larderd, folder, unix=True)
    origin = Server(larderd, folder, "--followers=64")
    fill(plain)
    fill(origin)
    near = Server(larderd, folder, f"--origin={origin.address()}", unix=True)
    await_copies(near)
    with near.connect() as stream:
        for get in GETS:
            ask(stream, get, b"END\r\n")
    batches = [b"".join(GETS[at:at + 20]) for at in range(0, KEYS, 20)]
    ratio("hit, unix socket: larderd's own get / the near cache's", ">= 0.98",
          lambda: per_request(plain, GETS, b"END\r\n", 1, 20_000),
          lambda: per_request(near, GETS, b"END\r\n", 1, 20_000))
    ratio("the same, 20 gets in a pipeline", "-",
          lambda: per_request(plain, batches, b"END\r\n", 20, 5_000),
          lambda: per_request(near, batches, b"END\r\n", 20, 5_000))
    for server in (plain, origin, near):
        server.stop()


def several_origins(larderd, folder):
    """The processor time of hits, misses and sets with four origins instead of one."""
    origins = [Server(larderd, folder, "--followers=64") for _ in range(4)]
    addresses = [origin.address() for origin in origins]
    one = Server(larderd, folder, f"--origin={addresses[0]}", unix=True)
    four = Server(larderd, folder, f"--origin={','.join(addresses)}", unix=True)
    for near, fresh in ((one, "1"), (four, "4")):
        while stat(near, "near_fresh") != fresh:
            time.sleep(0.02)
        fill(near)
        with near.connect() as stream:
            for get in GETS:
                ask(stream, get, b"END\r\n")
    batches = [b"".join(GETS[at:at + 20]) for at in range(0, KEYS, 20)]
    sets = [b"set key:%06d 0 0 100\r\n%s\r\n" % (n, VALUE) for n in range(KEYS)]
    absent = [b"mg absent:%06d v h\r\n" % n for n in range(KEYS)]
    for name, requests, end, count, rounds in (
            ("hit", GETS, b"END\r\n", 1, 20_000),
            ("hit, 20 gets in a pipeline", batches, b"END\r\n", 20, 5_000),
            ("set", sets, b"STORED\r\n", 1, 5_000),
            ("mg that is passed on", absent, b"EN\r\n", 1, 5_000)):
        ratio(f"{name}: one origin / four", "-",
              lambda: per_request(one, requests, end, count, rounds),
              lambda: per_request(four, requests, end, count, rounds))
    for server in (*origins, one, four):
        server.stop()


def misses(larderd, folder):
    origin = Server(larderd, folder, "--followers=64")
    near = Server(larderd, folder, f"--origin={origin.address()}")
    plain = Server(larderd, folder)
    await_copies(near)
    many = 40_000
    fill(origin, many)
    fill(plain, many)

    # The origin forgets nothing, so each key is a miss of the near cache once in each round.
    def clear():
        with origin.connect() as stream:
            ask(stream, b"flush_all\r\n", b"OK\r\n")
        fill(origin, many)
        time.sleep(0.1)

    gets = [b"get key:%06d\r\n" % number for number in range(1, many)]

    def near_cpu():
        clear()
        return per_request(near, gets, b"END\r\n", 1, 10_000)

    ratio("miss: processor time of the near cache / a get at the origin", "<= 1.5",
          near_cpu, lambda: per_request(plain, gets, b"END\r\n", 1, 10_000))

    def median_us(server):
        times = []
        with server.connect() as stream:
            for get in gets[20_000:25_000]:
                begin = time.perf_counter_ns()
                ask(stream, get, b"END\r\n")
                times.append((time.perf_counter_ns() - begin) / 1000)
        return statistics.median(times)

    added = []
    for _ in range(ROUNDS):
        clear()
        added.append(median_us(near) - median_us(plain))
    print(f"{'miss: added median time, microseconds':<66} {'<= 60':>8} "
          f"{statistics.median(added):7.1f}   ({min(added):.1f} to {max(added):.1f})", flush=True)
    for server in (origin, near, plain):
        server.stop()


def crowded_misses(larderd, folder):
    """Misses of several clients that ask at once. No key has an item, and few are asked for twice,
    so that each get is fetched. The first row counts the processor time that both servers spend on
    a get beyond that of a get at the origin, the second one that of the near cache."""
    origin = Server(larderd, folder, "--followers=64")
    near = Server(larderd, folder, f"--origin={origin.address()}", "-m", "1024")
    plain = Server(larderd, folder)
    await_copies(near)

    def cpu(connections, server, others=()):
        with origin.connect() as stream:
            ask(stream, b"flush_all\r\n", b"OK\r\n")
        servers = (server, *others)
        begin = sum(each.cpu() for each in servers)
        requests = bench(server, "--keys", "5000000", "--mode", "get", "--no-load", "--seconds", "1",
                         "--connections", str(connections))["requests"]
        return (sum(each.cpu() for each in servers) - begin) / requests

    for connections in (1, 50, 200):
        both, alone = [], []
        for _ in range(ROUNDS):
            get = cpu(connections, plain)
            both.append((cpu(connections, near, (origin,)) - get) / get)
            alone.append(cpu(connections, near) / get)
        for name, asked, ratios in (("added by both servers / a get at the origin", "<= 1.5", both),
                                    ("the near cache's / a get at the origin", "-", alone)):
            print(f"{f'miss, {connections} clients: {name}':<66} {asked:>8} "
                  f"{statistics.median(ratios):7.3f}   ({min(ratios):.3f} to {max(ratios):.3f})",
                  flush=True)
    for server in (origin, near, plain):
        server.stop()


class Follower:
    """A change stream whose connection fetches keys, so that the origin reports them."""

    def __init__(self, origin):
        self.stream, self.data = origin.connect(), origin.connect()
        token = ask(self.stream, b"larder_follow 60000\r\n", b"\r\n").split()[1]
        ask(self.data, b"larder_follower %s\r\n" % token, b"OK\r\n")

    def fetch(self, keys):
        for at in range(0, len(keys), 100):
            some = keys[at:at + 100]
            # The values may be absent, and the interest is noted nevertheless.
            ask(self.data, b"".join(b"larder_fetch %s\r\n" % key for key in some) + b"mn\r\n",
                b"MN\r\n")

    def drain(self):
        self.stream.setblocking(False)
        try:
            while self.stream.recv(1 << 20):
                pass
        except BlockingIOError:
            self.stream.setblocking(True)


def changes(larderd, folder):
    alone = Server(larderd, folder)
    origin = Server(larderd, folder, "--followers=64")
    fill(alone)
    fill(origin)
    followers = [Follower(origin) for _ in range(64)]
    sets = [b"set key:%06d 0 0 100\r\n%s\r\n" % (n, VALUE) for n in range(KEYS)]
    batches = [b"".join(sets[at:at + 20]) for at in range(0, KEYS, 20)]
    ratio("set, 64 subscriptions, none interested: without / with", ">= 0.97",
          lambda: per_request(alone, batches, b"STORED\r\n", 20, 3_000),
          lambda: per_request(origin, batches, b"STORED\r\n", 20, 3_000))
    ratio("the same, one set at a time", "-",
          lambda: per_request(alone, sets, b"STORED\r\n", 1, 10_000),
          lambda: per_request(origin, sets, b"STORED\r\n", 1, 10_000))
    del followers
    for server in (alone, origin):
        server.stop()


def reported_changes(larderd, folder):
    """90 % gets and 10 % sets of 50 clients, where a near cache may have a copy of every item."""
    alone = Server(larderd, folder)
    origin = Server(larderd, folder, "--followers=64")
    many = 100_000
    follower = Follower(origin)
    options = ["--keys", str(many), "--mode", "mix", "--get-share", "0.9", "--seconds", "1"]

    def bench_cpu(server):
        begin = server.cpu()
        requests = bench(server, *options, "--no-load")["requests"]
        return (server.cpu() - begin) / requests

    for server in (alone, origin):
        bench(server, *options)
    keys = [b"bench:%014d" % number for number in range(many)]

    reported = []

    def with_copies():
        follower.drain()
        follower.fetch(keys)
        before = int(stat(origin, "follower_changes"))
        cpu = bench_cpu(origin)
        reported.append(int(stat(origin, "follower_changes")) - before)
        return cpu

    ratio("90 % gets, 10 % sets, each reported: without / with", ">= 0.9",
          lambda: bench_cpu(alone), with_copies)
    print(f"  reported changes in each round: {reported}", flush=True)
    for server in (alone, origin):
        server.stop()


def bench(server, *options):
    """Runs `larder bench` and returns its results."""
    larder = os.path.join(os.path.dirname(os.environ["LARDERD"]), "larder")
    result = subprocess.run([larder, "bench", "--json", "--server", server.address(), *options],
                            stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def delays_under_load(larderd, folder):
    """The same as `delays`, while others change and read 20,000 items a second."""
    origin = Server(larderd, folder, "--followers=64")
    near = Server(larderd, folder, f"--origin={origin.address()}")
    await_copies(near)
    larder = os.path.join(os.path.dirname(larderd), "larder")
    common = ["--keys", "20000", "--rate", "20000", "--seconds", "12", "--connections", "8"]
    loads = [
        subprocess.Popen([larder, "bench", "--server", server.address(), "--mode", mode, *common],
                         stdout=subprocess.DEVNULL)
        for mode, server in (("set", origin), ("get", near))
    ]
    time.sleep(3)
    before = int(stat(origin, "follower_changes"))
    begin = time.monotonic()
    times = measure_delays(origin, near, 1_000)
    rate = (int(stat(origin, "follower_changes")) - before) / (time.monotonic() - begin)
    print(f"{f'the same, at {rate:,.0f} reported changes a second':<66} {'<= 2':>8} "
          f"{times[500]:7.3f}   {times[990]:.3f}", flush=True)
    for load in loads:
        load.kill()
        load.wait()
    for server in (origin, near):
        server.stop()


def p99_of_gets(server):
    """Returns the p99 of gets of an item of 100 bytes, in microseconds."""
    times = []
    with server.connect() as stream:
        ask(stream, GETS[1], b"END\r\n")
        until = time.monotonic() + 3
        while time.monotonic() < until:
            begin = time.perf_counter_ns()
            ask(stream, GETS[1], b"END\r\n")
            times.append((time.perf_counter_ns() - begin) / 1000)
    return sorted(times)[len(times) * 99 // 100]


def move_large_values(server, request, answer_bytes):
    """Repeats a request with a large value in a child process until it is killed."""
    child = os.fork()
    if child > 0:
        return child
    with server.connect() as stream:
        stream.settimeout(None)
        buffer = bytearray(1 << 20)
        while True:
            stream.sendall(request)
            left = answer_bytes
            while left > 0:
                count = stream.recv_into(buffer, min(left, len(buffer)))
                if count == 0:
                    os._exit(1)
                left -= count


def large_values(larderd, folder):
    """The p99 of small gets while another client reads or writes values of 100 MiB."""
    many = ["-m", "512", "-I", "128m"]
    origin = Server(larderd, folder, "--followers=64", *many)
    near = Server(larderd, folder, f"--origin={origin.address()}", *many)
    await_copies(near)
    fill(origin)
    bytes_of = 100 << 20
    store = b"set large 0 0 %d\r\n" % bytes_of + b"x" * bytes_of + b"\r\n"
    with origin.connect() as stream:
        ask(stream, store, b"STORED\r\n")
    answer_bytes = len(b"VALUE large 0 %d\r\n" % bytes_of) + bytes_of + len(b"\r\nEND\r\n")
    moves = (("reads", b"get large\r\n", answer_bytes), ("writes", store, len(b"STORED\r\n")))
    for verb, request, response_bytes in moves:
        for name, server in (("origin", origin), ("near cache", near)):
            ratios, loaded = [], []
            for _ in range(ROUNDS):
                alone = p99_of_gets(server)
                child = move_large_values(server, request, response_bytes)
                time.sleep(0.5)
                loaded.append(p99_of_gets(server))
                os.kill(child, signal.SIGKILL)
                if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
                    sys.exit(f"near: the client that {verb} large values has ended")
                ratios.append(loaded[-1] / alone)
            shown = f"p99 of small gets, one client {verb} 100 MiB values, {name}"
            print(f"{shown:<66} {'<= 2':>8} {statistics.median(ratios):7.2f}   "
                  f"({min(ratios):.2f} to {max(ratios):.2f}); "
                  f"{statistics.median(loaded):.0f} microseconds", flush=True)
    for server in (origin, near):
        server.stop()


def delays(larderd, folder):
    """The time from the response to a change until the near cache no longer has the copy."""
    origin = Server(larderd, folder, "--followers=64")
    near = Server(larderd, folder, f"--origin={origin.address()}")
    await_copies(near)
    times = measure_delays(origin, near, 2_000)
    print(f"{'a change until the near cache shows it, ms: median, p99':<66} {'<= 2':>8} "
          f"{times[1000]:7.3f}   {times[1980]:.3f}", flush=True)
    for server in (origin, near):
        server.stop()


def measure_delays(origin, near, count):
    """Returns the delays in milliseconds, in order."""
    fill(origin)
    writer, reader = origin.connect(), near.connect()
    times = []
    for number in range(count):
        key = b"key:%06d" % (number % KEYS)
        ask(reader, b"get %s\r\n" % key, b"END\r\n")
        value = b"%0100d" % number
        ask(writer, b"set %s 0 0 100\r\n%s\r\n" % (key, value), b"STORED\r\n")
        begin = time.perf_counter_ns()
        while value not in ask(reader, b"get %s\r\n" % key, b"END\r\n"):
            pass
        times.append((time.perf_counter_ns() - begin) / 1e6)
    return sorted(times)


def main():
    larderd = os.environ["LARDERD"]
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'':<66} {'asked':>8}  median")
        rows = (hits, several_origins, misses, crowded_misses, changes, reported_changes, delays,
                delays_under_load, large_values)
        for measure in rows:
            if len(sys.argv) < 2 or measure.__name__ in sys.argv[1:]:
                measure(larderd, folder)


if __name__ == "__main__":
    main()
