#!/usr/bin/env python3
"""Measures the figures of README.md and saves them in docs/figures.json.

`figures.py [RUN…]` makes the runs with these names, or `servers` by default; --list prints all
names. Each run is saved with its date, versions and command, so that README.md can state how each
figure was measured. Then `make bench NAME=readme`, which calls this program, writes the tables of
README.md from the file. A test of larder-testkit fails if the tables differ from the file.

LARDER, LARDERD and MEMCACHED name the programs. LARDER_ROUNDS and LARDER_SECS make a run of
`servers` shorter or longer (5 rounds of 2 seconds). On a busy machine the ratios of `servers` are
wrong: disturbed measurements are repeated, and if that does not help, the run fails. With
LARDER_NOISY=1 it is saved anyway, and README.md states that the machine was busy.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "docs/figures.json"
# The largest share of the time that the load generator may wait for its processor.
STARVED_MAX = 0.1
TRIES = 3
TRANSPORTS = {"unix": "-s @SOCK", "tcp": "-l 127.0.0.1 -p @PORT"}
WORKLOADS = {
    "get:100:1": "get, 100 bytes",
    "set:100:1": "set, 100 bytes",
    "get:1024:1": "get, 1 KiB",
    "set:1024:1": "set, 1 KiB",
    "get:10240:1": "get, 10 KiB",
    "set:10240:1": "set, 10 KiB",
    "get:100:16": "get, 100 bytes, 16 pipelined",
    "set:100:16": "set, 100 bytes, 16 pipelined",
}
# Memory for less than half of the items, with keys drawn by Zipf's law.
ASIDE = ["--keys", "500000", "--skew", "0.9", "--workloads", "aside:100:1"]
ASIDE_MIB = 24


def fail(text):
    sys.exit(f"figures.py: {text}")


def run(*command, **environment):
    """Runs a command in the root, prints its output and returns it."""
    print("+", *command, file=sys.stderr)
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
                           env={**os.environ, **environment})
    sys.stderr.write(ended.stdout)
    if ended.returncode:
        fail(f"{command[0]} failed with exit status {ended.returncode}")
    return ended.stdout


def program(variable):
    """Returns the program that an environment variable names."""
    path = os.environ.get(variable)
    if not path or not os.access(path, os.X_OK):
        fail(f"{variable} names no program ({path}): run `make bench NAME=readme`, which sets it")
    return path


def find(pattern, text):
    """Returns the groups of the only match of a line."""
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        fail(f"{len(found)} lines match {pattern}, expected one")
    return found[0]


def times(theirs, ours):
    return f"{float(theirs) / float(ours):.2f}"


def compare(transport, memory, *options):
    """Runs `larder bench compare` and returns its JSON."""
    user = "-u root " if os.geteuid() == 0 else ""
    servers = [f"{name}={program(variable)} {user}-t 1 -m {memory} {TRANSPORTS[transport]}"
               for name, variable in (("memcached", "MEMCACHED"), ("larderd", "LARDERD"))]
    found = json.loads(run(
        program("LARDER"), "bench", "compare", "--json",
        "--rounds", os.environ.get("LARDER_ROUNDS", "5"),
        "--seconds", os.environ.get("LARDER_SECS", "2"), *options, *servers))
    if not all(row["sound"] for row in found["rows"]):
        fail("a server returned wrong values or errors")
    return found


def starved(found):
    return max(row["generator_starved_share"] for row in found["rows"])


def compare_undisturbed(transport, memory, *options):
    """Compares, and repeats that if other work used the processor of the load for a moment."""
    for _ in range(TRIES):
        found = compare(transport, memory, *options)
        if starved(found) <= STARVED_MAX:
            break
        print(f"figures.py: the load waited for its processor {starved(found):.0%} of the time of a row",
              file=sys.stderr)
    return found


def servers():
    """larderd compared with memcached: the processor time of a request."""
    rows, versions, hits, is_noisy = {}, None, {}, False
    for transport in TRANSPORTS:
        for memory, options in ((1024, ["--workloads", ",".join(WORKLOADS)]), (ASIDE_MIB, ASIDE)):
            found = compare_undisturbed(transport, memory, *options)
            is_noisy |= starved(found) > STARVED_MAX
            versions = [re.sub(r"^(?!larder)", "memcached ", of["version"]) for of in found["versions"]]
            for row in found["rows"]:
                name = WORKLOADS.get(row["workload"])
                if name is None:
                    name = "a full cache: a get, and a set if it misses, 100 bytes"
                    hits.setdefault(row["server"], []).append(row["hit_ratio"])
                if row["server"] == "larderd":
                    rows.setdefault(name, {})[transport] = f"{row['ratio']:.2f}"
    if is_noisy and not os.environ.get("LARDER_NOISY"):
        fail("other work uses this machine, and the ratios are wrong. End it, or set LARDER_NOISY=1")
    hits = {name: f"{statistics.mean(of):.3f}" for name, of in hits.items()}
    rows = [{"measured": name, **of} for name, of in rows.items()]
    return {
        "versions": ", ".join(versions),
        "rounds": f"{found['rounds']} rounds of {os.environ.get('LARDER_SECS', '2')} s"
                  + (" on a busy machine, so not to be relied on" if is_noisy else ""),
        "hit_ratios": hits,
        "rows": rows,
    }


def row(beside, measured, ratio):
    return {"beside": beside, "measured": measured, "ratio": ratio}


def capacity():
    """Items held in equal memory."""
    shown = run("make", "--no-print-directory", "bench", "NAME=capacity")
    version = find(r"^memcached [\d.]+", shown)
    held = [find(rf"^\| 64 \| {cas} \| 0 \| larderd .* ([\d.]+) \|$", shown) for cas in ("yes", "no")]
    return {"rows": [row(version, "items held with `-m 64`, with and without cas tokens",
                         ", ".join(held))]}


def traces():
    """Misses on request traces."""
    shown = run("make", "--no-print-directory", "bench", "NAME=traces")
    version = find(r"^(memcached [\d.]+), larder", shown)
    segcache = find(r"^larder .*(segcache [\d.]+)$", shown)
    wire = [1 / float(cell) for cell in re.findall(r" ([\d.]+) \|$", shown.split("Wire:")[1],
                                                   re.MULTILINE)]
    of_segcache = [float(cell) for cell in re.findall(
        r"\| \d\.\d{4} \| (\d\.\d\d) \| \d\.\d{4} \| [+-]", shown)]
    rows = ((version, "larderd's with equal `-m` on six request traces, two sizes each", wire),
            (segcache, "the library's in equal memory on five traces, its best setting on each",
             of_segcache))
    return {"rows": [row(name, f"its misses over {what}", f"{min(of):.2f} to {max(of):.2f}")
                     for name, what, of in rows]}


def engine():
    """The library compared with other caches in Rust, one thread."""
    # As many rounds as in `make bench NAME=engine`, or LARDER_ROUNDS.
    shown = run("cargo", "bench", "-p", "larder-bench", "--features", "others", "--bench", "engine",
                "--", "memory", "eviction", "footprint")
    versions = find(r"^larder [\d.]+, (.*)$", shown)
    rows = []
    by_bytes = shown.split("equal bytes")[1]
    for name in ("quick_cache", "segcache"):
        cell = r" +1  %s +[\d.]+ +([\d.]+) "
        ratios = [find(f"^{operation}{cell % name}", text) for operation, text in (
            ("get ", shown), ("set ", shown), ("set, evicting", by_bytes))]
        version = find(rf"({name} [\d.]+)", versions)
        rows.append(row(version, "time of a get, a set, a set that evicts in equal memory; a million "
                        "items, one thread", ", ".join(times(1, ratio) for ratio in ratios)))
        bytes_of = [find(rf"^memory/item  {of} +([\d.]+) +([\d.]+)$", shown) for of in (name, "larder")]
        (theirs, ours) = (float(of[1]) for of in bytes_of)
        rows.append(row(version, f"memory of an item beyond its key and value: {theirs:.0f} bytes, "
                        f"Larder's {ours:.0f}", times(theirs, ours)))
    return {"rows": rows}


def local():
    """A hit read in larderd's memory, compared with a hit through its socket."""
    shown = run("make", "--no-print-directory", "bench", "NAME=local")
    ratio = find(r"^in the memory, uniform .* (\d+) times cheaper", shown)
    return {"rows": [row("larderd's unix socket", "time of a hit that another process reads in "
                         "larderd's memory", ratio)]}


