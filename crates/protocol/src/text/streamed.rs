//! The keys of a long `get`, `gets`, `gat` or `gats`, yielded as they arrive.
//!
//! A line of at most [`SHORT_LINE_BYTES_MAX`](super::SHORT_LINE_BYTES_MAX) bytes is checked
//! completely before its first key is yielded (`keys`). A longer line is never buffered. Each key
//! is consumed once the byte after it has arrived, so that a connection buffers at most one key of
//! the line. An error in the line replaces the end of the list, and the rest of the line is
//! skipped.

use larder_item::KEY_BYTES_MAX;
use memchr::{memchr, memchr2};

use super::keys::Ask;
use crate::command::Command;
use crate::frame::Frame;
use crate::lines::words::trim_spaces;
use crate::number;
use crate::parsed::{Bad, Parsed};
use crate::response::ClientError;

/// The state of a long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamedKeys {
    expected: NextToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextToken {
    /// The exptime of `gat` and `gats`.
    Exptime {
        with_cas: bool,
    },
    FirstKey(Ask),
    NextKey(Ask),
    /// The rest of a refused line.
    Refused,
}

/// The first word of the input.
enum Word<'a> {
    /// A complete word, without the spaces before it.
    Whole(&'a [u8]),
    /// The end of the line, with its length in bytes.
    LineEnd(usize),
    /// The input ends before a word or within it. The part that has arrived is not too long.
    Partial,
    /// A word longer than any key, with the length that has arrived, in bytes.
    TooLong(usize),
}

impl StreamedKeys {
    /// The rest of a line whose response is complete.
    pub(super) const REFUSED: Self = Self { expected: NextToken::Refused };

    /// Returns the list that the name of a long line announces, and the length of the name with the
    /// space after it. Returns `None` if the line does not begin with a name that allows a long
    /// list.
    pub(super) fn begin(line: &[u8]) -> Option<(Self, usize)> {
        let get = |with_cas| NextToken::FirstKey(Ask::Get { with_cas, exptime: None });
        let names: [(&[u8], NextToken); 4] = [
            (b"get ", get(false)),
            (b"gets ", get(true)),
            (b"gat ", NextToken::Exptime { with_cas: false }),
            (b"gats ", NextToken::Exptime { with_cas: true }),
        ];
        let command = trim_spaces(line);
        let spaces = line.len() - command.len();
        let (name, expected) = names.into_iter().find(|(name, _)| command.starts_with(name))?;
        if spaces > LEADING_SPACES_MAX {
            return None;
        }
        // Spaces before the name make the command unknown, like in a short line.
        let expected = if spaces > 0 { NextToken::Refused } else { expected };
        Some((Self { expected }, spaces + name.len()))
    }

    /// True if the line was refused because of its beginning. In this case the caller reports an
    /// unknown command.
    pub(super) fn is_refused(&self) -> bool {
        self.expected == NextToken::Refused
    }

    /// Returns the next result for `input`, which begins at the first byte that is not consumed,
    /// and true if the result completes the line.
    pub(super) fn next<'a>(&mut self, input: &'a [u8]) -> (Parsed<'a>, bool) {
        if self.is_refused() {
            return skip_line(input);
        }
        let rest = trim_spaces(input);
        let spaces = input.len() - rest.len();
        match (self.expected, first_word(rest)) {
            (_, Word::Partial) if spaces > 0 => (Parsed::Skipped { consumed: spaces }, false),
            (_, Word::Partial) => (Parsed::NeedMore, false),
            (NextToken::Exptime { with_cas }, Word::Whole(word)) => {
                let consumed = spaces + word.len();
                match number::exptime(word) {
                    Some(exptime) => {
                        let ask = Ask::Get { with_cas, exptime: Some(exptime) };
                        self.expected = NextToken::FirstKey(ask);
                        (Parsed::Skipped { consumed }, false)
                    }
                    None => (self.refuse(ClientError::BadExptime, consumed), false),
                }
            }
            (NextToken::Exptime { .. }, Word::TooLong(bytes)) => {
                (self.refuse(ClientError::BadExptime, spaces + bytes), false)
            }
            (NextToken::FirstKey(ask) | NextToken::NextKey(ask), Word::Whole(key)) => {
                self.expected = NextToken::NextKey(ask);
                let (command, consumed) = (ask.command(key), spaces + key.len());
                (Parsed::Command { command, frame: Frame::default(), consumed }, false)
            }
            (NextToken::NextKey(_), Word::LineEnd(bytes)) => {
                let (command, consumed) = (Command::EndOfKeys, spaces + bytes);
                (Parsed::Command { command, frame: Frame::default(), consumed }, true)
            }
            (_, Word::LineEnd(bytes)) => {
                (self.refuse(ClientError::BadFormat, spaces + bytes), true)
            }
            (_, Word::TooLong(bytes)) => {
                (self.refuse(ClientError::BadFormat, spaces + bytes), false)
            }
            (NextToken::Refused, Word::Whole(_)) => skip_line(input),
        }
    }

    /// Reports an error and skips the rest of the line.
    fn refuse(&mut self, error: ClientError, consumed: usize) -> Parsed<'static> {
        self.expected = NextToken::Refused;
        let (error, frame) = (Some(error.into()), Frame::default());
        Parsed::Bad(Bad { error, frame, consumed, swallow: 0, close: false })
    }
}

/// Skips the rest of a line, as far as it has arrived.
fn skip_line(input: &[u8]) -> (Parsed<'_>, bool) {
    match memchr(b'\n', input) {
        Some(end) => (Parsed::Skipped { consumed: end + 1 }, true),
        None if input.is_empty() => (Parsed::NeedMore, false),
        None => (Parsed::Skipped { consumed: input.len() }, false),
    }
}

/// Returns the first word or line end of `rest`. A carriage return belongs to the line end only if
/// a newline follows it.
fn first_word(rest: &[u8]) -> Word<'_> {
    let end = memchr2(b' ', b'\n', rest);
    match end.and_then(|end| rest.split_at_checked(end)) {
        Some((word, behind)) => {
            let at_line_end = behind.starts_with(b"\n");
            let word = word.strip_suffix(b"\r").filter(|_| at_line_end).unwrap_or(word);
            match word.len() {
                0 => Word::LineEnd(rest.len() - behind.len() + 1),
                1..=KEY_BYTES_MAX => Word::Whole(word),
                bytes => Word::TooLong(bytes),
            }
        }
        None => {
            let word = rest.strip_suffix(b"\r").unwrap_or(rest);
            if word.len() > KEY_BYTES_MAX { Word::TooLong(rest.len()) } else { Word::Partial }
        }
    }
}

/// The number of leading spaces after which memcached still looks for a command.
const LEADING_SPACES_MAX: usize = 100;
