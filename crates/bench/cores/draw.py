#!/usr/bin/env python3
"""Draws docs/images/cores.svg from the figures of measure.py, and prints them as a table.

Needs gnuplot. Each panel has the throughput for each number of workers, threads or processes; a
dashed line continues the throughput of one of larder's in proportion.
"""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIGURES = ROOT / "docs/images/cores.json"
PICTURE = ROOT / "docs/images/cores.svg"

# Part, load, the name of the horizontal axis.
PANELS = (
    ("server", "get", "workers"),
    ("server", "set", "workers"),
    ("server", "get, 16 together", "workers"),
    ("server", "set, 16 together", "workers"),
    ("engine", "gets", "threads"),
    ("engine", "sets", "threads"),
    ("go", "a tenth sets", "threads"),
    ("php", "reads", "processes"),
    ("php", "a tenth writes", "processes"),
)
COLORS = {"larderd": "#1f6fb4", "larder": "#1f6fb4", "larder_apcu": "#1f6fb4",
          "memcached": "#a8480a", "apcu": "#a8480a", "quick_cache": "#7a3fa0", "moka": "#8c8c8c"}
COLUMNS = 3


def points(rows):
    """Returns the number of workers and millions per second of each row."""
    return [(row.get("workers") or row["threads"],
             row.get("millions") or row["per_second"] / 1e6) for row in rows]


def panels(figures):
    """Returns the panels that have figures: part, load, axis, and the points of each cache."""
    for part, load, axis in PANELS:
        rows = figures["parts"].get(part, {}).get(load)
        if rows:
            yield part, load, axis, {name: points(of) for name, of in rows.items()}


def table(figures):
    """Prints a row for each cache of each panel."""
    counts = sorted({count for _, _, _, caches in panels(figures)
                     for of in caches.values() for count, _ in of})
    print(f"{figures['processor']}, {figures['processors']} processors, {figures['date']}; "
          "millions per second, in parentheses the ratio to one\n")
    print("| | cache | " + " | ".join(map(str, counts)) + " |")
    print("|---|---|" + "--:|" * len(counts))
    for part, load, _, caches in panels(figures):
        for name, of in caches.items():
            rates = dict(of)
            first = rates.get(1)
            cell = lambda count: "" if count not in rates else (
                f"{rates[count]:.2f}" + (f" ({rates[count] / first:.1f})" if first else ""))
            print(f"| {part}: {load} | {name} | " + " | ".join(map(cell, counts)) + " |")


def script(figures):
    """Returns the program for gnuplot."""
    drawn = list(panels(figures))
    rows = -(-len(drawn) // COLUMNS)
    lines = [
        f"set terminal svg noenhanced size 1000,{60 + 270 * rows} font 'sans,12' background 'white'",
        f"set output '{PICTURE}'",
        f"set multiplot layout {rows},{COLUMNS} title 'Millions of operations per second: "
        f"{figures['processor']}, {figures['processors']} processors'",
        "set grid y", "set key top left", "set logscale x 2", "set yrange [0:]",
    ]
    for number, (part, load, axis, caches) in enumerate(drawn):
        plots = []
        for name, of in caches.items():
            block = f"$of{number}_{name}"
            lines += [f"{block} << END", *(f"{count} {rate}" for count, rate in of), "END"]
            color = COLORS[name]
            plots.append(f"{block} with linespoints pointtype 7 pointsize 0.5 linewidth 2 "
                         f"linecolor '{color}' title '{name}'")
        ours = next(iter(caches.values()))
        if ours[0][0] == 1:
            plots.append(f"[1:{ours[-1][0]}] {ours[0][1]} * x with lines dashtype 2 "
                         f"linecolor '#8c8c8c' title 'in proportion'")
        ticks = ",".join(str(count) for count, _ in ours)
        lines += [f"set title '{part}: {load}'", f"set xlabel '{axis}'", f"set xtics ({ticks})",
                  "plot " + ", ".join(plots)]
    return "\n".join([*lines, "unset multiplot", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="?", type=pathlib.Path, default=FIGURES,
                        help="what measure.py wrote [docs/images/cores.json]")
    parser.add_argument("--table", action="store_true", help="only print the table")
    given = parser.parse_args()
    figures = json.loads(given.figures.read_text(encoding="utf-8"))
    table(figures)
    if not given.table:
        subprocess.run(["gnuplot"], input=script(figures), text=True, check=True)


if __name__ == "__main__":
    main()
