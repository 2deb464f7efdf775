//! A slot: one word of the index that names one record.
//!
//! ```text
//! 63      49 48  47 46  45 44       37 36            17 16            0
//! ┌─────────┬──────┬──────┬───────────┬────────────────┬───────────────┐
//! │ tag 15  │freq 2│kind 2│   gen 8   │   segment 20   │   offset 17   │   0 = empty
//! └─────────┴──────┴──────┴───────────┴────────────────┴───────────────┘
//! ```
//!
//! `tag` contains bits of the key's hash. `freq` counts recent reads of the item. `offset` counts
//! 8-byte units from the start of the segment. `gen` is the low byte of the segment's sequence when
//! the record was written. The same word, with tag and freq 0, names the pieces of a large value.

use std::fmt;

/// The value of the `kind` field of a record in memory.
const KIND_RAM: u64 = 1;

const TAG_SHIFT: u32 = 49;
const FREQ_SHIFT: u32 = 47;
const KIND_SHIFT: u32 = 45;
const GEN_SHIFT: u32 = 37;
const SEGMENT_SHIFT: u32 = 17;

/// The highest value of `freq`.
pub(crate) const FREQ_MAX: u64 = 3;

const TAG_MASK: u64 = !0 << TAG_SHIFT;
const FREQ_MASK: u64 = FREQ_MAX << FREQ_SHIFT;
const LOCATION_MASK: u64 = (1 << (KIND_SHIFT + 2)) - 1;

/// The number of bits of a tag. The index can double this many times.
pub(crate) const TAG_BITS: u32 = 15;

/// The content of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    /// The word of an empty slot, which names no record.
    pub(crate) const EMPTY: Self = Self(0);

    /// Returns the word that names the record at `offset` bytes into `segment`, written while the
    /// segment had `sequence`.
    pub(crate) fn new(segment: u32, offset: usize, sequence: u64) -> Self {
        debug_assert!(segment < 1 << 20 && offset.is_multiple_of(8) && offset < 1 << 20);
        Self(
            KIND_RAM << KIND_SHIFT
                | (sequence & 0xFF) << GEN_SHIFT
                | u64::from(segment) << SEGMENT_SHIFT
                | (offset / 8) as u64,
        )
    }

    /// Returns the word of the same record with `tag` and `freq`.
    pub(crate) fn tagged(self, tag: u64, freq: u64) -> Self {
        Self(self.0 & LOCATION_MASK | tag << TAG_SHIFT | freq << FREQ_SHIFT)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn has_tag(self, tag: u64) -> bool {
        (self.0 ^ tag << TAG_SHIFT) & TAG_MASK == 0 && self.0 != 0
    }

    /// True if the slots are equal except for their freqs.
    #[inline]
    pub(crate) fn is_same(self, other: Self) -> bool {
        (self.0 ^ other.0) & !FREQ_MASK == 0
    }

    /// Returns how often the record was recently read, up to [`FREQ_MAX`].
    #[inline]
    pub(crate) fn freq(self) -> u64 {
        (self.0 & FREQ_MASK) >> FREQ_SHIFT
    }

    /// Returns the word with another freq.
    #[inline]
    pub(crate) fn with_freq(self, freq: u64) -> Self {
        debug_assert!(freq <= FREQ_MAX);
        Self(self.0 & !FREQ_MASK | freq << FREQ_SHIFT)
    }

    pub(crate) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    /// Returns the record's identity: the word without tag and freq.
    #[inline]
    pub(crate) fn location(self) -> u64 {
        self.0 & LOCATION_MASK
    }

    #[inline]
    pub(crate) fn segment(self) -> u32 {
        (self.0 >> SEGMENT_SHIFT) as u32 & 0xF_FFFF
    }

    /// Returns the offset in bytes from the start of the segment.
    #[inline]
    pub(crate) fn offset(self) -> usize {
        (self.0 & 0x1_FFFF) as usize * 8
    }

    /// True if the record may have been written while its segment had `sequence`.
    #[inline]
    pub(crate) fn is_of(self, sequence: u64) -> bool {
        self.0 >> GEN_SHIFT & 0xFF == sequence & 0xFF
    }
}

/// Writes the place of the record for people.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_empty() {
            true => write!(f, "an empty slot"),
            false => {
                write!(f, "the record at byte {} of segment {}", self.offset(), self.segment())
            }
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "Slot(empty)");
        }
        let (tag, freq, segment, offset) = (self.tag(), self.freq(), self.segment(), self.offset());
        let generation = self.0 >> GEN_SHIFT & 0xFF;
        write!(
            f,
            "Slot(tag {tag:#x}, freq {freq}, segment {segment}, offset {offset}, gen {generation})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_restored() {
        let slot = Slot::new(0xF_FFFF, (1 << 20) - 8, 0x1FF).tagged(0x7FFF, FREQ_MAX);
        assert_eq!((slot.segment(), slot.offset(), slot.tag()), (0xF_FFFF, (1 << 20) - 8, 0x7FFF));
        assert_eq!((slot.freq(), slot.with_freq(1).freq()), (3, 1));
        assert!(slot.is_same(slot.with_freq(0)));
        assert!(slot.is_of(0xFF) && slot.has_tag(0x7FFF) && !slot.has_tag(0x7FFE));
        assert_eq!(slot.location(), Slot::new(0xF_FFFF, (1 << 20) - 8, 0xFF).location());
    }

    #[test]
    fn tag_zero_is_not_an_empty_slot() {
        assert!(!Slot::EMPTY.has_tag(0));
        assert!(Slot::new(0, 0, 0).has_tag(0));
    }
}