def go():
    """The Go package compared with BigCache and fastcache."""
    flags = "-cpu -caches larder,BigCache,fastcache -loads"
    shown = run("make", "--no-print-directory", "bench", "NAME=go", f"FLAGS={flags} '100 B, zipf'")
    names = find(r"^\| 100 B, zipf \|(.*)\|$", shown).split("|")
    cells = {name: dict(zip(map(str.strip, names), cells.split("|")))
             for name, cells in re.findall(r"^\| (\w+) \|(.*[–)].*)\|$", shown, re.MULTILINE)
             if "MiB" in cells}
    rows = []
    for name in ("BigCache", "fastcache"):
        ratios = [times(cells[name][of].split()[0], cells["larder"][of].split()[0])
                  for of in ("Get", "Set")]
        version = find(rf"(?i)\b{name} ([\d.]+)", shown)
        rows.append(row(f"{name} {version}", "processor time of a Get, a Set from Go; 100 bytes, Zipf's law",
                        ", ".join(ratios)))
    return {"rows": rows}


def php():
    """The module for PHP compared with APCu."""
    shown = run("make", "--no-print-directory", "bench", "NAME=php", "FLAGS=--only apcu,larder_apcu")
    version = find(r"\b(?<!_)apcu ([\d.]+)", shown)
    # The second table contains the first pass of the same rows.
    steady = shown.partition("in the first pass")[0]

    def ratio(name, text):
        return float(find(rf"^\| {name} \| .* \*\*([\d.]+)\*\* \|$", text))

    ratios = [1 / ratio(name, steady) for name in ("read short, shuffled", "write 8 KB")]
    ratios.append(ratio("reads", shown))
    return {"rows": [row(f"APCu {version}", "time of a fetch of short values in random order, of a "
                         "store of 8 KB, and fetches of four processes",
                         ", ".join(f"{ratio:.2f}" for ratio in ratios))]}


