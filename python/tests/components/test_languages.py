"""One file that programs in Python, PHP and Go use at the same time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from larder_cache import Cache, SerializerError

from .languages import Go, Php
from .processes import wait_until

OPEN = "$cache = Larder\\Cache::open($argv[1]);"
SECS_OF_A_LOAD = 0.5


@pytest.fixture(scope="module")
def php() -> Php:
    return Php()


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Go:
    return Go(tmp_path_factory.mktemp("peer"))


@pytest.fixture
def cache(path: str) -> Cache:
    return Cache(shared=path, memory="16M", serializer="json")


VALUES: list[tuple[Any, str]] = [
    ("grüß", '"grüß"'),
    ("", '""'),
    (7, "7"),
    (-(2**63), "PHP_INT_MIN"),
    (2**63 - 1, "PHP_INT_MAX"),
    (0.25, "0.25"),
    (1e300, "1e300"),
    (3.0, "3.0"),
    (True, "true"),
    (False, "false"),
    (None, "null"),
]


def test_php_reads_the_types_of_python(php: Php, cache: Cache, path: str) -> None:
    for number, (value, _) in enumerate(VALUES):
        cache.set(f"python:{number}", value)
    checks = ",".join(
        f'$cache->get("python:{number}", "absent") === {code}'
        for number, (_, code) in enumerate(VALUES)
    )
    assert php.run(f"{OPEN} echo json_encode([{checks}]);", path) == [True] * len(VALUES)


def test_python_reads_the_types_of_php(php: Php, cache: Cache, path: str) -> None:
    stores = "".join(
        f'$cache->set("php:{number}", {code});' for number, (_, code) in enumerate(VALUES)
    )
    php.run(f"{OPEN} {stores} echo 1;", path)
    for number, (value, _) in enumerate(VALUES):
        # A string of PHP is bytes.
        expected = value.encode() if isinstance(value, str) else value
        found = cache.get(f"php:{number}", "absent")
        assert found == expected and type(found) is type(expected)


def test_a_value_of_another_serializer_is_an_error_that_names_it(
    php: Php, cache: Cache, path: str
) -> None:
    php.run(f'{OPEN} $cache->set("array", [1, 2]); echo 1;', path)
    with pytest.raises(SerializerError, match="php's arrays"):
        cache.get("array")


def test_go_and_python_exchange_bytes(go: Go, cache: Cache, path: str) -> None:
    cache.set("python", "grüß")
    assert go.run(path, "get", "python").decode() == "grüß"
    go.run(path, "set", "go", "grüß")
    assert cache.get("go") == "grüß".encode()


def test_one_counter_of_all_languages(php: Php, go: Go, cache: Cache, path: str) -> None:
    cache.set("count", 0)
    programs = [
        php.start(f'{OPEN} for ($i = 0; $i < 50000; $i++) $cache->increment("count");', path),
        go.start(path, "incr", "count", "50000"),
    ]
    ours = 0
    while not all(program.has_ended() for program in programs):
        for _ in range(1000):
            cache.incr("count")
        ours += 1000
    for program in programs:
        program.result()
    assert cache.get("count") == 100_000 + ours
    assert php.run(f'{OPEN} echo json_encode($cache->get("count"));', path) == 100_000 + ours


def test_python_waits_for_the_value_that_php_computes(php: Php, cache: Cache, path: str) -> None:
    program = php.start(
        f"""{OPEN} $cache->getOrCompute("key", function () use ($cache) {{
            $cache->increment("loads"); usleep({int(SECS_OF_A_LOAD * 1e6)}); return 7;
        }}, 60);""",
        path,
    )
    wait_until(lambda: cache.get("loads"))
    began = time.monotonic()
    assert cache.get_or_load("key", lambda: cache.incr("loads")) == 7
    assert time.monotonic() - began < SECS_OF_A_LOAD + 1
    program.result()
    assert cache.get("loads") == 1


def test_php_waits_for_the_value_that_python_computes(php: Php, cache: Cache, path: str) -> None:
    begun = threading.Event()

    def load() -> int:
        begun.set()
        time.sleep(SECS_OF_A_LOAD)
        return 7

    thread = threading.Thread(target=lambda: cache.get_or_load("key", load, ttl=60))
    thread.start()
    assert begun.wait(10)
    code = f'{OPEN} echo json_encode($cache->getOrCompute("key", fn () => 8, 60));'
    assert php.run(code, path) == 7
    thread.join()


def test_php_reads_a_file_that_python_created_and_closed(
    php: Php, path: str, tmp_path: Path
) -> None:
    with Cache(shared=path, memory="16M") as cache:
        cache.set("key", 7, ttl=60)
    assert php.run(f'{OPEN} echo json_encode($cache->get("key"));', path) == 7
