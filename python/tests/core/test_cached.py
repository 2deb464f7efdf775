"""Functions whose results are cached."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import weakref
from collections.abc import Callable
from functools import partial
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

    assert area.cache_key(2, 3) == b"area:(i2;i3;"
    for prefix, length in (("x" * 200, 200), ("", 0)):
        with pytest.raises(ValueError, match=f"has {length} bytes, expected 1 to 100"):
            cache.cached(prefix=prefix)(area)
    with pytest.raises(TypeError, match="prefix is str or bytes, found 5"):
        cache.cached(prefix=5)(area)  # type: ignore[call-overload]

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


def test_functions_whose_prefix_is_the_beginning_of_another(cache: Cache) -> None:
    page = cache.cached(prefix="page", key=str)(lambda number: f"page {number}")
    page_1 = cache.cached(prefix="page1", key=str)(lambda number: f"page1 {number}")
    cache["page_of_another_program"] = 1
    assert [page(12), page_1(2)] == ["page 12", "page1 2"]
    assert page.cache_clear() == 1
    assert page_1.cache_info() == CacheInfo(hits=0, misses=1)
    page_1(2)
    assert page_1.cache_info().hits == 1
    assert "page_of_another_program" in cache


def test_functions_without_a_name_need_a_prefix(cache: Cache) -> None:
    for function in (lambda: 1, partial(pow, 2)):
        with pytest.raises(ValueError, match="has no name of its own: pass prefix="):
            cache.cached(function)
        cache.cached(prefix="named")(function)


def test_what_cannot_be_decorated(cache: Cache) -> None:
    with pytest.raises(TypeError, match=r"decorates a function, found 60; .*cached\(ttl=60\)"):
        cache.cached(60)  # type: ignore[call-overload]

    def generator() -> Any:
        yield 1

    async def async_generator() -> Any:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="is a generator function"):
            cache.cached(function)


def test_a_cached_function_of_a_cached_function(cache: Cache) -> None:
    calls = []
    with Cache(memory="16M") as far:

        @cache.cached(ttl=5)
        @far.cached(ttl=60)
        def function(number: int) -> int:
            calls.append(number)
            return number

        assert [function(1), function(1), len(calls)] == [1, 1, 1]
        assert function.cache_clear() == 1
        assert len(far) == 1
        function(1)
        assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:the value is loaded again")
def test_a_result_that_cannot_be_read_is_computed_again(path: Path) -> None:
    with (
        Cache(shared=path, serializer="json") as old,
        Cache(shared=path, serializer="pickle") as new,
    ):

        def function() -> list[int]:
            return [1]

        assert old.cached(function)() == [1]
        assert new.cached(function)() == [1]
        assert new.cached(function)() == [1]
        assert new[new.cached(function).cache_key()] == [1]
        assert old.get_or_load("k", lambda: [1]) == [1]
        with pytest.warns(RuntimeWarning, match="is loaded again: the value of b'k' was stored by"):
            assert new.get_or_load("k", lambda: [2]) == [2]


def double(number: int) -> int:
    return number * 2


module_cache = Cache(memory="4M")
double = module_cache.cached(double)  # type: ignore[assignment]


def test_a_cached_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(double)) is double
    assert repr(double) == "<cached double>"
