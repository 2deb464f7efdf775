"""Uses the installed package with nothing but Python: smoke.py. `python/tests/wheels` runs it with
Pythons that cannot run pytest, such as one for another architecture."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from larder_cache import Cache


def private() -> None:
    """Stores values of all types, and counts in several threads."""
    with Cache(memory="16M") as cache:
        values = {
            "bytes": b"\0\xff",
            "int": -1,
            "float": 0.5,
            "bool": True,
            "str": "é",
            "none": None,
        }
        for key, value in values.items():
            cache.set(key, value)
        assert cache.get_many(list(values)) == values
        assert cache.get("missing") is None
        threads = [
            threading.Thread(target=lambda: [cache.incr("count") for _ in range(1000)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cache["count"] == 4000
        assert cache.get_or_load("loaded", lambda: "once") == "once"
        assert cache.delete("loaded")


def shared(path: Path) -> None:
    """Stores an item that a child process reads and changes."""
    with Cache(shared=path, memory="16M") as cache:
        cache.set("greeting", "hello")
        child = os.fork()
        if child == 0:
            # Without cleanup of the parent's objects; the status reports a failure.
            try:
                os._exit(0 if cache.append("greeting", " from the child") else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert cache["greeting"] == "hello from the child"


def use_until_the_end() -> None:
    """Uses a cache in threads that Python ends at its exit."""
    cache = Cache(memory="16M")

    def use() -> None:
        while True:
            cache["key"] = bytes(100_000)
            cache.get("key")

    for _ in range(8):
        threading.Thread(target=use, daemon=True).start()
    time.sleep(0.2)


def main() -> None:
    private()
    with tempfile.TemporaryDirectory() as folder:
        shared(Path(folder) / "items")
    use_until_the_end()
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"smoke: passed: Python {sys.version.split()[0]}, {os.uname().machine}, GIL {gil}")


if __name__ == "__main__":
    main()
