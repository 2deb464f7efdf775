//! Addresses: the position of a record in the log, which also orders records by age.

use std::fmt;
use std::num::NonZeroU64;

use crate::disk::PAGE_BYTES;
use crate::format::SEGMENT_BYTES;

/// The number of low bits in an address that store the offset in the segment, in units of 8 bytes.
const OFFSET_BITS: u32 = 19;

const _: () = assert!(SEGMENT_BYTES == 8 << OFFSET_BITS);

/// The number of a segment in the log. A number is never reused, not even after its segment is
/// lost.
///
/// There are 2⁴⁵ − 1 numbers, enough for 2⁶⁷ bytes of log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentNumber(NonZeroU64);

impl SegmentNumber {
    /// The first number of a directory.
    pub const FIRST: Self = Self(NonZeroU64::MIN);
    const MAX: u64 = (1 << (u64::BITS - OFFSET_BITS)) - 1;

    /// Converts a stored number. Returns `None` for 0 and for numbers that do not fit into an
    /// address.
    pub fn from_stored(stored: u64) -> Option<Self> {
        NonZeroU64::new(stored).filter(|number| number.get() <= Self::MAX).map(Self)
    }

    /// Returns the number as it is stored.
    pub fn stored(self) -> u64 {
        self.0.get()
    }

    /// Returns the address after the end of the segment, or `None` for the last segment.
    pub fn end(self) -> Option<Address> {
        self.further(1).map(|next| Address::new(next, 0))
    }

    /// Returns the number `count` higher, or `None` if it does not exist.
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

/// The position of a record or a unit: a segment and a multiple of 8 bytes in it.
///
/// Of two records, the one with the higher address is newer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(NonZeroU64);

impl Address {
    /// Returns the address `offset` bytes into a segment.
    ///
    /// # Panics
    ///
    /// If `offset` is past the end of the segment or not a multiple of 8.
    pub fn new(number: SegmentNumber, offset: usize) -> Self {
        assert!(offset < SEGMENT_BYTES && offset.is_multiple_of(8), "offset {offset}");
        let stored = number.stored() << OFFSET_BITS | (offset / 8) as u64;
        Self::from_stored(stored).unwrap_or_else(|| unreachable!("a number is not 0"))
    }

    /// Converts a stored address. Returns `None` if its segment number is invalid.
    pub fn from_stored(stored: u64) -> Option<Self> {
        SegmentNumber::from_stored(stored >> OFFSET_BITS)?;
        NonZeroU64::new(stored).map(Self)
    }

    /// Returns the address as it is stored.
    pub fn stored(self) -> u64 {
        self.0.get()
    }

    /// Returns the number of the segment.
    pub fn number(self) -> SegmentNumber {
        SegmentNumber::from_stored(self.stored() >> OFFSET_BITS)
            .unwrap_or_else(|| unreachable!("an address has a number"))
    }

    /// Returns the offset in the segment, in bytes.
    pub fn offset(self) -> usize {
        (self.stored() & ((1 << OFFSET_BITS) - 1)) as usize * 8
    }

    /// Returns the offset in the segment, in pages.
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
