"""A cache is a mapping."""

from __future__ import annotations

from collections.abc import MutableMapping

import pytest

from larder_cache import Cache


def test_items_are_set_read_and_deleted(cache: Cache) -> None:
    cache["k"] = "v"
    assert cache["k"] == "v"
    assert "k" in cache
    assert len(cache) == 1
    del cache["k"]
    assert "k" not in cache
    with pytest.raises(KeyError, match="k"):
        cache["k"]
    with pytest.raises(KeyError, match="k"):
        del cache["k"]


def test_it_is_a_mutable_mapping(cache: Cache) -> None:
    assert isinstance(cache, MutableMapping)
    cache.update({"a": 1}, b=2)
    assert dict(cache) == {"a": 1, "b": 2}
    assert dict(cache.items()) == {"a": 1, "b": 2}
    assert sorted(cache.values()) == [1, 2]
    assert (len(cache.keys()), len(cache.items()), len(cache.values())) == (2, 2, 2)
    keys = cache.keys()
    assert ("a" in keys, "z" in keys) == (True, False)
    assert cache.setdefault("a", 7) == 1
    assert cache.setdefault("c", 7) == 7
    key, value = cache.popitem()
    assert {"a": 1, "b": 2, "c": 7}[key] == value
    cache.clear()
    assert list(cache) == []
    with pytest.raises(KeyError, match="empty"):
        cache.popitem()


def test_a_cache_is_equal_to_itself_only(cache: Cache) -> None:
    with Cache(memory="16M") as other:
        assert cache == cache
        assert cache != other
        assert len({cache, other}) == 2


def test_pop_removes_and_returns(cache: Cache) -> None:
    cache["k"] = b"v"
    assert cache.pop("k") == b"v"
    assert cache.pop("k", None) is None
    with pytest.raises(KeyError, match="k"):
        cache.pop("k")
    with pytest.raises(TypeError, match="found 3 arguments"):
        cache.pop("k", 1, 2)


def test_items_of_a_prefix(cache: Cache) -> None:
    cache.update({"user:1": "Ada", "user:2": "Bob", "page:1": "Home"})
    assert sorted(cache.keys("user:")) == ["user:1", "user:2"]
    assert dict(cache.items("page:")) == {"page:1": "Home"}
    assert sorted(cache.values("user:")) == ["Ada", "Bob"]
    assert len(cache.keys("user:")) == 2
    assert cache.remove_prefix("user:") == 2
    assert list(cache) == ["page:1"]


def test_a_walk_survives_changes(cache: Cache) -> None:
    stays = {f"stays:{number}": number for number in range(1000)}
    cache.update(stays)
    seen = set()
    for at, key in enumerate(cache):
        seen.add(key)
        cache[f"new:{at}"] = at
        if at > 5000:
            break
    assert stays.keys() <= seen


def test_keys_are_text_or_bytes(cache: Cache) -> None:
    cache["grüße"] = 1
    assert cache["grüße".encode()] == 1
    cache[b"\xff\x00 k"] = 2
    (other,) = (key for key in cache if key != "grüße")
    assert other == "\udcff\x00 k"
    assert cache[other] == 2
    for key in (1, None, ("a",), 1.5):
        with pytest.raises(TypeError, match="a key is str or bytes, found"):
            cache.get(key)  # type: ignore[arg-type]


def test_a_key_has_1_to_250_bytes(cache: Cache) -> None:
    cache["k" * 250] = 1
    assert cache["k" * 250] == 1
    for key in ("", "k" * 251, "ü" * 126):
        with pytest.raises(ValueError, match="key"):
            cache[key] = 1
        assert cache.get(key) is None
        assert key not in cache


def test_many_items(cache: Cache) -> None:
    items = {f"k{number}": number for number in range(100)}
    assert cache.set_many(items) == []
    assert cache.set_many([("pair", 1)]) == []
    assert cache.get_many([*items, "absent"]) == items
    assert cache.get_many(key for key in ("k1", b"k2")) == {"k1": 1, b"k2": 2}
    assert cache.delete_many([*items, "absent"]) == 100
    assert cache.get_many(items) == {}


def test_set_many_returns_what_was_not_stored(cache: Cache) -> None:
    assert cache.set_many({"small": 1, "large": bytes(3 << 20)}) == ["large"]
    assert cache["small"] == 1


def test_add_and_replace(cache: Cache) -> None:
    assert cache.replace("k", 1) is False
    assert cache.add("k", 1) is True
    assert cache.add("k", 2) is False
    assert cache.replace("k", 3) is True
    assert cache["k"] == 3


