"""The picture of a run, as SVG: the time of a get in each cache, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tables import OURS, Rounds, ratio_of, time_of

# All coordinates are in pixels.
WIDTH, LEFT, RIGHT, TOP = 800, 200, 690, 66
ROW, BAR = 30, 18
STYLE = """
  .back { fill: #ffffff }
  text { fill: #24292f; font: 13px system-ui, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  .small { fill: #57606a; font-size: 12px }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .bar { fill: #b8bfc7 }
  .ours { fill: #1f6fb4 }
  text.name { font-weight: 600; fill: #24292f }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 }
    text, text.name { fill: #e6edf3 }
    .small { fill: #9da7b3 }
    .grid { stroke: #2d333b }
    .bar { fill: #57606a }
    .ours { fill: #6cb3f0 }
  }
"""


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} class="{kind}">{content}</text>'


def length_of(time: float) -> str:
    return f"{time:.0f} ns" if time < 1000 else f"{time / 1000:.1f} µs"


def drawn(rounds: Rounds) -> str:
    """Returns the picture."""
    times: dict[str, float] = {}
    for name in rounds[0]:
        time = time_of(rounds, name, "get")
        if time is not None:
            times[name] = time
    lowest = 10 ** math.floor(math.log10(min(times.values())))
    highest = 10 ** math.ceil(math.log10(max(times.values())))
    bottom = TOP + ROW * len(times)
    height = bottom + 84

    def x_of(time: float) -> float:
        return LEFT + (RIGHT - LEFT) * math.log(time / lowest) / math.log(highest / lowest)

    def scale() -> Iterator[str]:
        for power in range(round(math.log10(highest / lowest)) + 1):
            time = lowest * 10**power
            x = x_of(time)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
            label = f"{time:,.0f} ns" if time < 1000 else f"{time / 1000:,.0f} µs"
            yield text(x, bottom + 18, label, "small", "middle")

    def bars() -> Iterator[str]:
        for row, (name, time) in enumerate(times.items()):
            y = TOP + ROW * row + (ROW - BAR) / 2
            is_ours = name.startswith((OURS, "Client"))
            kind = "ours" if is_ours else "bar"
            size = f'width="{x_of(time) - LEFT:.1f}" height="{BAR}"'
            yield f'<rect class="{kind}" x="{LEFT}" y="{y:.1f}" {size}/>'
            yield text(LEFT - 8, y + 13, name, "name" if is_ours else "", "end")
            ratio = ratio_of(rounds, name, "get")
            yield text(x_of(time) + 6, y + 13, f"{length_of(time)}, {ratio:.3g} times", "small")

    title = "The time of a get of 100 bytes in Python, and its ratio to larder_cache.Cache"
    legend = (
        "100,000 keys in a random order, one thread. The time includes the loop around the get.",
        "Logarithmic scale: each line is ten times the one before.",
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title legend">',
            f'<title id="title">{title}</title>',
            f'<desc id="legend">{" ".join(legend)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>',
            text(24, 32, title, "title"),
            *scale(),
            *bars(),
            *(text(24, height - 35 + 17 * row, line, "small") for row, line in enumerate(legend)),
            "</svg>\n",
        ]
    )
