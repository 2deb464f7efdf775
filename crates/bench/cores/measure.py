#!/usr/bin/env python3
"""Measures how the server, the engine and the packages for Go and PHP use more processors.

Each part runs with 1, 2, 4, 8 and 16 threads or processes, as far as the machine has processors:

- server: larderd and memcached with up to 8 workers. The server has a processor for each worker,
  and the load generator has the others, so 8 workers need 16 processors.
- engine: threads on one cache of the library, of quick_cache and of moka.
- go: threads on one cache of package larder; a tenth of the operations are sets.
- php: processes on one cache of larder_apcu, and of APCu if its module is there.

The figures go to docs/images/cores.json, and draw.py draws them. A machine for measurements may
have no compiler, so `build.sh` builds all programs into one folder, which can be copied.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIGURES = ROOT / "docs/images/cores.json"
PROGRAMS = ROOT / "target/cores"

COUNTS = (1, 2, 4, 8, 16)
WORKERS_MAX = 8
# Mode, bytes of a value, requests sent together.
LOADS = {"get": ("get", 100, 1), "set": ("set", 100, 1),
         "get, 16 together": ("get", 100, 16), "set, 16 together": ("set", 100, 16)}
# Connections of each worker.
CONNECTIONS = 50
# A generator that is busier than this may be the limit.
BUSY_MAX = 0.95
START_PATIENCE_SECS = 10
PART_PATIENCE_SECS = 180


class Failed(Exception):
    """A measurement that cannot be made; the text names the program and the reason."""


def run(command, *, cpus=None, environment=None, stdin=None):
    """Returns what a program prints."""
    words = [str(word) for word in command]
    if cpus is not None:
        words = ["taskset", "-c", cpus, *words]
    try:
        ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               input=stdin, env={**os.environ, **(environment or {})},
                               timeout=PART_PATIENCE_SECS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    if ended.returncode:
        raise Failed(f"{' '.join(words)} failed:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def cpu_seconds(process):
    """Returns the processor time of all threads of a process so far."""
    threads = pathlib.Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


class Server:
    """A server on a Unix socket with a processor for each worker."""

    def __init__(self, program, workers, folder):
        self.workers = workers
        self.socket = pathlib.Path(folder) / f"{program.name}-{workers}"
        command = ["taskset", "-c", f"0-{workers - 1}", program, "-u", "root", "-t", workers,
                   "-m", 1024, "-s", self.socket]
        self.process = subprocess.Popen([str(word) for word in command],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + START_PATIENCE_SECS
        while not self.accepts():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise Failed(f"{self.process.args[3]} does not start with {self.workers} workers")
            time.sleep(0.02)
        return self

    def accepts(self):
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.socket)) == 0

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def measure(self, larder, load, cpus, seconds):
        """Returns the figures of a load."""
        mode, size, together = load
        first, last = (int(cpu) for cpu in cpus.split("-"))
        before, begun = cpu_seconds(self.process.pid), time.monotonic()
        report = json.loads(run(
            [larder, "bench", "--server", self.socket, "--mode", mode, "--value-bytes", size,
             "--pipeline", together, "--connections", CONNECTIONS * self.workers,
             "--threads", last - first + 1, "--seconds", seconds, "--json"], cpus=cpus))
        spent, took = cpu_seconds(self.process.pid) - before, time.monotonic() - begun
        if report["wrong_values"] or report["lost_connections"]:
            raise Failed(f"{self.process.args[3]}: wrong values or lost connections: {report}")
        return {
            "workers": self.workers,
            "per_second": round(report["requests_per_second"]),
            "busy": round(spent / took / self.workers, 2),
            "generator_busy": round(report["generator_busy_share"], 2),
            "p99_us": report["p99_us"],
        }


def measure_server(programs, cpus, seconds):
    """Returns the rows of larderd and memcached for each load."""
    rows = {load: {"larderd": [], "memcached": []} for load in LOADS}
    with tempfile.TemporaryDirectory() as folder:
        for workers in (count for count in COUNTS if count <= min(WORKERS_MAX, cpus // 2)):
            others = f"{workers}-{cpus - 1}"
            for name in ("larderd", "memcached"):
                for load, shape in LOADS.items():
                    with Server(programs / name, workers, folder) as server:
                        rows[load][name].append(
                            server.measure(programs / "larder", shape, others, seconds))
    return rows


def measure_engine(programs, counts, _seconds):
    """Returns millions of operations per second of each cache, load and number of threads."""
    printed = run([programs / "engine", "--bench", "threads"],
                  environment={"LARDER_THREADS": ",".join(map(str, counts))})
    rows = {load: {} for load in ("gets", "sets", "mixed")}
    pattern = r"^(larder|quick_cache|moka) +(\d+) +0((?: +[\d.]+){6})$"
    for name, threads, figures in re.findall(pattern, printed, re.MULTILINE):
        for load, rate in zip(rows, figures.split()[::2]):
            rows[load].setdefault(name, []).append({"threads": int(threads), "millions": float(rate)})
    if not rows["gets"]:
        raise Failed(f"the engine's part threads printed no row:\n{printed[-2000:]}")
    return rows


def measure_go(programs, counts, _seconds):
    """Returns millions of operations per second for each number of threads."""
    printed = run([programs / "go-limits", "-one", "threads", "-rounds", 3,
                   "-threads", ",".join(map(str, counts))])
    rows = [{"threads": int(threads), "millions": float(rate)}
            for threads, rate in re.findall(r"^\| (\d+) \| ([\d.]+) M \|", printed, re.MULTILINE)]
    if not rows:
        raise Failed(f"go-limits printed no row:\n{printed[-2000:]}")
    return {"a tenth sets": {"larder": rows}}


def measure_php(programs, counts, _seconds):
    """Returns millions of operations per second for each number of processes."""
    folder = programs / "php"
    modules = {"larder_apcu": "larder_apcu.so", "apcu": "apcu.so"}
    names = [name for name, module in modules.items() if (folder / module).exists()]
    if not names:
        raise Failed(f"{folder} has no module")
    settings = json.dumps({"extensions": str(folder), "ours": str(folder / "larder_apcu.so"),
                           "sockets": {"tcp": 0, "unix": ""}})
    rows = {}
    for name in names:
        arguments = run([folder / "php", "-n", folder / "arguments.php", name], stdin=settings)
        load = [folder / "php", *arguments.splitlines(), folder / "load.php", name]
        for count in counts:
            for kind, rate in json.loads(run([*load, count, "together"], stdin=settings)).items():
                rows.setdefault(kind, {}).setdefault(name, []).append(
                    {"threads": count, "millions": round(rate, 2)})
    return rows


PARTS = {"server": measure_server, "engine": measure_engine, "go": measure_go, "php": measure_php}


def processor():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(),
                      re.MULTILINE)
    return found.group(1) if found else os.uname().machine


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS,
                        help="the folder that build.sh made (default: target/cores)")
    parser.add_argument("--parts", default=",".join(PARTS), help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=2,
                        help="seconds of a load of the server (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=FIGURES,
                        help="where the figures go (default: docs/images/cores.json)")
    given = parser.parse_args()
    # The programs that build.sh took from a distribution find their libraries there.
    os.environ["LD_LIBRARY_PATH"] = str(given.programs / "lib")
    unknown = set(given.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    cpus = len(os.sched_getaffinity(0))
    counts = [count for count in COUNTS if count <= cpus]
    figures = {"date": datetime.date.today().isoformat(), "processors": cpus,
               "processor": processor(), "parts": {}, "missing": {}}
    for part in given.parts.split(","):
        begun = time.monotonic()
        try:
            of_part = cpus if part == "server" else counts
            figures["parts"][part] = PARTS[part](given.programs, of_part, given.seconds)
        except Failed as error:
            # The other parts are worth their time, since such a machine is seldom free.
            figures["missing"][part] = str(error)
            print(f"{part}: {error}", file=sys.stderr)
        print(f"{part}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        given.out.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sys.exit(bool(figures["missing"]))


if __name__ == "__main__":
    main()
