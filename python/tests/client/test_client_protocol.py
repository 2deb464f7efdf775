"""Parsers of replies, fed with pieces of any length."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

from larder_cache.client import (
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
)
from larder_cache.client.protocol import (
    MAX_LINE_BYTES,
    LinesReply,
    Reply,
    SegmentReply,
    StatsReply,
    ValuesReply,
    batches,
)

VALUE = bytes(range(256)) * 3
TWO_VALUES = b"VALUE a 1 %d\r\n%b\r\nVALUE bb 4294967295 0\r\n\r\nEND\r\n" % (len(VALUE), VALUE)

REPLIES: list[tuple[Any, bytes, Any]] = [
    (
        lambda: ValuesReply(b"get", {b"a", b"bb"}, False),
        TWO_VALUES,
        {
            b"a": (VALUE, 1, None),
            b"bb": (b"", 2**32 - 1, None),
        },
    ),
    (
        lambda: ValuesReply(b"gets", {b"a"}, True),
        b"VALUE a 0 2 18446744073709551615\r\n\r\n\r\nEND\r\n",
        {b"a": (b"\r\n", 0, b"18446744073709551615")},
    ),
    (lambda: ValuesReply(b"get", {b"a"}, False), b"END\r\n", {}),
    (lambda: LinesReply(b"set", 3), b"STORED\r\nNOT_STORED\r\nSTORED\r\n", [True, False, True]),
    (lambda: LinesReply(b"cas"), b"NOT_FOUND\r\n", [None]),
    (lambda: LinesReply(b"decr"), b"7 \r\n", [7]),
    (lambda: LinesReply(b"incr"), b"18446744073709551615\r\n", [2**64 - 1]),
    (lambda: LinesReply(b"version"), b"VERSION 1.6.45\r\n", [b"1.6.45"]),
    (
        lambda: StatsReply(b"stats"),
        b"STAT a 1\r\nSTAT b two words\r\nSTAT c\r\nEND\r\n",
        {b"a": b"1", b"b": b"two words", b"c": b""},
    ),
    (lambda: StatsReply(b"stats"), b"RESET\r\n", {}),
    (lambda: SegmentReply(b"x", b"END\r\n"), b"a\r\nEND\r\n", b"a\r\n"),
]


def feed_in_pieces(reply: Reply, data: bytes, sizes: Any) -> bytes:
    """Feeds data in pieces. Returns the bytes after the reply."""
    pos = 0
    while pos < len(data):
        piece = data[pos : pos + sizes()]
        pos += len(piece)
        end = reply.feed(piece, 0)
        if end >= 0:
            return piece[end:] + data[pos:]
    raise AssertionError("the reply is not complete")


@pytest.mark.parametrize("make, data, expected", REPLIES)
def test_a_reply_may_arrive_in_any_pieces(make: Any, data: bytes, expected: Any) -> None:
    rest = b"STORED\r\nrest"
    seed = random.randrange(2**32)
    chooser = random.Random(seed)
    all_sizes: list[Callable[[], int]] = [
        functools.partial(int, size) for size in (1, 2, 3, 7, 100, 10_000)
    ]
    all_sizes += [lambda: chooser.randrange(1, 40)] * 50
    for sizes in all_sizes:
        reply = make()
        assert feed_in_pieces(reply, data + rest, sizes) == rest, f"seed {seed}"
        assert reply.result() == expected, f"seed {seed}"


@pytest.mark.parametrize("make, data, expected", REPLIES)
def test_a_reply_may_follow_others_in_one_piece(make: Any, data: bytes, expected: Any) -> None:
    reply = make()
    assert reply.feed(b"before" + data + b"after", 6) == 6 + len(data)
    assert reply.result() == expected


@pytest.mark.parametrize(
    "line, error, text",
    [
        (b"ERROR", MemcacheUnknownCommandError, "get"),
        (b"ERROR Too many open connections", MemcacheUnknownCommandError, "Too many"),
        (b"CLIENT_ERROR bad data chunk", MemcacheClientError, "bad data chunk"),
        (b"SERVER_ERROR out of memory", MemcacheServerError, "out of memory"),
        (b"SERVER_ERROR: shutdown not enabled", MemcacheServerError, "not enabled"),
    ],
)
def test_an_error_ends_any_reply(line: bytes, error: type[Exception], text: str) -> None:
    for make in (
        lambda: ValuesReply(b"get", {b"a"}, False),
        lambda: LinesReply(b"get"),
        lambda: StatsReply(b"get"),
        lambda: SegmentReply(b"get", b"END\r\n"),
    ):
        reply = make()
        assert feed_in_pieces(reply, line + b"\r\nEND\r\n", lambda: 1) == b"END\r\n"
        with pytest.raises(error, match=text):
            reply.result()


def test_an_error_may_follow_items() -> None:
    reply = ValuesReply(b"get", {b"a"}, False)
    assert reply.feed(b"VALUE a 0 1\r\nx\r\nSERVER_ERROR out\r\n", 0) == 34
    with pytest.raises(MemcacheServerError, match="out"):
        reply.result()


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"END\n",
        b"VALUE a 0\r\n",
        b"VALUE a 0 x\r\n",
        b"VALUE a 0 -1\r\n",
        b"VALUE a 0 1_0\r\n",
        b"VALUE  0 1\r\n",
        b"VALUE a 0 1 2\r\n",
        b"VALUE other 0 1\r\nx\r\n",
        b"VALUE a 0 1\r\nxx\r\n",
        b"VALUE a 0 1\r\nx\nyEND\r\n",
        b"VALUE a 0 99999999999999999999999999\r\n",
        b"VALUE a 0 1073741825\r\n",
        b"STORED\r\n",
        b"\x80\x81\xff\r\n",
        b"x" * (MAX_LINE_BYTES + 1),
    ],
)
def test_other_bytes_are_not_a_list_of_items(data: bytes) -> None:
    for size in (1, 5, len(data)):
        reply = ValuesReply(b"get", {b"a"}, False)
        with pytest.raises(MemcacheUnknownError):
            feed_in_pieces(reply, data, lambda size=size: size)


@pytest.mark.parametrize(
    "command, line",
    [
        (b"set", b"OK"),
        (b"set", b"EXISTS"),
        (b"set", b""),
        (b"delete", b"STORED"),
        (b"incr", b"-1"),
        (b"incr", b"1" * 21),
        (b"incr", b""),
        (b"version", b"1.6"),
        (b"delete_prefix", b"OK"),
    ],
)
def test_other_lines_are_not_results(command: bytes, line: bytes) -> None:
    with pytest.raises(MemcacheUnknownError):
        LinesReply(command).feed(line + b"\r\n", 0)


def test_memory_is_used_only_for_bytes_that_arrived() -> None:
    reply = ValuesReply(b"get", {b"a"}, False)
    assert reply.feed(b"VALUE a 0 1073741824\r\nx", 0) == -1
    assert sum(map(len, reply._pieces)) == 1
    assert reply.wanted <= 1 << 20


def test_keys_are_split_into_requests_that_fit_into_the_buffers_of_a_socket() -> None:
    assert list(batches([])) == []
    assert [list(batch) for batch in batches([b"a", b"b"])] == [[b"a", b"b"]]
    keys = [b"%0250d" % number for number in range(1000)]
    split = list(batches(keys))
    assert [key for batch in split for key in batch] == keys
    assert all(len(b" ".join(batch)) <= 16 * 1024 + 250 for batch in split)


def test_any_bytes_are_a_reply_or_an_error() -> None:
    seed = random.randrange(2**32)
    chooser = random.Random(seed)
    pieces = [b"VALUE", b"END", b"STORED", b"ERROR", b"SERVER_ERROR", b"STAT", b"a", b"bb", b" "]
    pieces += [b"\r\n", b"\n", b"\r", b"0", b"1", b"18446744073709551616", b"-", b"\0", b"\xff"]
    makers = [make for make, _, _ in REPLIES]
    for _ in range(3000):
        data = bytearray(chooser.choice(REPLIES)[1][:3000])
        for _ in range(chooser.randrange(4)):
            at = chooser.randrange(len(data) + 1)
            data[at : at + chooser.randrange(3)] = chooser.choice(pieces)
        reply: Reply = chooser.choice(makers)()
        pos = 0
        while pos < len(data):
            piece = bytes(data[pos : pos + chooser.choice([1, 10, 10_000])])
            try:
                end = reply.feed(piece, 0)
            except MemcacheUnknownError:
                break
            assert -1 <= end <= len(piece), f"seed {seed}"
            assert reply.wanted > 0
            if end >= 0:
                with contextlib.suppress(MemcacheClientError, MemcacheServerError):
                    reply.result()
                break
            pos += len(piece)
