"""Runs the loads on one cache in this process, and prints their times as one line of JSON:
`load.py CACHE SETTINGS`, where CACHE is a key of `caches.CONTENDERS`, or one of `floor`,
`functions` and `serializers`. `run.py` starts it.

A time is nanoseconds for each operation, and includes the loop around it. A pass is a loop over all
keys in a random order, in batches. The result is the sum of the best times of each batch in all
passes: a batch takes less than the time after which the kernel lets another process run. The
garbage collector is off. All values are compared once, before the first pass."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import random
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import parallel
from caches import CONTENDERS, Contender, Settings

KEYS = 100_000
KEYS_OF_LONG = 10_000
GROUP = 16
FILL = 50
PASSES = 7
BATCH = 500

KEYS_LOOP = "for key in keys:"
PAIRS = "for key, value in zip(keys, values):"

Times = dict[str, float]


def loop(code: str, head: str = KEYS_LOOP) -> Callable[..., int]:
    """Returns a function that runs `code` for each key, and returns the nanoseconds it took."""
    source = "def run(cache, keys, values):\n begin = now()\n {}\n{}\n return now() - begin\n"
    scope: dict[str, Any] = {"now": perf_counter_ns}
    exec(source.format(head, textwrap.indent(code, "  ")), scope)
    run: Callable[..., int] = scope["run"]
    return run


def best(run: Callable[..., int], cache: Any, keys: list[Any], values: Any = None) -> float:
    """Returns the time for each key: the sum of the least times of all batches."""
    starts = range(0, len(keys), BATCH)
    parts = [(keys[at : at + BATCH], values and values[at : at + BATCH]) for at in starts]
    passes = [[run(cache, *part) for part in parts] for _ in range(PASSES)]
    return sum(map(min, zip(*passes, strict=True))) / len(keys)


def key_of(number: int) -> str:
    return f"user:{number:07d}"


def value_of(number: int, length: int) -> bytes:
    return (b"value %07d " % number * (length // 14 + 1))[:length]


def shuffled(items: Iterable[Any]) -> list[Any]:
    items = list(items)
    random.Random(1).shuffle(items)
    return items


def copies(keys: list[str]) -> list[str]:
    """Returns equal keys, which are in memory in the order of the list. A loop over them reads
    memory in order, so that each key is in the processor's cache, as a key that was just made."""
    return [key[:3] + key[3:] for key in keys]


def fill(contender: Contender, cache: Any, keys: list[str], length: int) -> None:
    """Stores a value for each key, and compares all values."""
    items = {key: value_of(number, length) for number, key in enumerate(keys)}
    if not contender.is_remote:
        with cache.transact() if hasattr(cache, "transact") else contextlib.nullcontext():
            loop(contender.set, PAIRS)(cache, keys, items.values())
        for key, value in items.items():
            assert cache.get(key) == value, f"the value of {key} is wrong"
        return
    # With more requests than a socket's buffer has space for responses, memcached and its client
    # would wait for each other.
    for at in range(0, len(keys), FILL):
        part = {key: items[key] for key in keys[at : at + FILL]}
        assert cache.set_many(part) == [], "a value was not stored"
        assert cache.get_many(list(part)) == part, "a value is wrong"


