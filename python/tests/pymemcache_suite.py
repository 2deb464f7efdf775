"""Runs pymemcache's own tests against the clients of larder_cache.

    python tests/pymemcache_suite.py [FOLDER]

FOLDER contains the source of pymemcache 4.0.0; without it, pip fetches the source. The tests
import the modules of pymemcache, which this script replaces by modules with the classes of
larder_cache. Of pymemcache itself only `serde.py` is used, as serializers that users pass.

The unit tests use fake sockets, the integration tests a larderd. Prints the tests that are left
out, with the reason, and the number of each kind. Fails if any other test fails, or if the numbers
of tests differ from those of pymemcache 4.0.0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import servers

import larder_cache

VERSION = "4.0.0"

# The modules of pymemcache, and the names that they take from larder_cache.
MODULES = {
    "__init__": "",
    "exceptions": "from larder_cache.client.exceptions import *",
    "pool": "from larder_cache.client.pool import ObjectPool",
    "client/__init__": "from larder_cache.client import *",
    "client/base": "from larder_cache.client import *",
    "client/hash": "from larder_cache.client import HashClient",
    "client/retrying": "from larder_cache.client import RetryingClient",
    "client/rendezvous": "from larder_cache.client import RendezvousHash",
    "client/murmur3": "from larder_cache.client.hashers import murmur3_32",
}

# Files with tests of the classes that larder_cache has, and the number of their unit tests.
UNIT_FILES = {
    "test_client.py": 319,
    "test_client_hash.py": 65,
    "test_client_retry.py": 57,
    "test_rendezvous.py": 12,
}
INTEGRATION_TESTS = 100

LEFT_OUT = {
    "test_client_hash.py::TestHashClient::test_ignore_exec_set_many": (
        "expects set_many with ignore_exc to report no key after an invalid response;"
        " larder_cache reports the keys that may not be stored"
    ),
}
OTHER_FILES = {
    "test_serde.py": "tests pymemcache's serializers",
    "test_compression.py": "tests pymemcache's serializers",
    "test_utils.py": "tests pymemcache's fake of a client",
    "test_benchmark.py": "measures other clients",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="larder") as name:
        folder = Path(name)
        source = Path(sys.argv[1]) if len(sys.argv) > 1 else fetch(folder)
        install(source / "pymemcache", folder / "pymemcache")
        for test, reason in (LEFT_OUT | OTHER_FILES).items():
            print(f"left out: {test}: {reason}")
        files = [f"pymemcache/test/{file}" for file in UNIT_FILES]
        skipped = [f"--deselect=pymemcache/test/{test}" for test in LEFT_OUT]
        is_right = run(folder, "unit", sum(UNIT_FILES.values()) - len(LEFT_OUT), [*files, *skipped])
        with servers.larderd(tcp=True) as server:
            options = ["pymemcache/test/test_integration.py", "-m", "integration"]
            options += ["--server", "127.0.0.1", "--port", str(server.port)]
            is_right &= run(folder, "integration", INTEGRATION_TESTS, options)
    return 0 if is_right else 1


def fetch(folder: Path) -> Path:
    """Fetches the source of pymemcache with pip."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    pip += ["--no-binary", ":all:", "--dest", str(folder), f"pymemcache=={VERSION}"]
    subprocess.run(pip, check=True)
    with tarfile.open(folder / f"pymemcache-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"pymemcache-{VERSION}"


def install(source: Path, target: Path) -> None:
    """Makes a package `pymemcache` of the tests and of the classes of larder_cache."""
    for module, imports in MODULES.items():
        path = target / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(imports + "\n")
    (target / "serde.py").write_text((source / "serde.py").read_text())
    (target / "test").mkdir()
    for path in (source / "test").glob("*.py"):
        (target / "test" / path.name).write_text(path.read_text())


def run(folder: Path, kind: str, expected: int, options: list[str]) -> bool:
    """Runs tests. Returns whether all of them pass and their number is the expected one."""
    markers = ["-o", "markers=unit\nintegration\nbenchmark", "-o", "addopts="]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60"]
    pytest += ["-p", "no:asyncio"]
    # The larder_cache of this process, installed or not.
    packages = str(Path(larder_cache.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([packages, str(folder)])}
    result = subprocess.run(
        [*pytest, *markers, *options],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    passed = re.search(r"(\d+) passed", result.stdout)
    count = int(passed[1]) if passed else 0
    skipped = re.search(r"(\d+) skipped", result.stdout)
    others = skipped[1] if skipped else 0
    print(f"{kind}: {count} of {expected} pass, {others} skipped by pymemcache")
    if result.returncode == 0 and count == expected:
        return True
    print(result.stdout)
    return False


if __name__ == "__main__":
    sys.exit(main())
