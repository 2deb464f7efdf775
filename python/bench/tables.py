"""The tables of a run, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

Round = dict[str, dict[str, float]]
Rounds = list[Round]

# The cache with which the others are compared.
OURS = "Cache"
LOADS = [
    "get",
    "get, new key",
    "get, 1,000 keys",
    "get, absent",
    "set",
    "get_many, each",
    "get 10 KiB",
    "set 10 KiB",
]
RATES = ["1 thread, M/s", "2 threads, M/s", "1 process, M/s", "2 processes, M/s"]
SERIALIZERS = ["json", "msgspec", "pickle", "signed pickle"]


def median(rounds: Rounds, of: Callable[[Round], float]) -> float | None:
    """Returns the median of a figure over all rounds; None if it was not measured."""
    try:
        return statistics.median(map(of, rounds))
    except KeyError:
        return None


def time_of(rounds: Rounds, name: str, load: str) -> float | None:
    return median(rounds, lambda one: one[name][load])


def ratio_of(rounds: Rounds, name: str, load: str) -> float | None:
    """Returns the time of a cache divided by that of ours, in the same round."""
    return median(rounds, lambda one: one[name][load] / one[OURS][load])


def all_of(rounds: Rounds) -> str:
    """Returns all tables for which there are figures."""
    parts = [
        ("Nanoseconds of an operation, and in bold the ratio to `Cache`:", caches(rounds)),
        ("Nanoseconds without a cache, of functions, and of serializers:", others(rounds)),
        ("Millions of gets per second:", rates(rounds)),
        ("The targets:", targets(rounds)),
    ]
    return "\n".join([*(f"{title}\n\n{rows}" for title, rows in parts if rows), busy(rounds)])


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def caches(rounds: Rounds) -> str:
    names = [name for name in rounds[0] if "get" in rounds[0][name]]

    def cell(name: str, load: str) -> str:
        time, ratio = time_of(rounds, name, load), ratio_of(rounds, name, load)
        if time is None:
            return "-"
        return number(time) if ratio is None else f"{number(time)}, **{ratio:.2f}**"

    rows = [[name, *(cell(name, load) for load in LOADS)] for name in names]
    return table(["", *LOADS], rows) if rows else ""


def others(rounds: Rounds) -> str:
    rows = []
    for name in ("floor", "functions", "serializers"):
        for load in rounds[0].get(name, {}):
            if load == "waited":
                continue
            time = time_of(rounds, name, load)
            assert time is not None
            rows.append([load, number(time)])
    return table(["", "ns"], rows) if rows else ""


def busy(rounds: Rounds) -> str:
    """Returns a line that shows whether the machine was busy with other programs."""
    shares = [times["waited"] for one in rounds for times in one.values()]
    return (
        f"The runs waited for a processor during {statistics.median(shares):.1%} of their time in"
        f" the median, and at most {max(shares):.1%}.\n"
    )


def rates(rounds: Rounds) -> str:
    rows = []
    for name in rounds[0]:
        if RATES[0] in rounds[0][name]:
            measured = [time_of(rounds, name, load) for load in RATES]
            rows.append([name, *(f"{rate:.3f}" for rate in measured if rate is not None)])
    return table(["", *RATES], rows) if rows else ""


def targets(rounds: Rounds) -> str:
    """Returns a row for each target: the limit, and the figure with the limit that the same rounds
    set."""

    def floor(one: Round) -> float:
        times = one["floor"]
        return times["call"] + times["bytes"] - times["loop"]

    asked: list[tuple[str, Callable[[Round], float], Callable[[Round], float], str]] = [
        (
            f"{load} ≤ floor (empty call and `bytes` object) + 120 ns",
            lambda one, load=load: one[OURS][load],
            lambda one: floor(one) + 120,
            "ns",
        )
        for load in ("get", "get, new key", "get, 1,000 keys")
    ]
    asked += [
        (
            f"{load} ≤ 1.5 times a lookup in a dict + 120 ns",
            lambda one, load=load: one[OURS][load],
            lambda one, load=load: 1.5 * one["dict"][load] + 120,
            "ns",
        )
        for load in ("get", "get, new key", "get, 1,000 keys")
    ]
    asked += [
        (
            f"get ≤ 1/{times} of {name}",
            lambda one: one[OURS]["get"],
            lambda one, name=name, times=times: one[name]["get"] / times,
            "ns",
        )
        for name, times in (("pymemcache, memcached", 30), ("diskcache", 50))
    ]
    asked += [
        (
            f"hit of `@cached`{load} ≤ 2 times `lru_cache` + 150 ns",
            lambda one, load=load: one["functions"][f"cached{load}"],
            lambda one, load=load: 2 * one["functions"][f"lru_cache{load}"] + 150,
            "ns",
        )
        for load in ("", ", new key")
    ]
    rows = []
    for title, measured, limit, unit in asked:
        found, most = median(rounds, measured), median(rounds, limit)
        if found is not None and most is not None:
            verdict = "met" if found <= most else "missed"
            rows.append([title, f"{number(most)} {unit}", f"{number(found)} {unit}: {verdict}"])
    return table(["asked", "limit", "measured"], rows) if rows else ""