def test_append_and_prepend(cache: Cache) -> None:
    assert cache.append("k", b"!") is False
    cache["k"] = b"b"
    assert cache.append("k", b"c")
    assert cache.prepend("k", b"a")
    assert cache["k"] == b"abc"
    with pytest.raises(TypeError, match="only bytes and str"):
        cache.append("k", 1)  # type: ignore[arg-type]


def test_only_values_of_the_same_type_are_extended(cache: Cache) -> None:
    cache.update({"text": "a", "bytes": b"a", "int": 1, "none": None})
    assert cache.append("text", "ü")
    assert cache["text"] == "aü"
    for key, part in [("text", b"x"), ("bytes", "x"), ("int", "2"), ("int", b"2"), ("none", "x")]:
        with pytest.raises(TypeError, match=f"the value of b'{key}' is not "):
            cache.append(key, part)
    assert dict(cache) == {"text": "aü", "bytes": b"a", "int": 1, "none": None}


def test_compare_and_set(cache: Cache) -> None:
    assert cache.gets("k") is None
    assert cache.gets("k", "none") == "none"
    cache["k"] = "v"
    value, token = cache.gets("k")
    assert value == "v"
    assert cache.cas("k", "new", token) is True
    assert cache.cas("k", "late", token) is False
    assert cache.cas("absent", "v", token) is None
    assert cache["k"] == "new"


def test_counters(cache: Cache) -> None:
    assert [cache.incr("n"), cache.incr("n", 5), cache.decr("n", 10)] == [1, 6, -4]
    assert cache["n"] == -4
    assert cache.incr("m", initial=100) == 101
    with pytest.raises(KeyError, match="absent"):
        cache.incr("absent", initial=None)
    assert "absent" not in cache
    cache["n"] = 5
    assert cache.incr("n") == 6


def test_a_counter_that_another_program_stored_as_text(cache: Cache) -> None:
    cache["n"] = b"10"
    assert cache.incr("n") == 11
    assert cache.decr("n", 20) == 0, "memcached stops at 0"
    cache["n"] = b"9223372036854775807"
    assert cache.incr("n") == 2**63, "such a number has no sign"


def test_counters_refuse_other_values(cache: Cache) -> None:
    from larder_cache import CounterError

    for value in ("x", "5", True, None, 1.5, b"x"):
        cache["k"] = value
        with pytest.raises(CounterError, match="the value of b'k' is not an int of 64 bits"):
            cache.incr("k")
        assert cache["k"] == value
    cache["large"] = 2**70
    with pytest.raises(CounterError):
        cache.incr("large")
    with pytest.raises(OverflowError):
        cache.incr("n", 2**64)


def test_statistics(cache: Cache) -> None:
    cache["k"] = 1
    cache.get("k")
    cache.get("absent")
    stats = cache.stats()
    assert (stats["curr_items"], stats["get_hits"], stats["get_misses"]) == (1, 1, 1)
    memory = cache.memory_usage()
    assert memory["limit"] == 16 << 20
    assert 0 < memory["items"] <= memory["used"] <= memory["limit"]
    assert repr(cache) == "<Cache 1 items>"


def test_a_closed_cache_refuses_everything() -> None:
    from larder_cache import ClosedError

    with Cache(memory="16M") as cache:
        cache["k"] = 1
        walk, view = iter(cache), cache.items()
        lease = cache.lease("k", 10)
    assert cache.closed
    cache.close()
    for operation in (
        lambda: cache.get("k"),
        lambda: cache.set("k", 1),
        lambda: cache.get_many(["k"]),
        lambda: cache.incr("n"),
        lambda: cache.clear(),
        lambda: len(cache),
        lambda: "k" in cache,
        lambda: list(view),
        lambda: cache.stats(),
        lambda: cache.get_or_load("x", lambda: 1),
        lambda: cache.pop("k"),
    ):
        with pytest.raises(ClosedError, match="the cache is closed"):
            operation()
    assert repr(cache) == "<Cache closed>"
    # What was made before keeps its memory.
    assert list(walk) == ["k"]
    assert lease is not None
    assert lease.release()


def test_a_value_that_closes_the_cache_while_it_is_serialized() -> None:
    from larder_cache import ClosedError

    class Closing:
        tag, name = 6, "closing"

        def dumps(self, key: bytes, value: object) -> bytes:
            cache.close()
            return b"{}"

        def loads(self, key: bytes, data: bytes) -> object:
            raise AssertionError("nothing is stored")

    cache = Cache(memory="16M", serializer=Closing())
    with pytest.raises(ClosedError):
        cache["k"] = object()
