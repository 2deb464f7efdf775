"""Programs in PHP and Go that use the same cache as a test."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from larder_cache import Cache

ROOT = Path(__file__).parents[3]
_TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
_SECS = 60


class Program:
    """A running program."""

    def __init__(self, args: list[str]) -> None:
        self._process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def has_ended(self) -> bool:
        """True if the program does not run any more."""
        return self._process.poll() is not None

    def result(self) -> bytes:
        """Waits for the end of the program, and returns its output."""
        try:
            output, errors = self._process.communicate(timeout=_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        assert self._process.returncode == 0, errors.decode()
        return output


def php_extension() -> Path:
    """Returns the path of the extension of Larder for PHP. Skips the test if it does not exist."""
    extension = _TARGET / "php/larder.so"
    _found(extension.exists(), f"{extension} does not exist: run `make -C php`")
    return extension


class Php:
    """PHP with the extension of Larder."""

    def __init__(self) -> None:
        self._php = _found(shutil.which("php"), "PHP is not installed")
        self._args = [self._php, "-n", "-d", f"extension={php_extension()}", "-r"]

    def start(self, code: str, *args: str) -> Program:
        """Runs code, in which `$argv[1]` is the first argument."""
        return Program([*self._args, code, "--", *args])

    def run(self, code: str, *args: str) -> Any:
        """Returns the output of the code, decoded from JSON."""
        return json.loads(self.start(code, *args).result())


# Stores a number, reads it, and counts, until the file in the second argument exists. A number that
# was evicted is read as null.
_NEIGHBOUR = """
$cache = Larder\\Cache::open($argv[1]);
for ($n = 1; !file_exists($argv[2]); clearstatcache(), $n++) {
    $cache->set("php:" . $n % 100, $n, 60) || exit("$n is not stored");
    in_array($cache->get("php:" . $n % 100), [$n, null], true) || exit("another value than $n");
    $cache->increment("php");
    usleep(1000);
}
echo $n - 1;
"""


@contextlib.contextmanager
def php_on(path: str, folder: Path) -> Iterator[None]:
    """Runs a program in PHP that uses the cache in a file at the same time. Fails if it reads a
    wrong value or loses a count."""
    stop = folder / "stop"
    program = Php().start(_NEIGHBOUR, path, str(stop))
    try:
        yield
    finally:
        stop.touch()
        rounds = program.result().decode()
    assert rounds.isdecimal() and int(rounds) > 100, rounds
    with Cache(shared=path) as cache:
        assert cache.get("php") == int(rounds)


class Go:
    """The program in go_peer."""

    def __init__(self, folder: Path) -> None:
        go = _found(shutil.which("go"), "Go is not installed")
        archive = ROOT / "go/shared/lib/linux_amd64/liblarder.a"
        arm_archive = ROOT / "go/shared/lib/linux_arm64/liblarder.a"
        _found(archive.exists() or arm_archive.exists(), "run `make -C go` to build its library")
        self._program = str(folder / "peer")
        shutil.copy(Path(__file__).parent / "go_peer/main.go", folder)
        edits = []
        core = "larder.example/larder"
        for name, path in ((core, "go"), (f"{core}/shared", "go/shared")):
            edits += [f"-require={name}@v0.0.0", f"-replace={name}={ROOT / path}"]
        for command in (["mod", "init", "peer"], ["mod", "edit", *edits], ["build", "-o", "peer"]):
            subprocess.run([go, *command], cwd=folder, check=True, timeout=170, capture_output=True)

    def start(self, *args: str) -> Program:
        """Runs a command of the program."""
        return Program([self._program, *args])

    def run(self, *args: str) -> bytes:
        """Returns the output of a command."""
        return self.start(*args).result()


def _found(thing: Any, advice: str) -> Any:
    # For a run of single tests. `make python` builds both libraries, and in continuous integration
    # a skipped test that .ci/skipped does not list fails the run.
    if not thing:
        pytest.skip(advice)
    return thing
