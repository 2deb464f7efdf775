"""Times to live."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from larder_cache import Cache


def test_an_item_expires(cache: Cache) -> None:
    cache.set("k", 1, ttl=1)
    assert cache["k"] == 1
    time.sleep(2.1)
    assert cache.get("k") is None


@pytest.mark.parametrize("ttl", [60, 59.1, timedelta(minutes=1)])
def test_a_ttl_is_rounded_up_to_seconds(cache: Cache, ttl: Any) -> None:
    cache.set("k", 1, ttl)
    assert cache.ttl_of("k") in (59, 60)


def test_none_means_no_limit() -> None:
    with Cache(memory="16M", ttl=60) as cache:
        cache["k"] = 1
        assert cache.ttl_of("k") in (59, 60)
        cache.set("k", 1, ttl=None)
        assert cache.ttl_of("k") is None
        cache.touch("k")
        assert cache.ttl_of("k") in (59, 60)
        cache.touch("k", None)
        assert cache.ttl_of("k") is None
        with pytest.raises(KeyError):
            cache.ttl_of("absent")


def test_touch_and_get_and_touch(cache: Cache) -> None:
    assert cache.touch("k", 60) is False
    assert cache.get_and_touch("k", 60, "absent") == "absent"
    cache["k"] = 1
    assert cache.touch("k", 60) is True
    assert cache.get_and_touch("k", 100) == 1
    assert cache.ttl_of("k") in (99, 100)


@pytest.mark.parametrize(
    ("ttl", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (timedelta(0), ValueError),
        ("60", TypeError),
        (True, TypeError),
        ([], TypeError),
    ],
)
def test_other_times_are_refused(cache: Cache, ttl: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="ttl is"):
        cache.set("k", 1, ttl)
    assert "k" not in cache


def test_a_very_long_time(cache: Cache) -> None:
    cache.set("k", 1, ttl=float("inf"))
    cache.set("l", 1, ttl=10**12)
    assert cache.get_many("kl") == {"k": 1, "l": 1}


def test_options_that_are_wrong() -> None:
    for options, message in [
        ({"memory": "64 potatoes"}, "memory is '64 potatoes', expected a number of bytes"),
        ({"memory": 0}, "memory is 0"),
        ({"memory": True}, "memory is True"),
        ({"item_max": "-1"}, "item_max is '-1'"),
        ({"memory": "2T"}, "memory is '2T', expected a number of bytes up to 1T"),
        ({"memory": 2**64}, "memory is 18446744073709551616"),
        ({"processes": 0}, "processes is 0, expected 1 to 4096"),
        ({"shared": ""}, "shared is empty, expected the path of a file"),
        ({"shared": "/dev/shm/x", "children": True}, "omit children=True"),
    ]:
        with pytest.raises(ValueError, match=message):
            Cache(**options)  # type: ignore[arg-type]
