#!/usr/bin/env python3
"""Measures a store on a disk that the kernel slows down.

With a limit of 3,000 reads per second: sets of keys that are not in memory, each of which needs a
read. With a limit of 40 MB written per second: sets at seven tenths of that rate, and at a higher
rate than the disk allows. The log is filled before the measurement, so that no extent must be
filled with zeros, and a sixth of the log is live.

LARDERD and LARDER name the release builds, and LARDER_TIER_DIR a directory on the disk.
`make bench NAME=tier-slow` sets them.
"""

import os
import shutil
import tempfile

from server import Server, disk

SECS = int(os.environ.get("LARDER_SECS", "10"))
READS = 3000
BYTES = 40_000_000
VALUE_BYTES = 1024
# Includes a key of 20 bytes and the header of a record.
SET_BYTES = 1080


def store(folder, memory_mib, size="4g"):
    return [os.environ["LARDERD"], "-u", "root", "-m", str(memory_mib), "-t", "1", "--tier-path",
            f"{folder}/store", "--tier-size", size, "--tier-mode", "store", "--durability",
            "interval=100"]


def in_folder(act):
    folder = tempfile.mkdtemp(prefix="larder-slow-", dir=os.environ.get("LARDER_TIER_DIR", "/tmp"))
    try:
        act(folder)
    finally:
        shutil.rmtree(folder)


def cold_sets(folder):
    keys = 500_000
    sets = ["--mode", "set", "--value-bytes", VALUE_BYTES, "--keys", keys]
    with Server(store(folder, 64)) as server:
        # Stores every key at least once, without a limit.
        server.load("--mode", "get", "--value-bytes", VALUE_BYTES, "--keys", keys, "--seconds", 1)
    with Server(store(folder, 64), disk(folder, reads_per_second=READS)) as server:
        shown = server.load(*sets, "--seconds", SECS)
    print(f"sets of {keys:,} keys, eight times the memory, uniform, {READS:,} reads a second: "
          f"{shown['requests_per_second']:,.0f} sets/s, p99 {shown['p99_us'] / 1000:.0f} ms, "
          f"errors {shown['errors'] or 'none'}")


def offered_sets(folder):
    sets = ["--mode", "set", "--value-bytes", VALUE_BYTES, "--keys", 20_000, "--connections", 200]
    print(f"sets of 1 KiB, a disk that takes {BYTES / 1e6:.0f} MB/s")
    print(f"{'offered':<28} {'sets/s':>8} {'MB/s':>6} {'of disk':>8} {'us CPU/set':>10} "
          f"{'p99 ms':>8}  errors")
    command = store(folder, 256, "128m")
    with Server(command) as server:
        server.load(*sets, "--seconds", 5)
    for share in (0.7, 1.3, None):
        with Server(command, disk(folder, bytes_written_per_second=BYTES)) as server:
            rate = [] if share is None else ["--rate", int(BYTES * share / SET_BYTES)]
            shown = server.load(*sets, *rate, "--seconds", SECS)
        per_second = shown["requests_per_second"]
        offered = "closed loop" if share is None else f"{share:.0%} of the disk's rate"
        print(f"{offered:<28} {per_second:>8,.0f} {per_second * SET_BYTES / 1e6:>6.1f} "
              f"{per_second * SET_BYTES / BYTES:>8.2f} "
              f"{shown['cpu_secs'] * 1e6 / shown['requests']:>10.1f} "
              f"{shown['p99_us'] / 1000:>8.1f}  {shown['errors'] or 'none'}")


def main():
    in_folder(cold_sets)
    in_folder(offered_sets)


if __name__ == "__main__":
    main()
