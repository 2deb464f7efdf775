//! Addresses in the log, with ranges that are small enough to search.

use std::fmt;

/// The maximum number of records in a unit.
pub(crate) const RECORDS: usize = 2;

/// The number of a segment. It is never 0.
pub(crate) type Number = u8;

/// The number of segment numbers per lease.
pub(crate) const LEASED: Number = 2;

/// The position of a record: segment number, unit and place. Addresses are in the order of the
/// changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Address(u16);

impl Address {
    /// An address below every record.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(number: Number, unit: u8, place: usize) -> Self {
        Self(u16::from(number) << 8 | u16::from(unit) << 4 | place as u16)
    }

    /// Returns the address after the last record of a unit.
    pub(crate) fn end_of(number: Number, unit: u8) -> Self {
        Self::new(number, unit + 1, 0)
    }

    pub(crate) fn number(self) -> Number {
        (self.0 >> 8) as Number
    }

    pub(crate) fn unit(self) -> u8 {
        (self.0 >> 4 & 0xf) as u8
    }

    pub(crate) fn place(self) -> usize {
        usize::from(self.0 & 0xf)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.number(), self.unit(), self.place())
    }
}
