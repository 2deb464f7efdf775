#!/usr/bin/env python3
"""Compares caches of Python, and draws docs/images/python.svg.

Each round runs each cache in a new process, so that a ratio compares runs that are close in time. A
figure is the median over all rounds; a ratio is the median of the
ratios within a round. The figures are saved in docs/images/python.json, from which `run.py --draw`
makes the picture again. `load.py` describes a pass, and `caches.py` the caches.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import picture
import tables
from caches import CONTENDERS, MEMORY_MIB

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIGURES = ROOT / "docs/images/python.json"
PICTURE = ROOT / "docs/images/python.svg"
RUNS = ["floor", *CONTENDERS, "functions", "serializers"]


@contextlib.contextmanager
def server(program: str, socket_path: str, options: list[str]) -> Iterator[None]:
    """Runs a server at a unix socket until the end of the block."""
    user = ["-u", "root"] if os.getuid() == 0 else []
    command = [program, "-m", str(MEMORY_MIB * 4), "-t", "2", "-I", "1m", *user, *options]
    process = subprocess.Popen(command)
    try:
        for _ in range(500):
            with socket.socket(socket.AF_UNIX) as connection:
                if connection.connect_ex(socket_path) == 0:
                    break
            if process.poll() is not None:
                sys.exit(f"run.py: {' '.join(command)} ended with status {process.returncode}")
            time.sleep(0.02)
        else:
            sys.exit(f"run.py: {program} does not accept connections")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def measure(rounds: int, only: list[str]) -> list[dict[str, dict[str, float]]]:
    """Returns the figures of all rounds, by cache and load."""
    larderd, memcached = os.environ["LARDERD"], os.environ["MEMCACHED"]
    results = []
    with contextlib.ExitStack() as on:
        folder, memory = (
            on.enter_context(tempfile.TemporaryDirectory(prefix="bench-python-", dir=parent))
            for parent in (None, "/dev/shm")
        )
        sockets = {"larderd": f"{folder}/larderd.sock", "memcached": f"{folder}/memcached.sock"}
        at_larderd = ["-U", "0", "-l", f"unix[readers]:{sockets['larderd']}"]
        on.enter_context(server(larderd, sockets["larderd"], at_larderd))
        on.enter_context(server(memcached, sockets["memcached"], ["-s", sockets["memcached"]]))
        settings = json.dumps({**sockets, "folder": folder, "memory": memory})
        for number in range(rounds):
            results.append({})
            for name in only:
                print(f"round {number + 1} of {rounds}: {name:30}", end="\r", file=sys.stderr)
                results[-1][name] = run(name, settings)
    print(" " * 60, end="\r", file=sys.stderr)
    return results


def run(name: str, settings: str) -> dict[str, float]:
    """Runs the loads on one cache in a new process."""
    command = [sys.executable, str(HERE / "load.py"), name, settings]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        sys.exit(f"run.py: load.py {name} failed")
    times: dict[str, float] = json.loads(ended.stdout)
    return times


def versions() -> str:
    """Returns the versions of Python, of each cache and of the servers."""
    packages = ("cachetools", "diskcache", "msgspec", "pymemcache")
    found = [f"Python {platform.python_version()}"]
    found += [f"{name} {importlib.metadata.version(name)}" for name in packages]
    for name in ("LARDERD", "MEMCACHED"):
        command = [os.environ[name], "-V" if name == "MEMCACHED" else "--version"]
        found.append(subprocess.run(command, capture_output=True, text=True).stdout.strip())
    return ", ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of about 30 s [5]")
    parser.add_argument("--only", nargs="+", default=RUNS, help="these runs only")
    parser.add_argument("--draw", action="store_true", help="only print and draw the saved figures")
    parser.add_argument("--dry", action="store_true", help="only print the figures")
    options = parser.parse_args()
    names = options.only
    if unknown := [name for name in names if name not in RUNS]:
        parser.error(f"no run {', '.join(unknown)}; there are {', '.join(RUNS)}")
    if not options.draw:
        print(versions(), end="\n\n")
        rounds = measure(options.rounds, names)
        if options.dry or names != RUNS:
            print(tables.all_of(rounds))
            return
        figures = {
            "command": "python/bench/run.py",
            "date": datetime.date.today().isoformat(),
            "versions": versions(),
            "rounds": rounds,
        }
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    rounds = json.loads(FIGURES.read_text(encoding="utf-8"))["rounds"]
    print(tables.all_of(rounds))
    PICTURE.write_text(picture.drawn(rounds), encoding="utf-8")


if __name__ == "__main__":
    main()