def of_cache(contender: Contender, cache: Any) -> Times:
    """Returns the times of a cache."""
    keys = [key_of(number) for number in range(KEYS)]
    fill(contender, cache, keys, 100)
    order = shuffled(keys)[: contender.requests]
    values = [value_of(number, 100) for number in range(len(order))]
    groups = [order[at : at + GROUP] for at in range(0, len(order), GROUP)]
    get = loop(contender.get)
    times = {
        "get": best(get, cache, order),
        "get, new key": best(get, cache, copies(order)),
        "get, 1,000 keys": best(get, cache, order[:1000] * (len(order) // 1000)),
        "set": best(loop(contender.set, PAIRS), cache, order, values),
    }
    if "cache[" not in contender.get:
        times["get, absent"] = best(get, cache, [key + "x" for key in order])
    if contender.get_many:
        run = loop(contender.get_many, "for group in keys:")
        times["get_many, each"] = best(run, cache, groups) / (len(order) / len(groups))
    keys = [key_of(number) for number in range(KEYS_OF_LONG)]
    fill(contender, cache, keys, 10_240)
    order = shuffled(keys)[: contender.requests]
    values = [value_of(number, 10_240) for number in range(len(order))]
    times["get 10 KiB"] = best(get, cache, order)
    times["set 10 KiB"] = best(loop(contender.set, PAIRS), cache, order, values)
    return times


def of_floor() -> Times:
    """Returns the times that no cache in this process can beat: an empty loop, an empty call of a
    C function with one argument, and a new `bytes` object of 100 bytes."""
    keys = shuffled(key_of(number) for number in range(KEYS))
    source = (bytes(101), slice(0, 100))
    return {
        "loop": best(loop("pass"), None, keys),
        "loop over pairs": best(loop("pass", PAIRS), None, keys, keys),
        "call": best(loop("cache(key)"), callable, keys),
        "bytes": best(loop("source[part]", f"source, part = cache\n {KEYS_LOOP}"), source, keys),
    }


def of_functions() -> Times:
    """Returns the times of functions whose result is cached."""
    from larder_cache import Cache

    keys = [key_of(number) for number in range(KEYS)]
    results = {key: value_of(number, 100) for number, key in enumerate(keys)}

    def find(key: str) -> bytes:
        return results[key]

    cache = Cache(memory="256M")
    functions = {
        "lru_cache": functools.lru_cache(maxsize=1 << 17)(find),
        "cached": cache.cached(ttl=3600)(find),
    }
    times = {}
    for name, function in functions.items():
        for key in keys:
            assert function(key) == function(key) == results[key]
        times[name] = best(loop("cache(key)"), function, shuffled(keys))
        times[f"{name}, new key"] = best(loop("cache(key)"), function, copies(shuffled(keys)))
    return times


def of_serializers() -> Times:
    """Returns the times of values that need a serializer, and those of the serializer itself."""
    from larder_cache import Cache

    keys = [key_of(number) for number in range(10_000)]
    values = [
        {"id": number, "name": f"user {number}", "roles": ["editor", "author"], "score": 0.5}
        for number in range(len(keys))
    ]
    signed = {"serializer": "pickle", "signing_key": b"a key of the benchmark"}
    kinds: dict[str, dict[str, Any]] = {
        name: {"serializer": name} for name in ("json", "msgspec", "pickle")
    }
    times = {}
    for name, options in {**kinds, "signed pickle": signed}.items():
        cache = Cache(memory="64M", **options)
        for key, value in zip(keys, values, strict=True):
            cache.set(key, value)
            assert cache.get(key) == value
        order = shuffled(keys)
        times[f"{name}: get"] = best(loop("cache.get(key)"), cache, order)
        times[f"{name}: set"] = best(loop("cache.set(key, value)", PAIRS), cache, order, values)
    return times


def waited() -> float:
    """Returns the share of its time in which this process could have run, but waited for a
    processor."""
    ran, waited, _ = map(int, Path("/proc/self/schedstat").read_text(encoding="ascii").split())
    return waited / (ran + waited)


def main() -> None:
    name, settings = sys.argv[1], Settings(**json.loads(sys.argv[2]))
    gc.disable()
    special = {"floor": of_floor, "functions": of_functions, "serializers": of_serializers}
    if name in special:
        times = special[name]()
    else:
        contender = CONTENDERS[name]
        cache = contender.open(settings)
        times = of_cache(contender, cache)
    times["waited"] = waited()
    if name not in special and contender.is_shared:
        times |= parallel.rates(contender, cache, settings)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
