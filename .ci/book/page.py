"""The blocks of a Markdown page, and the reader's action for each."""

import re
import shlex
from dataclasses import dataclass

FENCE = re.compile(r"^(\s*)```(\S*)$")
SAVED = re.compile(r"^(?:<\?php )?(?://|#) (\S+); then: (.+)$")
SHOWN = re.compile(r"^\s*<!-- (all )?shown: (\S.*) -->$")


class Unmarked(Exception):
    """A block of a page has no mark for the reader's action."""


@dataclass
class Block:
    """A block that a reader types.

    line: the line of its fence
    text: the pasted text
    save: the name and the text of the file that is saved before
    output: the expected lines of output, or None if the page does not show them
    """

    line: int
    text: str
    save: tuple[str, str] | None = None
    output: list[str] | None = None


@dataclass
class Page:
    """The actions that a page asks of its reader.

    blocks: the typed blocks, in order
    packages: the packages of its `apt-get install` lines
    shown: the line and the reason of each block that is only shown
    """

    blocks: list[Block]
    packages: list[str]
    shown: list[tuple[int, str]]


def fences(text):
    """Yields line, language, lines and the reason to only show it, for each block."""
    block, before = None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            shown = SHOWN.match(before)
            reason = shown[2] if shown and not shown[1] else None
            block = (number, fence[2], [], reason, len(fence[1]))
        elif block is not None and line.strip() == "```":
            yield block[:4]
            block, before = None, ""
        elif block is not None:
            block[2].append(line[block[4]:] if line[: block[4]].isspace() else line)
        elif line.strip():
            before = line


def packages_of(lines):
    """Returns the packages of a block that is one `apt-get install`, or None for another block."""
    words = shlex.split(" ".join(lines).replace("\\ ", " "), comments=True)
    if words[:2] != ["apt-get", "install"]:
        return None
    return [word for word in words[2:] if not word.startswith("-")]


def read(text):
    """Reads a page. Raises Unmarked for a block that is neither typed, nor output, nor marked."""
    whole = [mark[2] for mark in map(SHOWN.match, text.splitlines()) if mark and mark[1]]
    page = Page([], [], [])
    for line, language, lines, reason in fences(text):
        reason = reason or (whole[0] if whole else None)
        saved = SAVED.match(lines[0]) if lines else None
        last = page.blocks[-1] if page.blocks else None
        if reason:
            page.shown.append((line, reason))
        elif saved:
            kept = lines if lines[0].startswith("<?php") else lines[1:]
            page.blocks.append(Block(line, saved[2], (saved[1], "\n".join(kept) + "\n")))
        elif language == "sh":
            packages = packages_of(lines)
            if packages is None:
                page.blocks.append(Block(line, "\n".join(lines)))
            else:
                page.packages += packages
        elif language == "text" and last and last.output is None:
            last.output = lines
        else:
            raise Unmarked(
                f"{line}: a block of {language or 'no language'}: expected ```sh (it is typed), a "
                "first line `// FILE; then: COMMAND` (it is saved), ```text after either (it is "
                "the output), or a line <!-- shown: REASON --> before it"
            )
    return page


# Lines that larderd prints as it starts. They may appear between any lines of the reader's
# commands, and after a value that a command prints without a line end.
SERVER = re.compile(r"(larderd|try): ")
LATE = re.compile(r"(?<=.)(?=larderd: listening on )")


def differs(expected, output):
    """True if an output differs from the page. … stands for any text in a line, and a line with
    only … for any lines. Lines that a server prints are ignored."""
    parts = [
        r"(?:.*\n)*" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", ".*") + r"\n"
        for line in expected
    ]
    output = LATE.sub("\n", output.replace("\r", ""))
    lines = [line.rstrip() for line in output.splitlines()]
    lines = [line for line in lines if not SERVER.match(line)]
    return not re.fullmatch("".join(parts), "".join(f"{line}\n" for line in lines))
