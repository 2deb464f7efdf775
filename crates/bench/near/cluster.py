#!/usr/bin/env python3
"""Simulates clusters of near caches, and draws docs/images/near-cluster.svg.

Each run is a `larder replay --near` with memory in which 20 % of the keys fit. The first half of
the requests fills the near caches, so the number of requests grows with their number. The figures
are saved in docs/images/near-cluster.json, from which `cluster.py --draw` makes the picture again.
A larger --per-cache shows whether the hit ratios have settled: --dry prints the table only.
"""

import argparse
import datetime
import json
import math
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
LARDER = ROOT / "target/release/larder"
FIGURES = ROOT / "docs/images/near-cluster.json"
PICTURE = ROOT / "docs/images/near-cluster.svg"

NEAR = (1, 2, 4, 8, 16, 32, 64)
WRITES = (0.001, 0.01, 0.1)
KEYS = 200_000
# A fifth of the 94m of a million keys in docs/near-cache.md.
MEMORY = "19251k"
REQUESTS_MIN = 4_000_000
# The hit ratio of a run differs from its expected value by less.
NOISE_MAX = 0.005


def bound(near, writes):
    """Returns the expected hit ratio of near caches with memory for all keys.

    A near cache receives a share (1 - writes) / near of the requests as reads, and every write
    drops a copy. A read finds a copy if the read of its key in this near cache is newer than the
    last write of this key.
    """
    reads = (1 - writes) / near
    return reads / (reads + writes)


def replay(larder, near, writes, per_cache):
    """Returns the figures of a run."""
    requests = max(REQUESTS_MIN, per_cache * near)
    command = [larder, "replay", "--keys", KEYS, "--requests", requests, "--value-bytes", 300,
               "--near", near, "--near-memory", MEMORY, "--writes", writes]
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                           check=False)
    report = dict(re.findall(r"^(\w+)=(\S+)$", ended.stdout, re.MULTILINE))
    if ended.returncode or report.get("wrong_values") != "0":
        sys.exit(f"cluster.py: {shlex.join(map(str, command))} failed:\n{ended.stdout}")
    hit_ratio = float(report["near_hit_ratio"])
    if hit_ratio > bound(near, writes) + NOISE_MAX:
        sys.exit(f"cluster.py: hit ratio {hit_ratio} of {near} near caches with {share(writes)} "
                 f"writes is above the bound {bound(near, writes):.4f}")
    return {
        "near": near,
        "writes": writes,
        "requests": requests,
        "hit_ratio": f"{hit_ratio:.3f}",
        "bound": f"{bound(near, writes):.3f}",
        "messages_per_write": f"{float(report['messages_per_write']):.1f}",
        "share_that_fits": f"{int(report['near_capacity']) / KEYS:.2f}",
    }


def measure(larder, per_cache, near_counts, write_shares):
    """Returns the figures of all runs, and prints them."""
    print("| near caches | writes | requests | hit ratio | bound | messages per write |  s |\n"
          "|---|---|---|---|---|---|---|")
    rows = []
    for writes in write_shares:
        for near in near_counts:
            begin = time.monotonic()
            row = replay(larder, near, writes, per_cache)
            rows.append(row)
            print(f"| {near} | {share(writes)} | {row['requests']:,} | {row['hit_ratio']} "
                  f"| {row['bound']} | {row['messages_per_write']} "
                  f"| {time.monotonic() - begin:.0f} |", flush=True)
    return rows


