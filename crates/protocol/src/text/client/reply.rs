//! Parses bytes into replies.

use memchr::memchr;

use crate::lines::line::{LINE_END, REPLY_LINE_BYTES_MAX};
use crate::number;

/// One line of a response, and for a hit also its value. Borrows from the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `VALUE`: a requested item. More items or a [`Reply::End`] follow.
    Value(Hit<'a>),
    /// `STAT`: one statistic. More statistics or a [`Reply::End`] follow.
    Stat {
        /// Its name.
        name: &'a [u8],
        /// Its value, which may contain spaces.
        value: &'a [u8],
    },
    /// `END`
    End,
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// A counter's new value.
    Number(u64),
    /// `OK`
    Ok,
    /// `RESET`
    Reset,
    /// `VERSION`: the server's version.
    Version(&'a [u8]),
    /// A line that begins with `ERROR`, `CLIENT_ERROR`, `SERVER_ERROR`, `MEMLIMIT_` or `Error `, as
    /// sent, without its end.
    Error(&'a [u8]),
}

/// A requested item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// Its value.
    pub value: &'a [u8],
    /// Its cas token, if requested.
    pub cas: Option<u64>,
}

/// The result of [`read_reply`].
pub type ParsedReply<'a> = crate::parsed_reply::ParsedReply<Reply<'a>>;

/// Reads the first reply of `input`. Keeps no state between calls, so that an incomplete reply is
/// parsed again from its beginning. That costs only one line, even if the value is long.
pub fn read_reply(input: &[u8]) -> ParsedReply<'_> {
    let Some(newline) = memchr(b'\n', input) else {
        let bytes_min = input.len() as u64 + 1;
        return if input.len() > REPLY_LINE_BYTES_MAX {
            ParsedReply::Bad
        } else {
            ParsedReply::NeedMore { bytes_min }
        };
    };
    let (line, rest) = input.split_at(newline);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let consumed = newline + 1;
    if let Some(head) = line.strip_prefix(b"VALUE ") {
        let after_line = rest.get(1..).unwrap_or_default();
        return read_hit(head, after_line, consumed);
    }
    match one_line(line) {
        Some(reply) => ParsedReply::Reply { reply, consumed },
        None => ParsedReply::Bad,
    }
}

/// Reads a hit. `head` is the line after `VALUE`, and `rest` are the bytes after the line of
/// `line_bytes`.
fn read_hit<'a>(head: &'a [u8], rest: &'a [u8], line_bytes: usize) -> ParsedReply<'a> {
    let mut words = head.split(|byte| *byte == b' ');
    let (Some(key), Some(flags), Some(value_bytes)) = (
        words.next(),
        words.next().and_then(number::unsigned_32),
        words.next().and_then(number::unsigned_32),
    ) else {
        return ParsedReply::Bad;
    };
    let cas = match words.next() {
        None => None,
        Some(word) => match number::unsigned_64(word) {
            Some(cas) => Some(cas),
            None => return ParsedReply::Bad,
        },
    };
    let block_bytes = u64::from(value_bytes) + LINE_END.len() as u64;
    let block = usize::try_from(block_bytes).ok().and_then(|bytes| rest.get(..bytes));
    let Some(block) = block else {
        return ParsedReply::NeedMore { bytes_min: line_bytes as u64 + block_bytes };
    };
    match block.strip_suffix(LINE_END) {
        Some(value) => ParsedReply::Reply {
            reply: Reply::Value(Hit { key, flags, value, cas }),
            consumed: line_bytes + block.len(),
        },
        None => ParsedReply::Bad,
    }
}

fn one_line(line: &[u8]) -> Option<Reply<'_>> {
    let reply = match line {
        b"END" => Reply::End,
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"OK" => Reply::Ok,
        b"RESET" => Reply::Reset,
        _ => return longer_line(line),
    };
    Some(reply)
}

fn longer_line(line: &[u8]) -> Option<Reply<'_>> {
    if let Some(stat) = line.strip_prefix(b"STAT ") {
        let space = memchr(b' ', stat)?;
        let (name, value) = stat.split_at(space);
        return Some(Reply::Stat { name, value: value.strip_prefix(b" ")? });
    }
    if let Some(version) = line.strip_prefix(b"VERSION ") {
        return Some(Reply::Version(version));
    }
    let errors: [&[u8]; 5] = [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"MEMLIMIT_", b"Error "];
    if errors.iter().any(|error| line.starts_with(error)) {
        return Some(Reply::Error(line));
    }
    // A decrement that shortens a counter pads it with spaces, and some servers send these spaces.
    number::unsigned_64(line.trim_ascii_end()).map(Reply::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_read_once_its_value_is_complete() {
        let input = b"VALUE k 7 5 99\r\nab\r\nc\r\nEND\r\n";
        let hit = Hit { key: b"k", flags: 7, value: b"ab\r\nc", cas: Some(99) };
        assert_eq!(
            read_reply(input),
            ParsedReply::Reply { reply: Reply::Value(hit), consumed: 23 }
        );
        for cut in 0..23 {
            let reading = read_reply(&input[..cut]);
            let ParsedReply::NeedMore { bytes_min } = reading else { panic!("{cut}: {reading:?}") };
            assert!(bytes_min > cut as u64, "{cut}: {bytes_min} bytes are already there");
            assert!(bytes_min <= 23, "{cut}: {bytes_min} bytes exceed the reply");
        }
    }

    #[test]
    fn a_value_announced_at_four_gigabytes_asks_for_bytes_and_allocates_nothing() {
        let input = b"VALUE k 0 4294967295\r\n";
        assert_eq!(read_reply(input), ParsedReply::NeedMore { bytes_min: 22 + 4_294_967_295 + 2 });
    }

    #[test]
    fn a_value_without_its_line_end_is_not_a_reply() {
        assert_eq!(read_reply(b"VALUE k 0 1\r\nabc"), ParsedReply::Bad);
    }

    #[test]
    fn numbers_may_have_spaces_behind_them() {
        let reply = Reply::Number(9);
        assert_eq!(read_reply(b"9 \r\n"), ParsedReply::Reply { reply, consumed: 4 });
    }

    #[test]
    fn statistics_keep_the_spaces_of_their_values() {
        let reply = Reply::Stat { name: b"inter", value: b"a b" };
        assert_eq!(read_reply(b"STAT inter a b\r\n"), ParsedReply::Reply { reply, consumed: 16 });
        let empty = Reply::Stat { name: b"inter", value: b"" };
        assert_eq!(
            read_reply(b"STAT inter \r\n"),
            ParsedReply::Reply { reply: empty, consumed: 13 }
        );
    }

    #[test]
    fn errors_are_kept_as_they_were_sent() {
        let reply = Reply::Error(b"SERVER_ERROR object too large for cache");
        let input = b"SERVER_ERROR object too large for cache\r\n";
        assert_eq!(read_reply(input), ParsedReply::Reply { reply, consumed: input.len() });
    }

    #[test]
    fn unknown_and_endless_lines_are_not_replies() {
        for bad in [&b"HTTP/1.1 200 OK\r\n"[..], b"\r\n", b"VALUE k 0 x\r\n", b"VALUE k\r\n"] {
            assert_eq!(read_reply(bad), ParsedReply::Bad, "{bad:?}");
        }
        assert_eq!(read_reply(&vec![b'x'; REPLY_LINE_BYTES_MAX + 1]), ParsedReply::Bad);
    }
}
