"""Plays the scenes of conformance/api/cases.json on `Cache`, and those that a server can play on
`Client`. The README of that folder describes the fields of a step.

Values are bytes. A scene is skipped, with the reason, if it needs something that a cache of Python
does not offer; `test_the_skipped_scenes_are_known` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers

from larder_cache import Cache, CasError, CounterError, StoreError, TooLargeError
from larder_cache.client import Client, MemcacheClientError, MemcacheServerError

CASES = Path(__file__).parents[2] / "conformance/api/cases.json"
SCENES: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))
NAMES = [scene["name"] for scene in SCENES]

NO_TIER = "a Cache has no disk tier"
NO_FLAGS = "a Cache sets the flags itself: they contain the type of the value"
TEXT_COUNTS = "a number that is stored as text is a counter too, as in memcached"

# The names of the scenes for exceptions.
OUTCOMES: list[tuple[type[Exception], str]] = [
    (TooLargeError, "too_large"),
    (StoreError, "no_memory"),
    (CasError, "no_tokens"),
    (CounterError, "not_a_number"),
    (KeyError, "missing"),
]


def why_not(scene: dict[str, Any]) -> str | None:
    """Returns the reason to skip a scene; None if it is played."""
    if "tier" in scene:
        return NO_TIER
    if any("flags" in step or "all_flags" in step for step in scene["steps"]):
        return NO_FLAGS
    return None


def repeated(step: dict[str, Any], field: str, times: str) -> str:
    text: str = step.get(field, "")
    return text * step.get(times, 1)


def text_of(value: Any) -> bytes:
    """Returns the stored bytes of a value; a counter is stored as its digits."""
    return b"%d" % value if type(value) is int else value


class Stage:
    """The cache of a scene. Each method `on_…` plays a step and returns its outcome."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        # A lease ends with its object, so all are kept.
        self.leases: list[Any] = []

    def play(self, step: dict[str, Any]) -> None:
        try:
            outcome = getattr(self, f"on_{step['op']}")(step)
        except ValueError as error:
            assert "key" in str(error)
            outcome = "key"
        except tuple(kind for kind, _ in OUTCOMES) as error:
            outcome = next(name for kind, name in OUTCOMES if isinstance(error, kind))
        assert outcome == step["want"]

    def key(self, step: dict[str, Any]) -> str:
        return repeated(step, "key", "times")

    def value(self, step: dict[str, Any]) -> bytes:
        return repeated(step, "value", "value_times").encode()

    def ttl(self, step: dict[str, Any]) -> int | None:
        return step.get("ttl") or None

    def on_get(self, step: dict[str, Any]) -> str:
        key = self.key(step)
        value = self.cache.get(key)
        if value is None:
            return "missing"
        assert text_of(value) == self.value(step)
        if "ttl" in step:
            ttl, left = step["ttl"], self.cache.ttl_of(key)
            assert left is None if ttl == 0 else left is not None and ttl - 2 <= left <= ttl
        return "ok"

    def on_set(self, step: dict[str, Any]) -> str:
        self.cache.set(self.key(step), self.value(step), self.ttl(step))
        return "ok"

    def on_add(self, step: dict[str, Any]) -> str:
        stored = self.cache.add(self.key(step), self.value(step), self.ttl(step))
        return "ok" if stored else "exists"

    def on_replace(self, step: dict[str, Any]) -> str:
        stored = self.cache.replace(self.key(step), self.value(step), self.ttl(step))
        return "ok" if stored else "missing"

    def on_append(self, step: dict[str, Any]) -> str:
        return "ok" if self.cache.append(self.key(step), self.value(step)) else "missing"

    def on_prepend(self, step: dict[str, Any]) -> str:
        return "ok" if self.cache.prepend(self.key(step), self.value(step)) else "missing"

    def on_swap(self, step: dict[str, Any]) -> str:
        key = self.key(step)
        _, token = self.cache.gets(key, (None, 0))
        if step["token"] == "other":
            token += 12345
        stored = self.cache.cas(key, self.value(step), token, self.ttl(step))
        return {True: "ok", False: "changed", None: "missing"}[stored]

    def on_delete(self, step: dict[str, Any]) -> str:
        return "ok" if self.cache.delete(self.key(step)) else "missing"

    def on_touch(self, step: dict[str, Any]) -> str:
        return "ok" if self.cache.touch(self.key(step), self.ttl(step)) else "missing"

    def on_increment(self, step: dict[str, Any]) -> str:
        number = self.cache.incr(self.key(step), step["delta"], initial=None)
        assert number == step["number"]
        return "ok"

    def on_decrement(self, step: dict[str, Any]) -> str:
        number = self.cache.decr(self.key(step), step["delta"], initial=None)
        assert number == step["number"]
        return "ok"

    def on_get_many(self, step: dict[str, Any]) -> str:
        found = self.cache.get_many(step["keys"])
        values = [None if value is None else value.encode() for value in step["values"]]
        assert [found.get(key) for key in step["keys"]] == values
        assert None not in found.values()
        return "ok"

    def on_keys(self, step: dict[str, Any]) -> str:
        assert sorted(self.cache.keys(step["prefix"])) == step["keys"]
        return "ok"

    def on_remove_prefix(self, step: dict[str, Any]) -> str:
        assert self.cache.remove_prefix(step["prefix"]) == step["number"]
        return "ok"

    def on_clear(self, step: dict[str, Any]) -> str:
        self.cache.clear()
        return "ok"

    def on_length(self, step: dict[str, Any]) -> str:
        assert len(self.cache) == step["number"]
        return "ok"

    def on_add_signed(self, step: dict[str, Any]) -> str:
        number = self.cache.incr(self.key(step), step["by"], ttl=self.ttl(step))
        assert number == step["signed"]
        return "ok"

    def on_cas_signed(self, step: dict[str, Any]) -> str:
        # A Cache has no such method; its compare-and-set is for all values.
        key = self.key(step)
        value, token = self.cache.gets(key, (None, 0))
        if value is None:
            return "missing"
        if type(value) is not int:
            return "not_a_number"
        if value != step["old"]:
            return "changed"
        assert self.cache.cas(key, step["new"], token, self.cache.ttl_of(key))
        return "ok"

    def on_lease(self, step: dict[str, Any]) -> str:
        lease = self.cache.lease(self.key(step), step["ms"] / 1000)
        if lease is None:
            return "busy"
        self.leases.append(lease)
        return "ok"

    def on_release(self, step: dict[str, Any]) -> str:
        return "ok" if self.leases[-1].release() else "missing"

    def on_reports(self, step: dict[str, Any]) -> str:
        # A Cache has no walk that returns only the sizes.
        sizes = sorted((key, len(value)) for key, value in self.cache.items(step["prefix"]))
        assert sizes == list(zip(step["keys"], step["sizes"], strict=True))
        return "ok"


