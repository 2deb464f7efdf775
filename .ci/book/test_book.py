#!/usr/bin/env python3
"""Tests the test of the book: it must find each fault that a page may have."""

import sys
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

CI = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CI))
from book import places, shell  # noqa: E402
from book.page import Unmarked, differs, read  # noqa: E402


def script():
    loader = SourceFileLoader("pages", str(CI / "pages"))
    module = module_from_spec(spec_from_loader("pages", loader))
    loader.exec_module(module)
    return module


PAGES = script()


def played(*blocks):
    """Types a page with these blocks. Returns the errors."""
    page = read("\n\n".join(blocks))
    return "\n".join(PAGES.played(page, "page.md", places.Here(), "export LARDER=here"))


def sh(*lines):
    return "\n".join(["```sh", *lines, "```"])


def text(*lines):
    return "\n".join(["```text", *lines, "```"])


class Reading(unittest.TestCase):
    def test_a_block_without_a_mark_is_refused(self):
        for block in ("```\nls\n```", "```go\nx := 1\n```", text("output of nothing")):
            with self.assertRaisesRegex(Unmarked, "shown: REASON"):
                read(block)
        with self.assertRaises(Unmarked):
            read("<!-- shown: -->\n```\nls\n```")
        with self.assertRaises(Unmarked):
            read("<!-- shown: a part -->\nA sentence between them.\n\n```\nls\n```")

    def test_the_marks_are_read(self):
        page = read("\n".join([
            sh("apt-get install -y a b \\", "  c   # as root"), sh("ls"), text("file"),
            "<!-- shown: needs systemd -->", sh("systemctl"), "```go", "// a.go; then: go run .",
            "package main", "```",
        ]))
        self.assertEqual(page.packages, ["a", "b", "c"])
        self.assertEqual([block.text for block in page.blocks], ["ls", "go run ."])
        self.assertEqual(page.blocks[0].output, ["file"])
        self.assertEqual(page.blocks[1].save, ("a.go", "package main\n"))
        self.assertEqual([reason for _, reason in page.shown], ["needs systemd"])
        self.assertEqual(len(read("<!-- all shown: figures -->\n```\nx\n```").shown), 1)

    def test_an_output_is_compared_whole(self):
        self.assertFalse(differs(["one", "t…o", "…"], "one\ntwo\nthree\nfour\n"))
        self.assertTrue(differs(["one"], "one\ntwo\n"))
        self.assertTrue(differs(["one", "two"], "one\n"))
        self.assertTrue(differs(["one"], "someone\n"))
        self.assertFalse(differs(["…", "one", "…"], "one\n"))
        late = "onelarderd: listening on 127.0.0.1:1\ntry: this\n"
        self.assertFalse(differs(["one"], late), "larderd's line follows a value")


class Typing(unittest.TestCase):
    def test_a_page_that_is_right_passes(self):
        wrong = played(
            sh("sleep 60 &", "mkdir folder && cd folder"),
            "```c\n// file; then: cat file; pwd | sed s,.*/,,; echo $LARDER\n\t!bang $HOME\n```",
            text("\t!bang $HOME", "folder", "here"), sh("kill %1; wait", "cd .. && rm -r folder"),
        )
        self.assertEqual(wrong, "")

    def test_a_line_that_fails_is_found(self):
        for line in ("false", "false && true", "nosuchcommand", "false; true", "ls /nosuch | cat x"):
            self.assertIn("a line failed", played(sh("true", line, "true")), line)
        # A failure that the line itself handles is not a failed line.
        self.assertEqual(played(sh("false || true", "if false; then true; fi")), "")

    def test_a_missing_line_of_the_output_is_found(self):
        self.assertIn("the output is", played(sh("echo one; echo two"), text("one")))

    def test_a_page_that_is_typed_once_is_found(self):
        self.assertIn("the second time", played(sh("mkdir folder")))

    def test_a_process_that_stays_is_found(self):
        self.assertIn("does not end what it starts:\nsleep 60", played(sh("sleep 60 &")))

    def test_a_command_that_takes_the_next_lines_is_found(self):
        shell.BLOCK_SECS = 2
        try:
            self.assertIn("took the next lines", played(sh("cat >file", "echo lost")))
        finally:
            shell.BLOCK_SECS = 600

    def test_a_block_is_pasted_without_pauses(self):
        # The server of this block is not ready when its client connects.
        late = "(sleep 0.3; echo ready >file) &"
        self.assertIn("a line failed", played(sh("rm -f file", late, "cat file", "wait")))

    def test_the_network_is_empty(self):
        self.assertIn("a line failed", played(sh("true </dev/tcp/127.0.0.1/11211")))


if __name__ == "__main__":
    unittest.main()
