//! The bytes of the format. All numbers are little-endian.

use crc32fast::Hasher;

/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;
/// Longest payload of a block, in bytes. A writer and a reader hold one block in memory.
pub const BLOCK_BYTES_MAX: usize = 64 << 10;
/// Longest value, in bytes: the largest limit (`-I`) that larderd and memcached accept.
pub const VALUE_BYTES_MAX: u32 = 1 << 30;

/// The first bytes of a dump. The first byte is not ASCII, so no text begins like a dump. The
/// newline reveals a transfer that converted line ends.
pub(crate) const MAGIC: [u8; 8] = *b"\x89LARDER\n";
/// Length of the file's header: magic, version, time of the export, checksum.
pub(crate) const FILE_HEADER_BYTES: usize = 24;
/// Length of a block's header: kind, number of the block, length of the payload, checksum.
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;
/// Length of an item's header without its key: deadline, flags, length of the value, length of the
/// key.
pub(crate) const HEAD_BYTES: usize = 17;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Item headers and values, one after the other.
    Data,
    /// The value of the last item ends early: the item is void, and readers ignore it.
    Void,
    /// The number of items. It is the last block.
    End,
}

impl Kind {
    pub(crate) fn bytes(self) -> [u8; 4] {
        match self {
            Self::Data => *b"data",
            Self::Void => *b"void",
            Self::End => *b"end.",
        }
    }

    pub(crate) fn of(bytes: [u8; 4]) -> Option<Self> {
        [Self::Data, Self::Void, Self::End].into_iter().find(|kind| kind.bytes() == bytes)
    }
}

/// An item without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key: 1 to 250 bytes of any kind.
    pub key: &'a [u8],
    /// Bits that the client stored with the item.
    pub flags: u32,
    /// The Unix time at which the item expires, in seconds; `None` if it never expires.
    pub deadline_unix_secs: Option<u64>,
    /// Length of the value, in bytes.
    pub value_bytes: u32,
}

/// Returns the header of a dump.
pub(crate) fn file_header(made_unix_secs: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&made_unix_secs.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..20]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the header of a block.
pub(crate) fn block_header(kind: Kind, number: u32, payload: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
    let payload_bytes = u32::try_from(payload.len()).expect("a payload has at most 64 KiB");
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    bytes[..4].copy_from_slice(&kind.bytes());
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
    let checksum = checksum_of(&bytes, payload);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the checksum of a block. It covers the header up to the checksum, and the payload.
pub(crate) fn checksum_of(header: &[u8; BLOCK_HEADER_BYTES], payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&header[..12]);
    hasher.update(payload);
    hasher.finalize()
}

/// Returns the header of an item without its key.
pub(crate) fn head(entry: &Entry<'_>, key_bytes: u8) -> [u8; HEAD_BYTES] {
    // In the format 0 means that the item never expires. So a deadline of 0, the beginning of 1970,
    // is written as 1, which is also in the past.
    let deadline = entry.deadline_unix_secs.map_or(0, |secs| secs.max(1));
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&deadline.to_le_bytes());
    bytes[8..12].copy_from_slice(&entry.flags.to_le_bytes());
    bytes[12..16].copy_from_slice(&entry.value_bytes.to_le_bytes());
    bytes[16] = key_bytes;
    bytes
}

/// Returns the four bytes at `at` as a number.
pub(crate) fn number_32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// Returns the eight bytes at `at` as a number.
pub(crate) fn number_64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Returns the `N` bytes at `at`. The callers have checked the length.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
