#!/usr/bin/env python3
"""Writes a copy of the checkout in which the owner has chosen other names: renamed.py FOLDER. Fails
if a file of the copy keeps an old name."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import names
import owner

# Each sample has a form that the current name need not have: a scope, a path with more elements.
SAMPLES = {
    "names.repository": "https://code.sample.org/team/sample",
    "names.reviewers": "@sample-team",
    "names.go": "go.sample.org/caches/sample",
    "names.python": "sample-store",
    "names.python_module": "sample_pkg",
    "names.node": "@sample/store-js",
    "names.php": "sample-vendor/sample-ext",
}


def copy(root, folder):
    """Copies the files that git would commit into a new checkout."""
    for path in names.tracked(root):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, folder / path, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)


def choose(folder, values):
    """Changes choices in owner.toml of a checkout, as the owner does."""
    path = folder / owner.FILE
    text = path.read_text(encoding="utf-8")
    for key, value in values.items():
        word = key.partition(".")[2]
        text, count = re.subn(rf'^{word} = ".*"$', f'{word} = "{value}"', text, flags=re.M)
        if count != 1:
            raise owner.Mistake(f"{owner.FILE} has {count} lines {word} = …, expected one")
    path.write_text(text, encoding="utf-8")


def bare(old):
    """Returns a pattern for the old names in any form, and one for files of PHP, whose extension
    has functions and options that begin like the packages for Python and Node."""
    always = [re.escape(old[key]) for key in ("names.repository", "names.reviewers")]
    # Modules of tests have the server of the core module in their paths.
    always.append(re.escape(old["names.go"].partition("/")[0]))
    # The folder of the C headers has the name of the package for PHP.
    always.append(rf"(?<![\w./]){re.escape(old['names.php'])}(?![\w./-])")
    packages = {old["names.python_module"], old["names.python"], old["names.node"],
                names.in_files_of_pip(old["names.python"]),
                names.in_files_of_npm(old["names.node"])}
    # Longer names are others: metrics of Prometheus, a folder of a test.
    packages = [re.escape(name) + r'(?!_[a-z"]|-")' for name in sorted(packages)]
    return re.compile("|".join(always + packages)), re.compile("|".join(always))


def kept(folder, old):
    """Returns the lines that contain an old name. Unlike the rules of names.py it searches for bare
    texts, so that a form without a rule is found."""
    anywhere, of_php = bare(old)
    found = []
    for path in names.listed(folder):
        pattern = of_php if path.startswith("php/") else anywhere
        lines = (names.text_of(folder / path) or "").splitlines()
        found += [f"{path}:{at}: {line.strip()}" for at, line in enumerate(lines, 1)
                  if pattern.search(line)]
        if pattern.search(path):
            found.append(f"the file {path}")
    return found


def renamed(root, folder):
    """Copies a checkout and renames it. Returns the lines that keep an old name."""
    copy(root, folder)
    old = names.current(folder)
    choose(folder, SAMPLES)
    names.write(folder, owner.read(folder))
    return kept(folder, old)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: renamed.py FOLDER")
    lines = renamed(owner.ROOT, Path(sys.argv[1]).resolve())
    if lines:
        sys.exit("\n".join(["renamed.py: these lines still have an old name:", *lines]))


if __name__ == "__main__":
    main()
