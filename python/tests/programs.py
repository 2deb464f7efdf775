"""Programs that tests start in processes of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import larder_cache

# The folder of the package under test: PYTHONPATH of the programs. It is the source tree, or the
# folder into which pip has installed a wheel.
PACKAGE = Path(larder_cache.__file__).resolve().parents[1]


def output_of(process: subprocess.Popen[str], timeout: float = 30) -> str:
    """Waits for a program, and returns its output. Fails if the program failed."""
    output, errors = process.communicate(timeout=timeout)
    assert process.returncode == 0, f"the program ended with {process.returncode}:\n{errors}"
    return output
