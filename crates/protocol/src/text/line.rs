//! Finds the end of a line and refuses lines that are too long.

use memchr::memchr;

use super::SHORT_LINE_BYTES_MAX;

/// The line at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The line without its end.
    pub(super) text: &'a [u8],
    /// Its length with its end, in bytes.
    pub(super) bytes: usize,
}

impl<'a> Line<'a> {
    /// Strips the end of a line: a newline, and one carriage return before it.
    #[inline]
    pub(super) fn new(with_end: &'a [u8]) -> Self {
        let text = with_end.strip_suffix(b"\n").unwrap_or(with_end);
        Self { text: text.strip_suffix(b"\r").unwrap_or(text), bytes: with_end.len() }
    }
}

/// The result of [`find`].
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// A complete line.
    Line(Line<'a>),
    /// The beginning of a line that is not too long yet.
    Beginning,
    /// A line longer than the limit; only a list of keys may be that long.
    Long,
}

/// Finds the end of the line that `input` begins with. The first `scanned_bytes` hold no newline.
/// Whether a line is too long depends on its bytes alone, not on how they arrive.
#[inline]
pub(super) fn find(input: &[u8], scanned_bytes: usize) -> Found<'_> {
    let unscanned = input.get(scanned_bytes..).unwrap_or_default();
    let newline = memchr(b'\n', unscanned).map(|position| scanned_bytes + position);
    let text_bytes = newline.unwrap_or(input.len());
    if text_bytes > SHORT_LINE_BYTES_MAX {
        return Found::Long;
    }
    match newline.and_then(|newline| input.get(..=newline)) {
        Some(with_end) => Found::Line(Line::new(with_end)),
        None => Found::Beginning,
    }
}
