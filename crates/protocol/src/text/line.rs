//! Lines: where a request ends, and when it is too long to wait for its end.

use memchr::memchr;

use super::{LINE_BYTES_MAX, SHORT_LINE_BYTES_MAX};
use crate::{Bad, Frame, Response, ServerError};

/// The line at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// What it says, without its end.
    pub(super) text: &'a [u8],
    /// Its length, with its end.
    pub(super) bytes: usize,
}

impl<'a> Line<'a> {
    /// Cuts off the end of a line: a newline, and one carriage return before it.
    #[inline]
    pub(super) fn new(with_end: &'a [u8]) -> Self {
        let text = with_end.strip_suffix(b"\n").unwrap_or(with_end);
        Self { text: text.strip_suffix(b"\r").unwrap_or(text), bytes: with_end.len() }
    }
}

/// What [`find`] found.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// A whole line.
    Line(Line<'a>),
    /// The beginning of a line that may still become longer.
    Beginning,
    /// A line that is longer than its command may be.
    TooLong(Bad<'static>),
}

/// Looks for the end of the line that `input` begins with. Its first `scanned_bytes` are known to
/// hold no newline. Whether a line is too long depends on its bytes alone, not on how many arrive
/// at once.
#[inline]
pub(super) fn find(input: &[u8], scanned_bytes: usize) -> Found<'_> {
    let unscanned = input.get(scanned_bytes..).unwrap_or_default();
    let newline = memchr(b'\n', unscanned).map(|position| scanned_bytes + position);
    let text_bytes = newline.unwrap_or(input.len());
    if text_bytes > SHORT_LINE_BYTES_MAX
        && let Some(bad) = check_long(input, text_bytes)
    {
        return Found::TooLong(bad);
    }
    match newline.and_then(|newline| input.get(..=newline)) {
        Some(with_end) => Found::Line(Line::new(with_end)),
        None => Found::Beginning,
    }
}

/// Decides about a line of `text_bytes`, too many for most commands.
#[cold]
fn check_long(input: &[u8], text_bytes: usize) -> Option<Bad<'static>> {
    let error = if !asks_for_keys(input) {
        None
    } else if text_bytes > LINE_BYTES_MAX {
        Some(Response::ServerError(ServerError::OutOfMemoryReadingRequest))
    } else {
        return None;
    };
    Some(Bad { error, frame: Frame::default(), consumed: input.len(), swallow: 0, close: true })
}

/// Does the line begin like one that may name any number of keys?
fn asks_for_keys(line: &[u8]) -> bool {
    let spaces = line.iter().take_while(|byte| **byte == b' ').count();
    let command = line.get(spaces..).unwrap_or_default();
    let names: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];
    spaces <= LEADING_SPACES_MAX && names.iter().any(|name| command.starts_with(name))
}

/// So many spaces do not hide what a long line begins with.
const LEADING_SPACES_MAX: usize = 100;
