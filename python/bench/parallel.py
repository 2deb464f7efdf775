"""The throughput of gets in several threads and in several processes at the same time."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import load
from caches import Contender, Settings

SECONDS = 1.0
WORKERS = 2


def rates(contender: Contender, cache: Any, settings: Settings) -> dict[str, float]:
    """Returns millions of gets per second. The keys are those of `load.of_cache`, with their short
    values."""
    keys = [load.key_of(number) for number in range(load.KEYS)]
    load.fill(contender, cache, keys, 100)
    batches = _batches(load.shuffled(keys))
    get = load.loop(contender.get)

    def opened() -> Any:
        return contender.open(settings) if contender.is_remote else cache

    return {
        "1 thread, M/s": _together(1, _threads, get, opened, batches),
        f"{WORKERS} threads, M/s": _together(WORKERS, _threads, get, opened, batches),
        "1 process, M/s": _together(1, _processes, get, opened, batches),
        f"{WORKERS} processes, M/s": _together(WORKERS, _processes, get, opened, batches),
    }


def _batches(keys: list[str]) -> list[list[str]]:
    # The clock is read after each batch.
    return [keys[at : at + load.BATCH] for at in range(0, len(keys), load.BATCH)]


Start = Callable[[int, Callable[[], float]], float]


def _together(
    workers: int,
    start: Start,
    get: Callable[..., int],
    opened: Callable[[], Any],
    batches: list[list[str]],
) -> float:
    begin = perf_counter_ns() + 100_000_000

    def work() -> float:
        cache, mine = opened(), batches[:]
        random.shuffle(mine)
        while perf_counter_ns() < begin:
            pass
        done = 0
        while True:
            for batch in mine:
                get(cache, batch, None)
                done += len(batch)
                took = perf_counter_ns() - begin
                if took > SECONDS * 1e9:
                    return done / took * 1e3

    return start(workers, work)


def _threads(workers: int, work: Callable[[], float]) -> float:
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == workers, "a thread ended without a result"
    return sum(found)


def _processes(workers: int, work: Callable[[], float]) -> float:
    readers = []
    for _ in range(workers):
        reader, writer = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.write(writer, repr(work()).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        readers.append(reader)
    total = 0.0
    for reader in readers:
        with open(reader, "rb") as file:
            total += float(file.read())
        os.wait()
    return total