def save(larder, rows):
    version = subprocess.run([larder, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    figures = {
        "command": "crates/bench/near/cluster.py",
        "date": datetime.date.today().isoformat(),
        "version": version.stdout.strip(),
        "keys": KEYS,
        "near_memory": MEMORY,
        "rows": rows,
    }
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def share(writes):
    return f"{writes * 100:g} %"


# The coordinates of the picture, in pixels.
WIDTH, HEIGHT = 800, 470
LEFT, RIGHT, TOP, BOTTOM = 70, 660, 70, 375
# The distance between the base lines of two labels.
LINE = 17
STYLE = """
  .back { fill: #ffffff }
  text { fill: #24292f; font: 13px system-ui, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  .small { fill: #57606a; font-size: 12px }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .axis { stroke: #57606a; stroke-width: 1 }
  path { fill: none; stroke-width: 2.25; stroke-linejoin: round }
  .bound { stroke-width: 1.5; stroke-dasharray: 5 4 }
  .name { font-weight: 600 }
  .w0 { stroke: #1f6fb4 } text.w0, circle.w0 { fill: #1f6fb4; stroke: none }
  .w1 { stroke: #a8480a } text.w1, circle.w1 { fill: #a8480a; stroke: none }
  .w2 { stroke: #7a3fa0 } text.w2, circle.w2 { fill: #7a3fa0; stroke: none }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 }
    text { fill: #e6edf3 }
    .small { fill: #9da7b3 }
    .grid { stroke: #2d333b }
    .axis { stroke: #9da7b3 }
    .w0 { stroke: #6cb3f0 } text.w0, circle.w0 { fill: #6cb3f0 }
    .w1 { stroke: #f0a35a } text.w1, circle.w1 { fill: #f0a35a }
    .w2 { stroke: #c79bea } text.w2, circle.w2 { fill: #c79bea }
  }
"""


def x_of(near):
    return LEFT + (RIGHT - LEFT) * math.log2(near) / math.log2(NEAR[-1])


def y_of(ratio):
    return BOTTOM - (BOTTOM - TOP) * ratio


def text(x, y, content, kind="", anchor="start"):
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} class="{kind}">{content}</text>'


def path(points, kind):
    steps = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<path class="{kind}" d="M{steps}"/>'


def axes():
    """Returns the frame with the names of both axes."""
    for step in range(6):
        y = y_of(step / 5)
        kind = "grid" if step else "axis"
        yield f'<line class="{kind}" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>'
        yield text(LEFT - 10, y + 4, f"{step / 5:.1f}", "small", "end")
    for near in NEAR:
        x = x_of(near)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>'
        yield text(x, BOTTOM + 20, near, "small", "middle")
    yield text((LEFT + RIGHT) / 2, BOTTOM + 42, "near caches (F)", anchor="middle")
    yield text(LEFT - 46, TOP - 18, "share of reads that a copy answers")


def lines(rows):
    """Returns the lines, and their labels at the right."""
    labels = []
    for number, writes in enumerate(WRITES):
        points = [(x_of(row["near"]), y_of(float(row["hit_ratio"])))
                  for row in rows if row["writes"] == writes]
        fine = [2 ** (step / 8) for step in range(int(math.log2(NEAR[-1])) * 8 + 1)]
        bounds = [(x_of(near), y_of(bound(near, writes))) for near in fine]
        yield path(bounds, f"bound w{number}")
        yield path(points, f"w{number}")
        for x, y in points:
            yield f'<circle class="w{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        name = f"{share(writes)} writes"
        labels.append((points[-1][1], name, f"name w{number}"))
        # The bound has its own label if there is space for it.
        if points[-1][1] - bounds[-1][1] > LINE:
            labels.append((bounds[-1][1], "bound", f"w{number}"))
    for y, name, kind in labels:
        yield text(RIGHT + 12, y + 4, name, kind)


def draw(figures):
    title = "The hit ratio of near caches falls with their number and the share of writes"
    legend = (
        f"Solid: simulated. {figures['keys']:,} keys of 300-byte values (Zipf, 0.99), "
        "of which 20 % fit into each near cache.",
        "Dashed: bound with memory for all keys, (1 − w) / (1 − w + F·w), "
        "where w is the share of writes.",
    )
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title legend">',
        f'<title id="title">{title}</title>',
        f'<desc id="legend">{" ".join(legend)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        text(LEFT - 46, 28, title, "title"),
        *axes(),
        *lines(figures["rows"]),
        *(text(LEFT - 46, HEIGHT - 30 + LINE * number, line, "small")
          for number, line in enumerate(legend)),
        "</svg>\n",
    ]
    PICTURE.write_text("\n".join(drawn), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("larder", nargs="?", default=LARDER,
                        help="the program [target/release/larder]")
    parser.add_argument("--draw", action="store_true", help="only draw the saved figures")
    parser.add_argument("--dry", action="store_true", help="only print the figures")
    parser.add_argument("--per-cache", type=int, default=1_000_000, metavar="N",
                        help="requests for each near cache, in all at least 4 million [1000000]")
    parser.add_argument("--near", type=int, nargs="+", default=NEAR, metavar="F",
                        help="numbers of near caches, with --dry")
    parser.add_argument("--writes", type=float, nargs="+", default=WRITES, metavar="W",
                        help="shares of writes, with --dry")
    options = parser.parse_args()
    if not options.dry and (options.near, options.writes) != (NEAR, WRITES):
        parser.error("--near and --writes need --dry, because the picture has all runs")
    if not options.draw:
        rows = measure(options.larder, options.per_cache, options.near, options.writes)
        if options.dry:
            return
        save(options.larder, rows)
    draw(json.loads(FIGURES.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
