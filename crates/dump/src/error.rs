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
    /// The value is longer than a dump can hold.
    #[error("the value has {0} bytes, expected at most {VALUE_BYTES_MAX}")]
    TooLarge(u32),
    /// The bytes of the values do not match the announced lengths.
    #[error("{missing} bytes of a value are missing, and {pushed} more bytes were to be written")]
    Length {
        /// How many bytes of the last item's value are missing.
        missing: u32,
        /// How many bytes the caller passed; 0 for the next item or the end.
        pushed: usize,
    },
    /// The output takes no bytes.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The reason why a dump cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input does not begin as a dump.
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
    /// The input ends before the dump does.
    #[error(
        "the dump ends at byte {offset} without {expected}: it was cut off; all items before are \
         whole, export again for the others"
    )]
    Truncated {
        /// The offset of the end.
        offset: u64,
        /// The expected part.
        expected: &'static str,
    },
    /// Bytes of the dump are not as they were written.
    #[error(
        "the dump is damaged at byte {offset}: {part} is {found}, expected {expected}; all items \
         before are whole, export again for the others"
    )]
    Damaged {
        /// The offset of the block.
        offset: u64,
        /// The part of the block that is wrong.
        part: &'static str,
        /// Its content.
        found: String,
        /// The content of an undamaged dump.
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
