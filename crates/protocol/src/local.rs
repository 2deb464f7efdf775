//! The messages between larderd and *local readers*, processes of the same machine that read the
//! memory of its cache directly. This module writes and parses them for both sides.
//!
//! A local reader first asks for the memory, and receives its description with a file descriptor.
//! The server does not see the reads of a local reader. So the reader reports some of the keys that
//! it has read, as *hints*, which the server counts for eviction and in its statistics.
//!
//! ```text
//! larder_region                  ─▶  REGION <identity> <bytes> <format> <reads per hint>, and a descriptor with it
//! larder_read <key> <key> …      ─▶  (nothing)
//! ```
//!
//! Keys are in base64, because a line cannot contain every key.
//!
//! ```
//! use larder_protocol::local;
//!
//! let mut line = local::HINT.to_vec();
//! local::push_key(&mut line, b"a key");
//! local::push_key(&mut line, b"k");
//! assert_eq!(line, b"larder_read YSBrZXk= aw==");
//! let keys = line.strip_prefix(local::HINT).unwrap_or_default();
//! let mut decoded = [0; 250];
//! let lengths: Vec<usize> =
//!     local::keys(keys).filter_map(|key| Some(local::decode(key, &mut decoded)?.len())).collect();
//! assert_eq!(lengths, [5, 1]);
//! ```

use std::io::Write;

use crate::base64;
use crate::lines::line::SHORT_LINE_BYTES_MAX;
use crate::number;

/// The request for the memory, without its line end.
pub const REQUEST: &[u8] = b"larder_region";

/// The first word of a line of hints, before the keys.
pub const HINT: &[u8] = b"larder_read";

/// The maximum length of a line of hints, without its end, in bytes.
pub const HINT_BYTES_MAX: usize = SHORT_LINE_BYTES_MAX;

/// The maximum length of the response to [`REQUEST`], without its end, in bytes.
pub const ANSWER_BYTES_MAX: usize = 128;

/// The description of a cache's memory. The file descriptor arrives with its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// A unique number of the memory. If it differs after the client has reconnected, the server
    /// has another cache.
    pub identity: u128,
    /// The size of the memory in bytes.
    pub bytes: u64,
    /// The version of the format of the memory (docs/region-format.md). A reader must not read a
    /// format that it does not support.
    pub format: u32,
    /// The number of reads that one hint represents: the statistics count each hint as this many
    /// hits.
    pub reads_per_hint: u32,
}

impl Region {
    /// Returns the line, with its end.
    pub fn line(&self) -> Vec<u8> {
        let Self { identity, bytes, format, reads_per_hint } = self;
        let mut line = Vec::new();
        write!(line, "REGION {identity:032x} {bytes} {format} {reads_per_hint}\r\n")
            .expect("writing to a Vec cannot fail");
        line
    }

    /// Parses the line, without its end; `None` if it is a different line.
    pub fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.strip_prefix(b"REGION ")?.split(|byte| *byte == b' ');
        let identity = std::str::from_utf8(words.next()?).ok()?;
        let region = Self {
            identity: u128::from_str_radix(identity, 16).ok()?,
            bytes: number::unsigned_64(words.next()?)?,
            format: number::unsigned_32(words.next()?)?,
            reads_per_hint: number::unsigned_32(words.next()?).filter(|reads| *reads > 0)?,
        };
        words.next().is_none().then_some(region)
    }
}

/// Appends a key to a line of hints.
pub fn push_key(line: &mut Vec<u8>, key: &[u8]) {
    line.push(b' ');
    base64::encode(line, key);
}

/// Splits the line after [`HINT`] into words.
pub fn keys(words: &[u8]) -> impl Iterator<Item = &[u8]> {
    words.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Decodes a word into a key; `None` if it is not valid base64 or too long for `out`.
pub fn decode<'o>(word: &[u8], out: &'o mut [u8]) -> Option<&'o [u8]> {
    base64::decode(word, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_line_is_parsed_as_written() {
        let region = Region { identity: 7 << 100, bytes: 1 << 40, format: 9, reads_per_hint: 2 };
        let line = region.line();
        assert!(line.len() <= ANSWER_BYTES_MAX, "{}", line.len());
        let line = line.strip_suffix(b"\r\n").unwrap();
        assert_eq!(Region::read(line), Some(region));
        for cut in 0..line.len() {
            assert_ne!(Region::read(&line[..cut]), Some(region), "{cut}");
        }
    }

    #[test]
    fn other_lines_are_not_region_lines() {
        for line in [
            &b"ERROR"[..],
            b"REGION",
            b"REGION ",
            b"REGION x 1 1 1",
            b"REGION 1 -1 1 1",
            b"REGION 1 1 1 0",
            b"REGION 1 1 1 1 1",
            b"REGION 100000000000000000000000000000000 1 1 1",
            b"REGION \xff 1 1 1",
        ] {
            assert_eq!(Region::read(line), None, "{}", line.escape_ascii());
        }
    }
}
