//! What `-v` shows, on standard error.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The log. `-v` shows errors and connections coming and going, `-vv` also commands and answers.
#[derive(Debug)]
pub(crate) struct Log {
    verbosity: AtomicU8,
}

impl Log {
    pub(crate) fn new(verbosity: u8) -> Self {
        Self { verbosity: AtomicU8::new(verbosity) }
    }

    /// Shows more, or less, from now on.
    pub(crate) fn set_verbosity(&self, verbosity: u8) {
        self.verbosity.store(verbosity, Relaxed);
    }

    /// How much it shows.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbosity.load(Relaxed)
    }

    /// Are commands and answers shown?
    #[inline]
    pub(crate) fn shows_commands(&self) -> bool {
        self.verbosity() >= 2
    }

    /// Something happened to a connection, or went wrong.
    pub(crate) fn event(&self, words: fmt::Arguments<'_>) {
        if self.verbosity() >= 1 {
            say(words);
        }
    }

    /// Bytes that a connection received.
    #[cold]
    pub(crate) fn received(&self, connection: u64, bytes: &[u8]) {
        say(format_args!("<{connection} {}", Shown(bytes)));
    }

    /// Bytes that a connection is sent.
    #[cold]
    pub(crate) fn answered(&self, connection: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            say(format_args!(">{connection} {}", Shown(bytes)));
        }
    }
}

/// Writes a line whole, so that those of several threads do not mix. Nobody can be told if that fails.
fn say(words: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{words}\n").as_bytes());
}

/// A peer's bytes as a terminal can bear them: the first of them, without their line end, all but plain
/// characters escaped.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.trim_ascii_end();
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        write!(f, "{}", shown.escape_ascii())?;
        match bytes.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " ... and {more} bytes more"),
        }
    }
}

/// So much of a command or an answer is shown.
const SHOWN_BYTES_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_are_escaped_and_long_lines_are_cut() {
        assert_eq!(Shown(b"get a\x1b[2J\xff\r\n").to_string(), r"get a\x1b[2J\xff");
        let long = Shown(&[b'a'; 1000]).to_string();
        assert_eq!(long, format!("{} ... and 700 bytes more", "a".repeat(300)));
    }
}
