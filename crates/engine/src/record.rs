//! A record: an item, or a piece of a large value, as bytes in a segment.
//!
//! ```text
//! ┌───────────────────────────────────────────────┬─────────┬──────────┬───────┬─────┬───────┬─────┐
//! │ header 8                                      │ version │ deadline │ flags │ key │ value │ pad │
//! │ value len 24│key len 8│fields 8│mark 8│check 16 │   8?    │    4?    │  4?   │     │       │ → 8 │
//! └───────────────────────────────────────────────┴─────────┴──────────┴───────┴─────┴───────┴─────┘
//! ```
//!
//! A field with a question mark is present if its bit in `fields` is set; the widest come first so that
//! each is aligned. `check` is 16 bits of the key's hash: it makes a key comparison that fails rare, and
//! tells a walker an item from noise. The record of a large value holds a table in place of the value
//! (module [`large`](crate::large)); a piece holds the hash of its item's key in place of all fields.

use larder_item::Deadline;
use larder_region::Memory;
use std::sync::atomic::Ordering::Relaxed;

const VERSION: u8 = 1;
const DEADLINE: u8 = 2;
const FLAGS: u8 = 4;
const LARGE: u8 = 8;
const PIECE: u8 = 16;

/// The bytes every record begins with.
pub(crate) const HEADER_BYTES: usize = 8;
/// The bytes of a piece before its part of the value.
pub(crate) const PIECE_HEAD_BYTES: usize = HEADER_BYTES + 8;

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

/// Which optional fields a record has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) version: bool,
    pub(crate) deadline: bool,
    pub(crate) flags: bool,
    /// The value is a table of pieces.
    pub(crate) large: bool,
}

impl Header {
    pub(crate) fn new(fields: Fields, key_bytes: usize, value_bytes: usize, hash: u64) -> Self {
        debug_assert!(key_bytes <= 0xFF && value_bytes <= 0xFF_FFFF);
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        let bits = bit(fields.version, VERSION)
            | bit(fields.deadline, DEADLINE)
            | bit(fields.flags, FLAGS)
            | bit(fields.large, LARGE);
        Self::of_parts(bits, key_bytes, value_bytes, hash)
    }

    pub(crate) fn piece(value_bytes: usize, hash: u64) -> Self {
        Self::of_parts(PIECE, 0, value_bytes, hash)
    }

    fn of_parts(bits: u8, key_bytes: usize, value_bytes: usize, hash: u64) -> Self {
        Self(
            value_bytes as u64
                | (key_bytes as u64) << 24
                | u64::from(bits) << 32
                | (hash >> 48) << 48,
        )
    }

