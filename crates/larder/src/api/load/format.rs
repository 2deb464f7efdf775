//! [`Format`]: the client flags that identify the format of a value.

use crate::api::signed::tag;

/// The format of the values of a [`Codec`](crate::Codec), which an item stores in its client flags.
///
/// Formats that several languages share are tags ([`tag`]): the bindings for Python, Node and PHP
/// read and write them. A format of one program has a name and a version, whose hash is in the
/// flags.
///
/// ```
/// use larder::Format;
/// use larder::signed::tag;
///
/// const JSON: Format = Format::of_tag(tag::JSON);
/// const USER: Format = Format::of_program("example.com/user", 1);
/// assert!(JSON.accepts(tag::JSON) && !JSON.accepts(USER.flags()));
/// assert_ne!(USER, Format::of_program("example.com/user", 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    flags: u32,
    also_read: u32,
}

impl Format {
    /// Returns a format that programs in several languages share. See [`tag`].
    pub const fn of_tag(tag: u32) -> Self {
        Self { flags: tag, also_read: tag }
    }

    /// Returns the format of a program, with the tag [`tag::PROGRAM`]. Values of another name or
    /// version have other flags, except with a probability of 1 in 2²⁸.
    pub const fn of_program(name: &str, version: u32) -> Self {
        let hash = hash(hash(HASH_START, name.as_bytes()), &version.to_le_bytes());
        Self::of_hash(hash)
    }

    /// Accepts values with these flags as well, for example of a format that another program
    /// writes. A format accepts two kinds of flags at most; the last call counts.
    #[must_use]
    pub const fn also_reads(mut self, flags: u32) -> Self {
        self.also_read = flags;
        self
    }

    /// Returns the client flags of the values that are stored in this format.
    pub const fn flags(self) -> u32 {
        self.flags
    }

    /// True if a value with these client flags is in this format.
    pub const fn accepts(self, flags: u32) -> bool {
        flags == self.flags || flags == self.also_read
    }

    /// Returns the format with a hash of its name, its version and other properties.
    pub(crate) const fn of_hash(hash: u64) -> Self {
        let folded = (hash ^ (hash >> 32)) as u32;
        let flags = (folded & !tag::MASK) | tag::PROGRAM;
        Self { flags, also_read: flags }
    }
}

/// The hash of no bytes.
pub(crate) const HASH_START: u64 = 0xCBF2_9CE4_8422_2325;

/// Continues a hash with a text of bytes and its length: FNV-1a with 64 bits, because the hash is
/// part of stored items and therefore must never change.
pub(crate) const fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let length = (bytes.len() as u64).to_le_bytes();
    let mut at = 0;
    while at < bytes.len() + length.len() {
        let byte = if at < bytes.len() { bytes[at] } else { length[at - bytes.len()] };
        hash = (hash ^ byte as u64).wrapping_mul(PRIME);
        at += 1;
    }
    hash
}