def needs_tokens(scene: dict[str, Any]) -> bool:
    return bool(scene.get("cas")) or any(step["op"] == "cas_signed" for step in scene["steps"])


@pytest.fixture(params=["private", "shared"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | None]:
    """Where the cache of a scene is: in the memory of the process, or in a file."""
    return None if request.param == "private" else tmp_path / "cache"


@pytest.mark.parametrize("scene", SCENES, ids=NAMES)
def test_scene(scene: dict[str, Any], place: Path | None) -> None:
    # The number of these scenes is asserted below.
    if reason := why_not(scene):
        pytest.skip(reason)
    with Cache(memory="8M", shared=place, cas=needs_tokens(scene)) as cache:
        stage = Stage(cache)
        for number, step in enumerate(scene["steps"]):
            if step["op"] == "add_signed" and step["key"] == "text":
                # Differs by design: see TEXT_COUNTS.
                assert cache.incr("text") == 8, TEXT_COUNTS
                continue
            try:
                stage.play(step)
            except AssertionError as error:
                raise AssertionError(f"step {number} of {scene['name']!r}: {step}") from error


def test_the_skipped_scenes_are_known() -> None:
    """A new scene that this runner would skip fails here, until its reason is known."""
    reasons = [reason for scene in SCENES if (reason := why_not(scene))]
    assert reasons == [NO_TIER] * 4 + [NO_FLAGS]
    assert len(SCENES) - len(reasons) >= 16


NO_BLANKS = "the protocol refuses such a key, so the client does"
ALWAYS_TOKENS = "items of a larderd have cas tokens unless it is started with -C"
NO_METHODS = "a Client has no leases, signed counters and walks, and does not return flags"
NOT_FOR_CLIENTS = {
    "keys and values are any bytes": NO_BLANKS,
    "a key has 1 to 250 bytes": NO_BLANKS,
    "several keys at once": NO_BLANKS,
    "without tokens there are no swaps": ALWAYS_TOKENS,
}
# A server has no such commands. The other steps of these scenes do not depend on them.
NO_COMMAND = {"keys", "remove_prefix", "length"}


class ClientStage(Stage):
    """A client of a server in the place of a cache. It does not return times to live."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def play(self, step: dict[str, Any]) -> None:
        try:
            outcome = getattr(self, f"on_{step['op']}")(step)
        except MemcacheServerError as error:
            assert "too large" in str(error)
            outcome = "too_large"
        except MemcacheClientError as error:
            assert "non-numeric" in str(error)
            outcome = "not_a_number"
        assert outcome == step["want"]

    def store(self, step: dict[str, Any], otherwise: str) -> str:
        stored = getattr(self.client, step["op"])(
            self.key(step), self.value(step), expire=step.get("ttl", 0)
        )
        return "ok" if stored else otherwise

    def on_set(self, step: dict[str, Any]) -> str:
        return self.store(step, "not stored")

    def on_add(self, step: dict[str, Any]) -> str:
        return self.store(step, "exists")

    def on_replace(self, step: dict[str, Any]) -> str:
        return self.store(step, "missing")

    def on_append(self, step: dict[str, Any]) -> str:
        return self.store(step, "missing")

    def on_prepend(self, step: dict[str, Any]) -> str:
        return self.store(step, "missing")

    def on_get(self, step: dict[str, Any]) -> str:
        value = self.client.get(self.key(step))
        if value is None:
            return "missing"
        assert value == self.value(step)
        return "ok"

    def on_swap(self, step: dict[str, Any]) -> str:
        key = self.key(step)
        _, token = self.client.gets(key, cas_default=b"0")
        token = int(token) + (12345 if step["token"] == "other" else 0)
        stored = self.client.cas(key, self.value(step), token, expire=step.get("ttl", 0))
        return {True: "ok", False: "changed", None: "missing"}[stored]

    def on_delete(self, step: dict[str, Any]) -> str:
        return "ok" if self.client.delete(self.key(step)) else "missing"

    def on_touch(self, step: dict[str, Any]) -> str:
        return "ok" if self.client.touch(self.key(step), step["ttl"]) else "missing"

    def on_increment(self, step: dict[str, Any]) -> str:
        number = self.client.incr(self.key(step), step["delta"])
        assert number == step.get("number")
        return "missing" if number is None else "ok"

    def on_decrement(self, step: dict[str, Any]) -> str:
        number = self.client.decr(self.key(step), step["delta"])
        assert number == step.get("number")
        return "missing" if number is None else "ok"

    def on_clear(self, step: dict[str, Any]) -> str:
        return "ok" if self.client.flush_all() else "not cleared"


def why_not_on_a_server(scene: dict[str, Any]) -> str | None:
    """Returns the reason why a client does not play a scene; None if it does."""
    if scene.get("extra"):
        return NO_METHODS
    return NOT_FOR_CLIENTS.get(scene["name"]) or why_not(scene)


FOR_CLIENTS = [scene for scene in SCENES if why_not_on_a_server(scene) is None]


@pytest.mark.parametrize("readers", [False, True], ids=["requests", "local reads"])
@pytest.mark.parametrize("scene", FOR_CLIENTS, ids=[scene["name"] for scene in FOR_CLIENTS])
def test_scene_on_a_server(scene: dict[str, Any], readers: bool) -> None:
    with (
        servers.larderd(readers=readers) as server,
        Client(server.address, default_noreply=False) as client,
    ):
        assert client.reads_memory is readers
        stage = ClientStage(client)
        for number, step in enumerate(scene["steps"]):
            if step["op"] in NO_COMMAND:
                # A later step clears the items that the removal leaves.
                assert step["op"] != "remove_prefix" or "clear" in str(scene["steps"][number:])
                continue
            try:
                stage.play(step)
            except AssertionError as error:
                name = scene["name"]
                raise AssertionError(f"step {number} of {name!r}: {step}") from error


def test_clients_play_all_other_scenes() -> None:
    assert len(FOR_CLIENTS) == len(SCENES) - 4 - 5 - len(NOT_FOR_CLIENTS), "4 with a tier, 5 extra"
