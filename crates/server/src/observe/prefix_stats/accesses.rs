//! Gets and hits by prefix, estimated from the sampled commands.

use super::table::{Prefix, Table};

/// The gets by prefix since the sampling began, or since the last `stats reset`.
#[derive(Debug)]
pub(super) struct Accesses {
    table: Table<SUMS>,
    sampled: u64,
}

/// The gets of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gets {
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    /// The likely maximum errors of both: fewer than one row in a hundred has a larger error.
    pub(crate) gets_error: u64,
    pub(crate) hits_error: u64,
}

impl Accesses {
    pub(super) fn new() -> Self {
        Self { table: Table::new(super::ROWS_MAX), sampled: 0 }
    }

    /// Counts a sample that is not a get.
    pub(super) fn count_other(&mut self) {
        self.sampled += 1;
    }

    /// Counts a sampled get that stands for `weight` gets.
    pub(super) fn count_get(&mut self, prefix: Option<&[u8]>, hit: bool, weight: u32) {
        self.sampled += 1;
        let weight = f64::from(weight);
        // A sample that stands for every get has no error.
        let square = weight * (weight - 1.0);
        let hit = f64::from(u8::from(hit));
        self.table.add(prefix, [weight, hit * weight, square, hit * square]);
    }

    /// Returns the number of samples.
    pub(super) fn sampled(&self) -> u64 {
        self.sampled
    }

    /// Returns the prefixes with their gets.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Prefix, Gets)> {
        self.table.rows().map(|(prefix, row)| (prefix, gets(&row.sums, row.error)))
    }

    /// Returns the gets of one prefix.
    pub(super) fn row(&self, prefix: &[u8]) -> Gets {
        let row = self.table.row(prefix);
        gets(&row.sums, row.error)
    }

    /// Returns the gets of the prefixes without a row.
    pub(super) fn other(&self) -> Gets {
        gets(&self.table.other, 0.0)
    }

    /// Returns the gets of the keys without a prefix.
    pub(super) fn none(&self) -> Gets {
        gets(&self.table.none, 0.0)
    }

    /// Returns all gets.
    pub(super) fn total(&self) -> Gets {
        gets(&self.table.total(), 0.0)
    }
}

/// Returns the estimate. A purge has dropped up to `lost` gets of the prefix.
fn gets(&[gets, hits, gets_squares, hits_squares]: &[f64; SUMS], lost: f64) -> Gets {
    let error = |squares: f64| (super::DEVIATIONS * squares.sqrt() + lost).ceil() as u64;
    Gets {
        gets: gets as u64,
        hits: hits as u64,
        gets_error: error(gets_squares),
        hits_error: error(hits_squares),
    }
}

/// The sums of a prefix: gets, hits, and the variances of both.
const SUMS: usize = 4;
