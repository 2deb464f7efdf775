"""One caller computes a value while the others wait: threads, tasks and processes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from larder_cache import Cache

Start = Callable[..., subprocess.Popen[str]]


def test_a_value_is_loaded_once(cache: Cache) -> None:
    calls = []

    def loader() -> str:
        calls.append(1)
        return "value"

    assert [cache.get_or_load("k", loader, ttl=60) for _ in range(3)] == ["value"] * 3
    assert len(calls) == 1
    assert cache.ttl_of("k") in (59, 60)


@pytest.mark.parametrize("value", [None, "", 0, False, b""])
def test_a_value_that_is_false_is_a_value(cache: Cache, value: Any) -> None:
    calls = []

    def loader() -> Any:
        calls.append(1)
        return value

    for _ in range(2):
        assert cache.get_or_load("k", loader) == value
    assert len(calls) == 1


def test_threads_wait_for_the_value(cache: Cache) -> None:
    calls = []

    def loader() -> int:
        calls.append(1)
        time.sleep(0.3)
        return 42

    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda _: cache.get_or_load("k", loader), range(20)))
    assert results == [42] * 20
    assert len(calls) == 1


def test_a_value_that_was_stored_a_moment_ago_is_not_loaded_again(cache: Cache) -> None:
    """A caller may miss the value, and take the lease after the last leader has stored it."""
    calls: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for number in range(500):
                load = partial(cache.get_or_load, f"k{number}", partial(calls.append, number))
                list(pool.map(lambda _, load=load: load(), range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert sorted(calls) == list(range(500))


def test_tasks_wait_by_a_timer(cache: Cache) -> None:
    calls = []
    ticks = 0

    async def loader() -> int:
        calls.append(1)
        await asyncio.sleep(0.3)
        return 42

    async def count() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async def main() -> list[int]:
        counter = asyncio.create_task(count())
        results = await asyncio.gather(*(cache.get_or_load_async("k", loader) for _ in range(200)))
        counter.cancel()
        return results

    assert asyncio.run(main()) == [42] * 200
    assert len(calls) == 1
    assert ticks >= 15, "the loop ran while the tasks waited"


def test_an_exception_goes_to_all_waiting_threads_and_is_not_cached(cache: Cache) -> None:
    calls = []

    def loader() -> int:
        calls.append(1)
        time.sleep(0.3)
        raise ZeroDivisionError("no value")

    def attempt(_: int) -> BaseException | None:
        with pytest.raises(ZeroDivisionError) as raised:
            cache.get_or_load("k", loader)
        return raised.value

    with ThreadPoolExecutor(10) as pool:
        errors = list(pool.map(attempt, range(10)))
    assert len(calls) == 1
    assert len({id(error) for error in errors}) == 1, "all receive the same exception"
    assert cache.get_or_load("k", lambda: 7) == 7, "the next caller loads again"


def test_an_exception_goes_to_all_waiting_tasks(cache: Cache) -> None:
    calls = []

    async def loader() -> int:
        calls.append(1)
        await asyncio.sleep(0.2)
        raise ZeroDivisionError("no value")

    async def main() -> list[Any]:
        waiting = (cache.get_or_load_async("k", loader) for _ in range(50))
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert await cache.get_or_load_async("k", lambda: asyncio.sleep(0, 7)) == 7
        return results

    results = asyncio.run(main())
    assert {type(result) for result in results} == {ZeroDivisionError}
    assert len(calls) == 1


def test_a_cancelled_task_leaves_the_load_to_another(cache: Cache) -> None:
    calls = []

    async def loader() -> str:
        calls.append(1)
        await asyncio.sleep(60 if len(calls) == 1 else 0)
        return "second"

    async def main() -> float:
        leader = asyncio.create_task(cache.get_or_load_async("k", loader))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(cache.get_or_load_async("k", loader)) for _ in range(5)]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        leader.cancel()
        assert await asyncio.gather(*others) == ["second"] * 5
        with pytest.raises(asyncio.CancelledError):
            await leader
        return time.monotonic() - began

    assert asyncio.run(main()) < 1
    assert len(calls) == 2


def test_a_cancelled_waiting_task_disturbs_nobody(cache: Cache) -> None:
    async def loader() -> str:
        await asyncio.sleep(0.3)
        return "value"

    async def main() -> None:
        leader = asyncio.create_task(cache.get_or_load_async("k", loader))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(cache.get_or_load_async("k", loader))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await leader == "value"

    asyncio.run(main())


def test_a_timeout_around_a_load(cache: Cache) -> None:
    async def main() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await cache.get_or_load_async("k", lambda: asyncio.sleep(60, "late"))
        return await cache.get_or_load_async("k", lambda: asyncio.sleep(0, "value"))

    assert asyncio.run(main()) == "value"


def test_a_change_during_the_load_wins(cache: Cache) -> None:
    def loader() -> str:
        cache["k"] = "changed"
        return "loaded"

    assert cache.get_or_load("k", loader) == "loaded"
    assert cache["k"] == "changed"
    cache.delete("k")

    def deleting() -> str:
        cache.delete("k")
        return "loaded"

    assert cache.get_or_load("k", deleting) == "loaded"
    assert "k" not in cache, "the value may be older than the delete"


def test_a_value_that_cannot_be_stored_reaches_its_caller(cache: Cache) -> None:
    large = bytes(2 << 20)
    assert cache.get_or_load("k", lambda: large) is large
    assert "k" not in cache
    assert cache.stats()["store_too_large"] == 1
    with pytest.raises(TypeError, match="needs a serializer") as raised:
        cache.get_or_load("k", lambda: [1])
    assert len(cache) == 0, "nothing is left in the cache, although the exception still exists"
    assert raised.tb is not None
    assert cache.get_or_load("k", lambda: 1) == 1


def test_a_loader_that_requests_its_own_key(cache: Cache) -> None:
    with pytest.raises(RecursionError, match="b'k' waits for itself"):
        cache.get_or_load("k", lambda: cache.get_or_load("k", lambda: 1))
    assert cache.get_or_load("k", lambda: 2) == 2


def test_loaders_that_request_each_others_keys(cache: Cache) -> None:
    both = threading.Barrier(2)

    def load(key: str, other: str) -> str:
        def loader() -> str:
            both.wait()
            return cache.get_or_load(other, lambda: f"{other} by {key}") + f", {key}"

        return cache.get_or_load(key, loader)

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(load, "ab", "ba"))
    assert time.monotonic() - began < 10
    assert [result[-1] for result in results] == ["a", "b"]


def test_stale_values_are_used_while_one_caller_refreshes(cache: Cache) -> None:
    options: dict[str, Any] = {"ttl": 1, "stale": 60}
    assert cache.get_or_load("k", lambda: "old", **options) == "old"
    time.sleep(2.1)
    began, refreshed = threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        refreshed.wait(10)
        return "new"

    with ThreadPoolExecutor(1) as pool:
        refreshing = pool.submit(lambda: cache.get_or_load("k", slow, **options))
        assert began.wait(10)

        def never() -> str:
            raise AssertionError("another caller refreshes the value")

        assert cache.get_or_load("k", never, **options) == "old"
        refreshed.set()
        assert refreshing.result() == "new"
    assert cache["k"] == "new"


def test_a_refresh_that_fails_returns_the_old_value(cache: Cache) -> None:
    options: dict[str, Any] = {"ttl": 1, "stale": 60}
    cache.get_or_load("k", lambda: "old", **options)
    time.sleep(2.1)

    def broken() -> str:
        raise ZeroDivisionError

    assert cache.get_or_load("k", broken, **options) == "old"

    async def failing() -> str:
        raise ZeroDivisionError

    assert asyncio.run(cache.get_or_load_async("k", failing, **options)) == "old"
    with pytest.raises(KeyboardInterrupt):
        cache.get_or_load("k", lambda: (_ for _ in ()).throw(KeyboardInterrupt), **options)


def test_a_refresh_that_fails_disturbs_no_other_caller(cache: Cache) -> None:
    options: dict[str, Any] = {"ttl": 1, "stale": 60}
    cache.get_or_load("k", lambda: "old", **options)
    time.sleep(2.1)
    begun, ends = threading.Event(), threading.Event()

    def failing() -> str:
        begun.set()
        ends.wait(10)
        raise ZeroDivisionError

    with ThreadPoolExecutor(2) as pool:
        refreshing = pool.submit(lambda: cache.get_or_load("k", failing, **options))
        assert begun.wait(10)
        assert cache.get_or_load("k", failing, **options) == "old"
        ends.set()
        assert refreshing.result() == "old"
    assert cache.get_or_load("k", lambda: "new", **options) == "new"


def test_a_loader_that_takes_longer_than_its_lease(cache: Cache) -> None:
    begun = threading.Event()

    def slow() -> str:
        begun.set()
        time.sleep(1.5)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get_or_load, "k", slow, lease=0.3)
        assert begun.wait(10)
        began = time.monotonic()
        assert cache.get_or_load("k", lambda: "quick", lease=0.3) == "quick"
        assert time.monotonic() - began < 1
        assert first.result() == "slow"


def test_a_caller_that_does_not_want_to_wait(cache: Cache) -> None:
    begun, ends = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        ends.wait(10)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get_or_load, "k", slow)
        assert begun.wait(10)
        assert cache.get_or_load("k", lambda: "own", wait=0) == "own"
        ends.set()
        assert first.result() == "slow"


@pytest.mark.parametrize(
    "options", [{"stale": -1}, {"stale": float("inf")}, {"lease": 0}, {"wait": -1}]
)
def test_options_that_are_wrong(cache: Cache, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} is"):
        cache.get_or_load("k", lambda: 1, **options)


class Interrupt(Exception):
    """Raised by a signal handler."""


# pytest-timeout would use the same signal.
@pytest.mark.timeout(60, method="thread")
def test_a_signal_handler_that_raises_leaves_no_lease(cache: Cache) -> None:
    """Timeouts of Celery and Ctrl-C raise exceptions between any two instructions."""

    def raise_interrupt(*_: object) -> None:
        raise Interrupt

    def load_for_a_moment() -> None:
        # Python ignores an exception in a destructor, so the loop may go on after the signal.
        ends = time.monotonic() + 0.2
        while time.monotonic() < ends:
            for number in range(7):
                cache.get_or_load(f"k{number}", lambda: "v")
                cache.delete(f"k{number}")

    before = signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        for number in range(100):
            signal.setitimer(signal.ITIMER_REAL, 0.001 + number * 1e-5)
            with contextlib.suppress(Interrupt):
                load_for_a_moment()
            signal.setitimer(signal.ITIMER_REAL, 0)
            with ThreadPoolExecutor(1) as pool:
                for key in range(7):
                    cache.delete(f"k{key}")
                    caller = pool.submit(partial(cache.get_or_load, f"k{key}", str))
                    assert caller.result(timeout=2) == ""
                    assert cache.get_or_load(f"k{key}", str) == ""
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_task_that_a_loader_starts_may_load_the_key_later(cache: Cache) -> None:
    tasks = []

    async def later() -> str:
        await asyncio.sleep(0.1)
        return await cache.get_or_load_async("k", lambda: asyncio.sleep(0, "later"))

    async def loader() -> str:
        tasks.append(asyncio.create_task(later()))
        return "value"

    async def main() -> str:
        await cache.get_or_load_async("k", loader)
        cache.delete("k")
        return await tasks[0]

    assert asyncio.run(main()) == "later"


def test_a_synchronous_call_on_the_thread_of_the_leader(cache: Cache) -> None:
    """It must not wait: the leader is a task of the loop that the call blocks."""

    async def main() -> tuple[str, str]:
        leader = asyncio.create_task(
            cache.get_or_load_async("k", lambda: asyncio.sleep(0.2, "of the task"))
        )
        await asyncio.sleep(0.05)
        began = time.monotonic()
        value = cache.get_or_load("k", lambda: "of the call")
        assert time.monotonic() - began < 0.15
        return value, await leader

    assert asyncio.run(main()) == ("of the call", "of the task")


def test_a_loop_that_ends_in_a_load_leaves_it_to_another_thread(cache: Cache) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def never() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    def run() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(cache.get_or_load_async("k", never))
        loop.run_until_complete(asyncio.sleep(0.2))
        loop.close()
        del task
        gc.collect()
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(10)
    assert cache.get_or_load("k", lambda: "other", wait=20) == "other"
    thread.join()
    assert ended.is_set()


def test_a_pop_during_a_load_wins_as_a_delete_does(cache: Cache) -> None:
    def loader() -> str:
        assert cache.pop("k", "absent") == "absent"
        return "loaded"

    assert cache.get_or_load("k", loader) == "loaded"
    assert "k" not in cache


def test_waiting_callers_do_not_lengthen_the_traceback(cache: Cache) -> None:
    async def failing() -> str:
        await asyncio.sleep(0.1)
        raise ZeroDivisionError

    async def main() -> list[Any]:
        waiting = (cache.get_or_load_async("k", failing) for _ in range(300))
        return await asyncio.gather(*waiting, return_exceptions=True)

    results = asyncio.run(main())
    assert len(traceback.extract_tb(results[-1].__traceback__)) < 20


def test_an_exception_is_not_kept_for_long(cache: Cache) -> None:
    class Big:
        pass

    def failing() -> None:
        big = Big()
        references.append(weakref.ref(big))
        raise ZeroDivisionError

    references: list[weakref.ref[Big]] = []
    with pytest.raises(ZeroDivisionError):
        cache.get_or_load("k", failing)
    time.sleep(2.1)
    cache.get_or_load("other", lambda: 1)
    gc.collect()
    assert references[0]() is None
