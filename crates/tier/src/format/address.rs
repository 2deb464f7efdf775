//! Addresses: where a record lies, and when it was written beside all others.

use std::fmt;
use std::num::NonZeroU64;

use crate::disk::PAGE_BYTES;
use crate::format::SEGMENT_BYTES;

/// Bits of an address that are the offset in the segment, in units of 8 bytes.
const OFFSET_BITS: u32 = 19;

const _: () = assert!(SEGMENT_BYTES == 8 << OFFSET_BITS);

/// A number that a disk segment has. It is never used again, not even after its segment is lost.
///
/// There are 2⁴⁵ − 1, or 2⁶⁷ bytes of log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentNumber(NonZeroU64);

impl SegmentNumber {
    /// The first number of a directory.
    pub const FIRST: Self = Self(NonZeroU64::MIN);
    const MAX: u64 = (1 << (u64::BITS - OFFSET_BITS)) - 1;

    /// The number as it is stored; `None` for 0 and for what no address has room for.
    pub fn from_stored(stored: u64) -> Option<Self> {
        NonZeroU64::new(stored).filter(|number| number.get() <= Self::MAX).map(Self)
    }

    /// The number as it is stored.
    pub fn stored(self) -> u64 {
        self.0.get()
    }

    /// The address after the segment; `None` after the last one.
    pub fn end(self) -> Option<Address> {
        self.further(1).map(|next| Address::new(next, 0))
    }

    /// The number `count` further, or `None` if there is none.
    pub fn further(self, count: u64) -> Option<Self> {
        Self::from_stored(self.stored().checked_add(count)?)
    }
}

impl fmt::Debug for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Where a record or a unit begins: a segment and a multiple of 8 bytes in it.
///
/// Addresses are compared to learn which of two records is newer: the order of addresses is the
/// order of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(NonZeroU64);

impl Address {
    /// The address `offset` bytes into a segment.
    ///
    /// # Panics
    ///
    /// If `offset` is not in the segment or not a multiple of 8.
    pub fn new(number: SegmentNumber, offset: usize) -> Self {
        assert!(offset < SEGMENT_BYTES && offset.is_multiple_of(8), "offset {offset}");
        let stored = number.stored() << OFFSET_BITS | (offset / 8) as u64;
        Self::from_stored(stored).unwrap_or_else(|| unreachable!("a number is not 0"))
    }

    /// The address as it is stored; `None` for one that no segment has.
    pub fn from_stored(stored: u64) -> Option<Self> {
        SegmentNumber::from_stored(stored >> OFFSET_BITS)?;
        NonZeroU64::new(stored).map(Self)
    }

    /// The address as it is stored.
    pub fn stored(self) -> u64 {
        self.0.get()
    }

    /// The segment.
    pub fn number(self) -> SegmentNumber {
        SegmentNumber::from_stored(self.stored() >> OFFSET_BITS)
            .unwrap_or_else(|| unreachable!("an address has a number"))
    }

    /// The offset in the segment, in bytes.
    pub fn offset(self) -> usize {
        (self.stored() & ((1 << OFFSET_BITS) - 1)) as usize * 8
    }

    /// The offset in the segment, in pages.
    pub fn page(self) -> usize {
        self.offset() / PAGE_BYTES
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:#x}", self.number(), self.offset())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
