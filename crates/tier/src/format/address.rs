//! Addresses: where a record lies, and when it was written beside all others.

use std::fmt;
use std::num::NonZeroU64;

use crate::disk::PAGE_BYTES;
use crate::format::SEGMENT_BYTES;

/// Bits of an address that are the offset in the segment, in units of 8 bytes.
const OFFSET_BITS: u32 = 19;
/// Bits of a segment number below the epoch: an epoch has 2²⁰ numbers, or 4 TiB of log.
const SEQUENCE_BITS: u32 = 20;
const EPOCH_BITS: u32 = u64::BITS - OFFSET_BITS - SEQUENCE_BITS;

const _: () = assert!(SEGMENT_BYTES == 8 << OFFSET_BITS);

/// A number that a disk segment has. It is never used again, not even after its segment is lost.
///
/// The high bits are the epoch of the directory, which a start without the memory of the last one
/// raises. Of 2²⁵ epochs a directory that is started every second uses all in a year.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentNumber(NonZeroU64);

impl SegmentNumber {
    const MAX: u64 = (1 << (EPOCH_BITS + SEQUENCE_BITS)) - 1;

    /// The first number of an epoch, or `None` if there is no such epoch. Epochs begin at 1.
    pub fn first_of(epoch: u32) -> Option<Self> {
        let fits = epoch > 0 && epoch <= EPOCH_MAX;
        NonZeroU64::new(u64::from(epoch) << SEQUENCE_BITS).filter(|_| fits).map(Self)
    }

    /// The number as it is stored; `None` for 0 and for what no address has room for.
    pub fn from_stored(stored: u64) -> Option<Self> {
        NonZeroU64::new(stored).filter(|number| number.get() <= Self::MAX).map(Self)
    }

    /// The number as it is stored.
    pub fn stored(self) -> u64 {
        self.0.get()
    }

    /// The epoch that granted the number.
    pub fn epoch(self) -> u32 {
        (self.0.get() >> SEQUENCE_BITS) as u32
    }

    /// The next number of the same epoch, or `None` if the epoch has no more.
    pub fn next(self) -> Option<Self> {
        Self::from_stored(self.stored() + 1).filter(|next| next.epoch() == self.epoch())
    }
}

/// The largest epoch.
pub const EPOCH_MAX: u32 = (1 << EPOCH_BITS) - 1;

impl fmt::Debug for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequence = self.stored() & ((1 << SEQUENCE_BITS) - 1);
        write!(f, "{}.{sequence}", self.epoch())
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
