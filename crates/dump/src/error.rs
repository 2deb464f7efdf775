//! The errors of a dump.

use std::io;

use larder_item::KeyError;

use crate::format::{MAGIC, VALUE_BYTES_MAX, VERSION};

/// The reason why an item cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The key has an invalid length.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value is too long for a dump.
    #[error("the value has {0} bytes, expected at most {VALUE_BYTES_MAX}")]
    TooLarge(u32),
    /// The length of a value does not match its announced length.
    #[error(
        "the value of the last item needs {missing} more bytes, but {pushed} bytes were passed"
    )]
    Length {
        /// Number of missing bytes of the last item's value.
        missing: u32,
        /// Number of bytes that the caller passed; 0 if it began the next item or ended the dump.
        pushed: usize,
    },
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The reason why a dump cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input does not begin with the magic bytes of a dump.
    #[error(
        "this is not a dump of larder export: it begins with \"{found}\", expected \"{}\"; name a file that larder \
         export wrote, and decompress it first",
        MAGIC.escape_ascii()
    )]
    NotADump {
        /// The first bytes, escaped.
        found: String,
    },
    /// The dump has another version.
    #[error(
        "the dump has version {0}, expected {VERSION}; read it with the larder that wrote it, or \
         export again"
    )]
    Version(u32),
    /// The input ends before the end of the dump.
    #[error(
        "the dump ends at byte {offset} without {expected}: it was cut off; all items before \
         are complete; export again to get the others"
    )]
    Truncated {
        /// The offset of the end.
        offset: u64,
        /// The expected part.
        expected: &'static str,
    },
    /// Bytes of the dump were changed after the export.
    #[error(
        "the dump is damaged at byte {offset}: {part} is {found}, expected {expected}; all items \
         before are complete; export again to get the others"
    )]
    Damaged {
        /// The offset of the block.
        offset: u64,
        /// The damaged part of the block.
        part: &'static str,
        /// The content of the damaged part.
        found: String,
        /// The expected content.
        expected: String,
    },
    /// The input cannot be read.
    #[error("cannot read the dump at byte {offset}: {error}")]
    Io {
        /// The offset of the first byte that is missing.
        offset: u64,
        /// The system's reason.
        error: io::Error,
    },
}
