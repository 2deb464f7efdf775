#!/usr/bin/env python3
"""Writes the names of packaging/owner.toml into all files whose format requires them.

    names.py             replaces the names that the files have now
    names.py --check     only reports names that differ from owner.toml

`make names` calls it. One file for each name contains the current one, for example go/go.mod.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import owner

# The file that has the current value of a name, and the text around it.
ANCHORS = {
    "names.repository": ("Cargo.toml", r'^repository = "(.*)"$'),
    "names.reviewers": (".github/CODEOWNERS", r"^\* (.*)$"),
    "names.go": ("go/go.mod", r"^module (.*)$"),
    "names.python": ("python/pyproject.toml", r'^name = "(.*)"$'),
    "names.python_module": ("python/pyproject.toml", r'^module-name = "(.*)\._.*"$'),
    "names.node": ("node/package.json", r'^    "name": "(.*)",$'),
    "names.php": ("php/composer.json", r'^    "name": "(.*)",$'),
}
# Files whose subject is the package for Node, which may have the name of the one for Python.
OF_NODE = r"node/|docs/start/node\.md$|docs/images/node\.svg$"
# The endings of a name that begins the name of a file, such as NAME-linux-x64-gnu-1.0.0.tgz.
IN_FILE = r"(?=-(?:linux-[a-z0-9]+-[a-z]+-)?[0-9X*])"


class Rule:
    """A form in which a name occurs, in the files whose path matches `files`."""

    def __init__(self, key, pattern, files="", form=str):
        self.key, self.pattern, self.form = key, pattern, form
        self.files = re.compile(files)

    def source(self, current):
        return self.pattern.replace("NAME", re.escape(self.form(current[self.key])))


def in_files_of_pip(name):
    return name.replace("-", "_")


def in_files_of_npm(name):
    return name.removeprefix("@").replace("/", "-")


RULES = [
    Rule("names.repository", r"NAME(?![\w-])"),
    Rule("names.reviewers", r"NAME\b", r"\.github/CODEOWNERS$"),
    Rule("names.go", r"(?<![\w.-])NAME(?![\w-]|\.\w)"),
    # The extension for PHP has functions that begin with the name of the Python module.
    Rule("names.python", r"(?<![\w-])NAME" + IN_FILE, r"(?!php/|node/)", in_files_of_pip),
    Rule("names.python_module", r"(?<![\w-])NAME(?![\w-])", r"(?!php/)"),
    Rule("names.node", r"(?<![\w-])NAME" + IN_FILE + r"(?=\S*\.tgz)", OF_NODE, in_files_of_npm),
    Rule("names.node", r"(?<![\w-])NAME(?=-linux|-bench|[^\w-]|\Z)", OF_NODE),
    Rule("names.node", r"(?<=from ['\"])NAME(?=['\"/])", r".*\.md$"),
    Rule("names.python", r"(?<![\w-])NAME(?![\w-])", rf"(?!php/|{OF_NODE})"),
    Rule("names.php", r"(?<![\w./-])NAME(?![\w./-])", r"php/composer\.json$|.*\.md$"),
]


def tracked(root):
    """Returns the paths of the files that git would commit."""
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for path in sorted(set(output.split("\0")) - {""}) if (root / path).exists()]


def listed(root):
    """Returns the paths of the files that may contain a name."""
    return [path for path in tracked(root)
            if path != owner.FILE and not (root / path).is_symlink()]


def text_of(path):
    """Returns the text of a file, or None if it is not text."""
    data = path.read_bytes()
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def current(root):
    """Returns the names that the files have now."""
    found = {}
    for key, (path, pattern) in ANCHORS.items():
        match = re.search(pattern, (root / path).read_text(encoding="utf-8"), re.M)
        if match is None:
            raise owner.Mistake(f"{path} has no line {pattern}, which contains {key}")
        found[key] = match[1]
    return found


def replaced(path, text, old, new):
    """Returns the text of a file with the new names. All names are replaced in one pass, so that no
    new name is taken for an old one."""
    rules = [rule for rule in RULES if rule.files.match(path)]
    pattern = "|".join(f"(?P<r{at}>{rule.source(old)})" for at, rule in enumerate(rules))

    def name(match):
        rule = rules[int(match.lastgroup[1:])]
        return rule.form(new[rule.key])

    return re.sub(pattern, name, text)


def write(root, new):
    """Writes the names of `new` into all files. Returns the keys that have changed."""
    old = current(root)
    changed = [key for key in ANCHORS if old[key] != new[key]]
    if not changed:
        return changed
    # Most files contain no name in any form, and need no search for the forms.
    forms = {rule.form(old[rule.key]).encode() for rule in RULES}
    go = []
    for path in listed(root):
        data = (root / path).read_bytes()
        if not any(form in data for form in forms):
            continue
        text = text_of(root / path)
        renamed = text and replaced(path, text, old, new)
        if renamed and renamed != text:
            (root / path).write_text(renamed, encoding="utf-8")
            if path.endswith(".go"):
                go.append(path)
    before, after = (root / "python" / names["names.python_module"] for names in (old, new))
    if before != after:
        shutil.move(before, after)
    if go:
        # The order of imports depends on the path.
        gofmt = shutil.which("gofmt")
        if gofmt is None:
            raise owner.Mistake("gofmt is missing, which sorts the imports: install Go")
        subprocess.run([gofmt, "-w", *go], cwd=root, check=True)
    return changed


def differences(root, wanted):
    """Returns the names that differ from owner.toml, as lines."""
    have = current(root)
    return [
        f"{ANCHORS[key][0]} has {key} {have[key]!r}, and {owner.FILE} has {wanted[key]!r}"
        for key in ANCHORS if have[key] != wanted[key]
    ]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    root = Path(owner.ROOT)
    try:
        wanted = owner.read(root)
        if arguments.check:
            wrong = differences(root, wanted)
            if wrong:
                sys.exit("\n".join(["names:", *wrong, "run make names"]))
            return
        changed = write(root, wanted)
    except owner.Mistake as mistake:
        sys.exit(f"names: {mistake}")
    for key in changed:
        print(f"names: {key} is now {wanted[key]}")
    if not changed:
        print(f"names: the files already have the names of {owner.FILE}")


if __name__ == "__main__":
    main()
