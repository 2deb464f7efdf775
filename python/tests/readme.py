#!/usr/bin/env python3
"""Runs the programs of README.md with an installed package: readme.py ENVIRONMENT.

Each program is a block that begins with `# FILE; then: COMMAND`, as `.ci/pages` explains. Its
output is compared with the block `text` after it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))
from book.page import differs, read  # noqa: E402

README = ROOT / "python/README.md"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    programs = Path(sys.argv[1]).absolute() / "bin"
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    blocks = [block for block in read(README.read_text(encoding="utf-8")).blocks if block.save]
    if not blocks:
        sys.exit(f"{README} has no programs")
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks:
            name, text = block.save
            Path(folder, name).write_text(text, encoding="utf-8")
            output = subprocess.run(
                ["bash", "-ec", block.text],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            if block.output is not None and differs(block.output, output):
                sys.exit(f"{README}:{block.line}: the output is\n{output}")
            print(f"readme.py: {name} passed")


if __name__ == "__main__":
    main()
