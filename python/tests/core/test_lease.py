"""Leases: the exclusive right to do something for a key."""

from __future__ import annotations

import gc

import pytest

from larder_cache import Cache


def test_leases(cache: Cache) -> None:
    lease = cache.lease("k", 10)
    assert lease is not None
    assert cache.lease("k", 10) is None
    assert lease.release() is True
    assert lease.release() is False
    with cache.lease("k", 10) as held:  # type: ignore[union-attr]
        assert cache.lease("k", 10) is None
    assert held.release() is False
    for seconds in (-1, float("nan"), float("inf"), 1e300):
        with pytest.raises(ValueError, match="a lease takes a number of seconds from 0 to"):
            cache.lease("k", seconds)


def test_a_lease_ends_with_its_object(cache: Cache) -> None:
    assert cache.lease("k", 60) is not None
    gc.collect()
    assert cache.lease("k", 60) is not None