    #[inline]
    pub(crate) fn load(memory: &Memory, record_at: usize) -> Self {
        Self(memory.word(record_at).load(Relaxed))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        (self.0 & 0xFF_FFFF) as usize
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> usize {
        (self.0 >> 24 & 0xFF) as usize
    }

    #[inline]
    fn has(self, bit: u8) -> bool {
        self.0 >> 32 & u64::from(bit) != 0
    }

    #[inline]
    pub(crate) fn is_large(self) -> bool {
        self.has(LARGE)
    }

    pub(crate) fn is_piece(self) -> bool {
        self.has(PIECE)
    }

    /// Could this be the record of a key with this hash and length?
    #[inline]
    pub(crate) fn fits(self, hash: u64, key_bytes: usize) -> bool {
        // Key length and check in one comparison; a piece has no key, so its length never matches.
        const MASK: u64 = 0xFFFF << 48 | 0xFF << 24;
        (self.0 ^ (hash >> 48 << 48 | (key_bytes as u64) << 24)) & MASK == 0
    }

    #[inline]
    pub(crate) fn version_at(self) -> Option<usize> {
        self.has(VERSION).then_some(HEADER_BYTES)
    }

    #[inline]
    pub(crate) fn deadline_at(self) -> Option<usize> {
        let at = HEADER_BYTES + if self.has(VERSION) { 8 } else { 0 };
        self.has(DEADLINE).then_some(at)
    }

    #[inline]
    pub(crate) fn flags_at(self) -> Option<usize> {
        let before = if self.has(VERSION) { 8 } else { 0 } + if self.has(DEADLINE) { 4 } else { 0 };
        self.has(FLAGS).then_some(HEADER_BYTES + before)
    }

    /// Where the key begins.
    #[inline]
    pub(crate) fn key_at(self) -> usize {
        if self.is_piece() {
            return PIECE_HEAD_BYTES;
        }
        HEADER_BYTES
            + if self.has(VERSION) { 8 } else { 0 }
            + if self.has(DEADLINE) { 4 } else { 0 }
            + if self.has(FLAGS) { 4 } else { 0 }
    }

    /// Where the value begins.
    #[inline]
    pub(crate) fn value_at(self) -> usize {
        let key_end = self.key_at() + self.key_bytes();
        // The words of a table are changed one by one, so they are aligned.
        if self.is_large() { key_end.next_multiple_of(8) } else { key_end }
    }

    /// The length of the record, padding included.
    #[inline]
    pub(crate) fn record_bytes(self) -> usize {
        (self.value_at() + self.value_bytes()).next_multiple_of(8)
    }

    #[inline]
    pub(crate) fn deadline(self, memory: &Memory, record_at: usize) -> Deadline {
        self.deadline_at()
            .map_or(Deadline::NEVER, |at| Deadline(memory.half(record_at + at).load(Relaxed)))
    }

    #[inline]
    pub(crate) fn flags(self, memory: &Memory, record_at: usize) -> u32 {
        self.flags_at().map_or(0, |at| memory.half(record_at + at).load(Relaxed))
    }

    #[inline]
    pub(crate) fn version(self, memory: &Memory, record_at: usize) -> u64 {
        self.version_at().map_or(0, |at| memory.word(record_at + at).load(Relaxed))
    }
}

/// What is to be written as the record of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) flags: u32,
    /// Present, if only to be changed later, or absent.
    pub(crate) deadline: Option<Deadline>,
    /// Does the record carry a version? It is filled in when the record is published.
    pub(crate) versioned: bool,
    /// The value, or the table of a large one.
    pub(crate) value: &'a [u8],
    pub(crate) large: bool,
}

impl Draft<'_> {
    pub(crate) fn header(&self) -> Header {
        let fields = Fields {
            version: self.versioned,
            deadline: self.deadline.is_some(),
            flags: self.flags != 0,
            large: self.large,
        };
        Header::new(fields, self.key.len(), self.value.len(), self.hash)
    }

    /// Writes the record into a place its writer owns.
    pub(crate) fn write(&self, memory: &Memory, record_at: usize) {
        let header = self.header();
        if let (Some(at), Some(deadline)) = (header.deadline_at(), self.deadline) {
            memory.half(record_at + at).store(deadline.0, Relaxed);
        }
        if let Some(at) = header.flags_at() {
            memory.half(record_at + at).store(self.flags, Relaxed);
        }
        memory.write(record_at + header.key_at(), self.key);
        memory.write(record_at + header.value_at(), self.value);
        memory.word(record_at).store(header.word(), Relaxed);
    }
}

const _: () = assert!(PIECE_HEAD_BYTES == 16 && HEADER_BYTES == size_of::<Header>());

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: bool, deadline: bool, flags: bool) -> Header {
        Header::new(Fields { version, deadline, flags, large: false }, 20, 100, 0xABCD << 48)
    }

    #[test]
    fn absent_fields_take_no_room() {
        assert_eq!(header(false, false, false).record_bytes(), 128);
        assert_eq!(header(true, true, true).record_bytes(), 144);
    }

    #[test]
    fn present_fields_are_aligned_and_do_not_overlap() {
        let all = header(true, true, true);
        assert_eq!(
            (all.version_at(), all.deadline_at(), all.flags_at(), all.key_at()),
            (Some(8), Some(16), Some(20), 24)
        );
        let some = header(false, false, true);
        assert_eq!((some.flags_at(), some.key_at(), some.value_at()), (Some(8), 12, 32));
    }

    #[test]
    fn a_record_fits_only_its_own_hash_and_key_length() {
        let header = header(true, false, false);
        assert!(header.fits(0xABCD << 48 | 77, 20));
        assert!(!header.fits(0xABCD << 48, 21) && !header.fits(0xABCC << 48, 20));
        assert!(!Header::piece(100, 0xABCD << 48).fits(0xABCD << 48, 20));
    }
}