RUNS = {"servers": servers, "capacity": capacity, "traces": traces, "engine": engine, "local": local,
        "go": go, "php": php}


def machine():
    model = find(r"^model name\s*: (.*)$", "\n".join(
        pathlib.Path("/proc/cpuinfo").read_text().splitlines()[:10]))
    return f"{len(os.sched_getaffinity(0))} processors ({model}), Linux {platform.release()}"


def commit():
    short = run("git", "rev-parse", "--short", "HEAD").strip()
    changed = run("git", "status", "--porcelain", "--untracked-files=no", "--",
                  "crates", "c", "go", "php")
    return short + (" with changes" if changed else "")


def main():
    names = sys.argv[1:] or ["servers"]
    if names == ["--list"]:
        for name, measure in RUNS.items():
            print(f"{name:<10} {measure.__doc__}")
        return
    if unknown := [name for name in names if name not in RUNS]:
        fail(f"no run is named {', '.join(unknown)}; there are {', '.join(RUNS)}")
    saved = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names:
        figures = RUNS[name]()
        command = "make bench NAME=readme" + ("" if name == "servers" else f" RUNS={name}")
        saved[name] = {"command": command, "date": datetime.date.today().isoformat(),
                       "commit": commit(), "machine": machine(), **figures}
        # Saves each run when it ends, because a later one may fail.
        saved = {of: saved[of] for of in RUNS if of in saved}
        FILE.write_text(json.dumps(saved, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
