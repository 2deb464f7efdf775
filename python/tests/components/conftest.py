"""Files in shared memory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def path() -> Iterator[str]:
    """The path of a file for a shared cache, which does not exist yet."""
    name = f"/dev/shm/larder-test-{os.getpid()}-{uuid.uuid4()}"
    yield name
    Path(name).unlink(missing_ok=True)
