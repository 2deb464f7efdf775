//! Bytes of peers in a line of the log.

use std::fmt;

/// Displays a peer's bytes safely on a terminal: truncated, without the line end, and with every
/// unprintable character escaped.
pub(super) struct Printable<'a>(pub(super) &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.trim_ascii_end();
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        write!(f, "{}", shown.escape_ascii())?;
        match bytes.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " ... and {more} more bytes"),
        }
    }
}

/// Length at which the log truncates a command or a response.
const SHOWN_BYTES_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_are_escaped_and_long_lines_are_cut() {
        assert_eq!(Printable(b"get a\x1b[2J\xff\r\n").to_string(), r"get a\x1b[2J\xff");
        let long = Printable(&[b'a'; 1000]).to_string();
        assert_eq!(long, format!("{} ... and 700 more bytes", "a".repeat(300)));
    }
}
