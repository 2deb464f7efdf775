//! Finds the end of a line and refuses lines that are too long.

use memchr::memchr;

use crate::number;

/// The end of a value, and of every line of a response.
pub const LINE_END: &[u8] = b"\r\n";

/// The maximum length of a line, without its end, in bytes. A longer line ends the connection,
/// unless it is a `get`, `gets`, `gat` or `gats`. These lines can have any number of keys, because
/// the parser yields each key when it arrives and does not need the complete line.
pub const SHORT_LINE_BYTES_MAX: usize = 2048;

/// The maximum length of a value that a line can announce, in bytes. Caches have a lower limit.
pub const VALUE_BYTES_MAX: usize = i32::MAX as usize - LINE_END.len();

/// The maximum length of a reply line in bytes. Servers do not send longer lines.
pub(crate) const REPLY_LINE_BYTES_MAX: usize = 8192;

/// Parses the length of a value.
pub(crate) fn value_bytes(word: &[u8]) -> Option<usize> {
    let bytes = usize::try_from(number::signed_32(word)?).ok()?;
    (bytes <= VALUE_BYTES_MAX).then_some(bytes)
}

/// The line at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The line without its end.
    pub(crate) text: &'a [u8],
    /// The length including the line end, in bytes.
    pub(crate) bytes: usize,
}

impl<'a> Line<'a> {
    /// Strips the end of a line: a newline, and one carriage return before it.
    #[inline]
    pub(crate) fn new(with_end: &'a [u8]) -> Self {
        let text = with_end.strip_suffix(b"\n").unwrap_or(with_end);
        Self { text: text.strip_suffix(b"\r").unwrap_or(text), bytes: with_end.len() }
    }
}

/// The result of [`find`].
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A complete line.
    Line(Line<'a>),
    /// The input contains only the beginning of a line, and it is not too long so far.
    Beginning,
    /// The line is longer than the limit. Only a list of keys may be that long.
    Long,
}

/// Finds the end of the first line of `input`. The first `scanned_bytes` do not contain a newline.
/// The result for a line that is too long does not depend on how many bytes arrive at a time.
#[inline]
pub(crate) fn find(input: &[u8], scanned_bytes: usize) -> Found<'_> {
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
