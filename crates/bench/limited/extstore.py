#!/usr/bin/env python3
"""Compares larderd's cache on disk with memcached's extstore, with equal options and memory.

The memory includes the page cache. The first run fills the server with lookups by Zipf's law, each
followed by a set if it misses. The second run requests other keys of the same distribution and is
measured, in a closed loop or at LARDER_RATE lookups per second. Prints the medians of LARDER_ROUNDS
(3) rounds.

LARDERD, LARDER and MEMCACHED name the programs, and LARDER_TIER_DIR a directory on the disk.
`make bench NAME=tier-extstore` sets them.
"""

import os
import shutil
import statistics
import subprocess
import tempfile

from server import Server, memory

ROUNDS = int(os.environ.get("LARDER_ROUNDS", "3"))
SECS = int(os.environ.get("LARDER_SECS", "8"))
RATE = os.environ.get("LARDER_RATE")
# The values are 4.7 times larger than the memory for items.
WORKLOADS = [(1000, 300_000), (10_000, 30_000)]
MEMORY_MIB = 64
# The memory limit of each server, including the pages of its file.
LIMIT_MIB = 128


def measure(binary, folder, keys, value_bytes):
    command = [binary, "-u", "root", "-m", str(MEMORY_MIB), "-t", "2", "-o",
               f"ext_path={folder}/file:1g"]
    load = ["--mode", "get", "--fill", "--no-load", "--skew", "0.99", "--keys", keys,
            "--value-bytes", value_bytes]
    with Server(command, memory(LIMIT_MIB)) as server:
        server.load(*load, "--seconds", 2 * SECS, "--seed", 1)
        rate = ["--rate", RATE] if RATE else []
        shown = server.load(*load, *rate, "--seconds", SECS, "--seed", 2)
        return (shown["hit_ratio"], shown["requests_per_second"],
                shown["requests"] / shown["cpu_secs"], shown["p99_us"] / 1000, server.memory_mib())


def version(binary):
    """Returns the last line of a server's -V, which for larderd is its own version."""
    return subprocess.run([binary, "-V"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip().splitlines()[-1]


def main():
    print(", ".join(map(version, (os.environ["MEMCACHED"], os.environ["LARDERD"]))))
    print(f"-m {MEMORY_MIB} -t 2, a disk of 1 GiB, {LIMIT_MIB} MiB for the process and its file's "
          f"pages;\ngets with Zipf 0.99, 50 connections, {SECS} s after {2 * SECS} s; medians of "
          f"{ROUNDS} rounds")
    print(f"{'values':<18} {'server':<9} {'hit ratio':>9} {'gets/s':>8} {'gets/CPU s':>10} "
          f"{'p99 ms':>7} {'MiB used':>8}")
    for value_bytes, keys in WORKLOADS:
        results = {os.environ["MEMCACHED"]: [], os.environ["LARDERD"]: []}
        for _ in range(ROUNDS):
            for binary, rows in results.items():
                folder = tempfile.mkdtemp(prefix="larder-extstore-",
                                          dir=os.environ.get("LARDER_TIER_DIR", "/tmp"))
                try:
                    rows.append(measure(binary, folder, keys, value_bytes))
                finally:
                    shutil.rmtree(folder)
        for name, rows in zip(("extstore", "larderd"), results.values()):
            hits, rate, per_cpu, p99, used = map(statistics.median, zip(*rows))
            print(f"{keys:>7,} x {value_bytes:<8,} {name:<9} {hits:>9.3f} {rate:>8,.0f} "
                  f"{per_cpu:>10,.0f} {p99:>7.2f} {used:>8.0f}")


if __name__ == "__main__":
    main()
