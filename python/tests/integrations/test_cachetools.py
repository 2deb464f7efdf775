"""`larder_cache.cachetools.LarderMapping` with cachetools."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import cachetools
import cachetools.keys
import pytest

from larder_cache import Cache
from larder_cache.cachetools import LarderMapping


class Colour:
    """A class that keys name."""


@pytest.fixture
def cache() -> Cache:
    return Cache(memory="16M", serializer="json")


@pytest.fixture
def mapping(cache: Cache) -> LarderMapping:
    return LarderMapping(cache, "numbers:")


KEYS = [
    "text",
    "ü",
    "",
    b"bytes\0",
    7,
    -(2**80),
    1.5,
    None,
    (),
    ("a", (1, (None,))),
    (False, "a"),
    (True, "builtins", "int"),
    int,
    Colour,
    (1, int),
    cachetools.keys.hashkey(1, "a", x=2.5, y=None),
    cachetools.keys.typedkey(1, "a", x=2.5),
]


def test_it_is_a_mapping_of_hashable_keys(mapping: LarderMapping) -> None:
    for number, key in enumerate(KEYS):
        assert key not in mapping
        with pytest.raises(KeyError):
            mapping[key]
        with pytest.raises(KeyError):
            del mapping[key]
        mapping[key] = number
    assert [mapping[key] for key in KEYS] == list(range(len(KEYS)))
    assert len(mapping) == len(KEYS)
    # An iterator returns the keys in any order.
    assert set(mapping) == set(KEYS)
    assert dict(mapping.items())[("a", (1, (None,)))] == KEYS.index(("a", (1, (None,))))
    assert mapping.pop("text") == 0 and mapping.pop("text", "none") == "none"
    key, value = mapping.popitem()
    assert KEYS[value] == key
    assert len(mapping) == len(KEYS) - 2


def test_keys_are_equal_as_in_a_dict(mapping: LarderMapping) -> None:
    keys = [1, 1.5, "1", b"1", (1,), ((1,),), -0.0, float("inf"), -float("inf"), 1e300, 2**70]
    for key in keys:
        assert key not in mapping
        mapping[key] = repr(key)
    for key in keys:
        assert mapping[key] == repr(key)
    assert mapping[1.0] == mapping[True] == "1" and mapping[0] == mapping[False] == "-0.0"
    assert mapping[float(2**70)] == repr(2**70) and mapping[int(1e300)] == repr(1e300)
    assert cachetools.keys.typedkey(1.0) not in mapping


@pytest.mark.parametrize("key", [object(), frozenset([1]), ("a", [1]), Colour()])
def test_other_keys_are_refused(mapping: LarderMapping, key: Any) -> None:
    with pytest.raises(TypeError, match="pass the decorator key="):
        mapping[key]
    with pytest.raises(TypeError, match="pass the decorator key="):
        mapping[key] = 1


def test_long_keys_are_stored_and_not_iterated(mapping: LarderMapping) -> None:
    long = "x" * 500
    mapping[long] = 1
    mapping[long + "y"] = 2
    mapping["short"] = 3
    assert (mapping[long], mapping[long + "y"], len(mapping)) == (1, 2, 3)
    assert list(mapping) == ["short"]


def test_mappings_of_a_cache_are_separate(cache: Cache) -> None:
    one, other = LarderMapping(cache, "one:"), LarderMapping(cache, b"other:")
    one["key"] = 1
    cache["alien"] = 1
    assert "key" not in other
    other["key"] = 2
    other.clear()
    assert dict(one) == {"key": 1} and dict(other) == {} and cache["alien"] == 1
    with pytest.raises(ValueError, match="prefix"):
        LarderMapping(cache, "")


def test_items_have_a_time_to_live(cache: Cache) -> None:
    mapping = LarderMapping(cache, "p:", ttl=60)
    mapping["a"] = 1
    mapping.setdefault("b", 2)
    assert [cache.ttl_of(key) for key in cache.keys("p:")] == [60, 60]


def test_sizes(mapping: LarderMapping, cache: Cache) -> None:
    assert mapping.maxsize == 16 << 20
    before = mapping.currsize
    mapping["key"] = "x" * 10_000
    assert 10_000 <= mapping.currsize - before < 12_000
    assert mapping.getsizeof("x" * 10) == 10 and mapping.getsizeof([1]) == 3


def test_a_value_that_is_too_large_raises_value_error(mapping: LarderMapping) -> None:
    """The decorators of cachetools ignore a `ValueError`."""
    large = "x" * 2_000_000
    with pytest.raises(ValueError, match="cannot be stored"):
        mapping["key"] = large
    with pytest.raises(ValueError, match="cannot be stored"):
        mapping.setdefault("key", large)

    @cachetools.cached(mapping)
    def load() -> str:
        return large

    assert load() == load() == large


@pytest.mark.parametrize("info", [False, True])
@pytest.mark.parametrize(
    "guard", [{}, {"lock": threading.Lock()}, {"condition": threading.Condition()}], ids=str
)
@pytest.mark.parametrize("key", [cachetools.keys.hashkey, cachetools.keys.typedkey])
def test_cached(mapping: LarderMapping, key: Any, guard: dict[str, Any], info: bool) -> None:
    calls: list[object] = []

    @cachetools.cached(mapping, key=key, info=info, **guard)
    def double(number: int, *, plus: float = 0) -> float | None:
        calls.append(number)
        return None if number < 0 else 2 * number + plus

    assert [double(1), double(1), double(2, plus=0.5), double(2, plus=0.5)] == [2, 2, 4.5, 4.5]
    assert [double(-1), double(-1)] == [None, None]
    assert calls == [1, 2, -1]
    assert key(1) in mapping and key(2, plus=0.5) in mapping
    if info:
        assert double.cache_info() == (3, 3, None, 3)
    double.cache_clear()
    double(1)
    assert calls == [1, 2, -1, 1]


def test_cachedmethod(cache: Cache) -> None:
    class Squares:
        def __init__(self) -> None:
            self.calls = 0
            self.cache = LarderMapping(cache, "squares:")

        @cachetools.cachedmethod(lambda self: self.cache)
        def of(self, number: int) -> int:
            self.calls += 1
            return number * number

    one, other = Squares(), Squares()
    assert [one.of(3), one.of(3), other.of(3)] == [9, 9, 9]
    assert (one.calls, other.calls) == (1, 0)


def _store(path: str) -> None:
    LarderMapping(Cache(shared=path), "p:")[("a", 1)] = "from the child"


def test_processes_share_a_mapping(path: str) -> None:
    mapping = LarderMapping(Cache(shared=path, memory="16M"), "p:")
    child = multiprocessing.get_context("spawn").Process(target=_store, args=(path,))
    child.start()
    child.join()
    assert mapping[("a", 1)] == "from the child"


def test_setdefault_returns_the_same_value_to_all_threads(mapping: LarderMapping) -> None:
    found: list[Any] = []

    def work(number: int) -> None:
        for key in range(300):
            found.append((key, mapping.setdefault(key, number)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 300
