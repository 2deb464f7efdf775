"""Functions whose results are cached."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from larder_cache import Cache, CacheInfo


def test_a_result_is_computed_once(cache: Cache) -> None:
    calls = []

    @cache.cached(ttl=60)
    def square(number: int) -> int:
        """Squares."""
        calls.append(number)
        return number * number

    assert [square(3), square(3), square(4)] == [9, 9, 16]
    assert calls == [3, 4]
    assert square.cache_info() == CacheInfo(hits=1, misses=2)
    assert (square.__name__, square.__doc__) == ("square", "Squares.")  # type: ignore[attr-defined]
    assert square.__wrapped__(5) == 25
    assert inspect.signature(square).parameters.keys() == {"number"}
    assert square.cache_delete(3) is True
    assert square.cache_delete(3) is False
    assert square.cache_clear() == 1
    square(4)
    assert calls == [3, 4, 5, 4]


def test_without_arguments_of_the_decorator(cache: Cache) -> None:
    @cache.cached
    def one() -> int:
        return 1

    assert (one(), one(), one.cache_info().hits) == (1, 1, 1)


def test_coroutine_functions(cache: Cache) -> None:
    calls = []

    @cache.cached(ttl=60)
    async def square(number: int) -> int:
        calls.append(number)
        await asyncio.sleep(0)
        return number * number

    async def main() -> list[int]:
        return [*await asyncio.gather(square(3), square(3)), await square(3)]

    assert inspect.iscoroutinefunction(square)
    assert asyncio.run(main()) == [9, 9, 9]
    assert calls == [3]
    assert square.cache_info().hits >= 1
    assert square.cache_key(3) in [key.encode() for key in cache]
    assert square.cache_delete(3)
    assert square.cache_clear() == 0


def test_different_arguments_have_different_keys(cache: Cache) -> None:
    @cache.cached
    def function(*args: Any, **kwargs: Any) -> None: ...

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1,), {}),
        ((-1,), {}),
        ((1.0,), {}),
        ((True,), {}),
        (("1",), {}),
        ((b"1",), {}),
        ((None,), {}),
        ((1, 1), {}),
        ((11,), {}),
        (("a", "b"), {}),
        (("ab",), {}),
        (("as1:b",), {}),
        (("",), {}),
        (("", ""), {}),
        (((1, 2),), {}),
        (((1,), 2), {}),
        (((1, (2,)),), {}),
        (((),), {}),
        ((2**70,), {}),
        ((), {"a": 1}),
        ((), {"b": 1}),
        ((), {"a": 1, "b": 2}),
        (("a", 1), {}),
        (("x" * 300,), {}),
        (("x" * 301,), {}),
    ]
    keys = [function.cache_key(*args, **kwargs) for args, kwargs in calls]
    assert len(set(keys)) == len(calls)
    assert all(len(key) <= 250 for key in keys)
    assert function.cache_key(a=1, b=2) == function.cache_key(b=2, a=1)
    for args, kwargs in calls:
        function(*args, **kwargs)
    assert function.cache_clear() == len(calls)


def test_other_arguments_need_a_key(cache: Cache) -> None:
    @cache.cached
    def function(value: object) -> int:
        return 1

    deep: Any = ()
    for _ in range(100):
        deep = (deep,)
    for value in ([1], {}, object(), deep):
        with pytest.raises(TypeError, match="has no key: pass key=, a function that returns str"):
            function(value)

    @cache.cached(key=lambda user: f"{user['id']}")
    def name(user: dict[str, Any]) -> str:
        return str(user["name"])

    assert name({"id": 1, "name": "Ada"}) == "Ada"
    assert name({"id": 1, "name": "Bob"}) == "Ada"
    assert name({"id": 2, "name": "Bob"}) == "Bob"
    assert len(name.cache_key({"id": "x" * 1000})) <= 250


def test_methods(cache: Cache) -> None:
    class Area:
        def __init__(self, width: int) -> None:
            self.width = width

        @cache.cached(key=lambda self, height: f"{self.width},{height}")
        def area(self, height: int) -> int:
            return self.width * height

    assert [Area(2).area(3), Area(2).area(3), Area(4).area(3)] == [6, 6, 12]
    assert Area.area.cache_info().hits == 1


def test_the_prefix(cache: Cache) -> None:
    @cache.cached(prefix="area:")
    def area(width: int, height: int) -> int:
        return width * height

    assert area.cache_key(2, 3) == b"area:i2;i3;"
    with pytest.raises(ValueError, match="has 200 bytes, expected at most 100"):
        cache.cached(prefix="x" * 200)(area)

    def function_with_a_long_name() -> None: ...

    function_with_a_long_name.__qualname__ = "f" * 300
    assert len(cache.cached(function_with_a_long_name).cache_key()) < 120


def test_processes_share_results(path: Path, start: Callable[..., Any]) -> None:
    from programs import output_of

    program = """
import sys
from larder_cache import Cache

cache = Cache(shared=sys.argv[1])

@cache.cached(ttl=60)
def slow(number):
    print("computes", flush=True)
    return number + 1

print(slow(1))
"""
    assert output_of(start(program, path)) == "computes\n2\n"
    assert output_of(start(program, path)) == "2\n"


def test_a_function_that_is_dropped_is_freed(cache: Cache) -> None:
    def make() -> weakref.ref[Any]:
        class Big:
            pass

        big = Big()

        @cache.cached
        def function() -> int:
            return id(big) * 0

        function()
        return weakref.ref(big)

    big = make()
    gc.collect()
    assert big() is None


def test_exceptions_are_not_cached(cache: Cache) -> None:
    calls = []

    @cache.cached
    def failing() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ZeroDivisionError
        return 1

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failing()
    assert failing() == 1
    assert failing.cache_info() == CacheInfo(hits=0, misses=3)
